//! `runner resume`: executes what an interrupted run has no result for.

use super::say;
use super::session::{Tools, Wanted, open_device};
use super::start::Start;
use crate::Error;
use crate::args::ResumeArgs;
use crate::client::Client;
use crate::device::{DeviceChoice, Profile};
use crate::exit::Exit;
use crate::journal::{self, Record};
use crate::report::console::Form;
use crate::run_dir::RunDir;
use crate::worker::LogFolder;

pub(super) async fn execute(args: &ResumeArgs) -> Result<Exit, Error> {
    let run_dir = RunDir::find(&args.runs.directory(), &args.run)?;
    drop(run_dir.lock()?);
    let run = run_dir.run()?;
    let plan = run_dir.plan()?;
    let manifest = run_dir.manifest()?;
    let contents = journal::read(&run_dir.journal())?;
    if contents.torn_bytes > 0 {
        let bytes = contents.torn_bytes;
        say(&format!("note: the last {bytes} bytes of the journal are no whole record"));
    }
    let is_attempt = |record| match record {
        Record::Attempt(attempt) => Some(*attempt),
        Record::Started { .. } | Record::Finding { .. } | Record::Ended { .. } => None,
    };
    let earlier = contents.records.into_iter().filter_map(is_attempt).collect();
    let push = args.push.clone().filter(|url| !url.is_empty()).or(plan.settings.push.clone());
    let client = match &push {
        Some(url) => Some(Client::new(url, args.server.token()?)?),
        None => None,
    };
    let mut python = args.python.clone();
    python.python = python.python.or(Some(plan.settings.python.clone()));
    let tools = Tools::prepare(&python)?;
    let settings = &plan.settings;
    let profile: Profile = settings.profile.parse().map_err(|error| Error::Input {
        message: format!("the plan of `{}` is damaged: {error}", run_dir.name()),
        hint: String::new(),
    })?;
    let logs = LogFolder::new(run_dir.next_logs()?);
    let choice = DeviceChoice::Named(profile);
    let wanted = Wanted {
        jobs: settings.jobs,
        address_space_mib: settings.address_space_mib,
        faults: settings.faults.clone(),
        backend: settings.backend,
    };
    let ready = open_device(&tools, choice, &wanted, &logs).await?;
    let versions = ready.backend.versions().await;
    for name in ["torch", "torch_tpu", "libtpu"] {
        let (then, now) = (run.versions.get(name), versions.get(name));
        if then != now {
            let word = |v: Option<&String>| v.cloned().unwrap_or_else(|| "none".to_owned());
            ready.backend.stop().await;
            return Err(Error::Usage {
                message: format!(
                    "run `{}` began with {name} {}, and this environment has {}",
                    run.run_key,
                    word(then),
                    word(now)
                ),
                hint: "a run is one version of everything: start a new run".to_owned(),
            });
        }
    }
    let form = Form::of(args.json);
    Start { run_dir, run, plan, manifest, earlier, ready, client, form }.execute().await
}
