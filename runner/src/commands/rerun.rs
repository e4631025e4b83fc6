//! `runner rerun`: executes again, as a new run, those cases of a run that came out badly.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use protocol::{CaseKey, RunKey, Suite};

use super::models::load_models;
use super::new_run::Planned;
use super::say;
use super::session::{Tools, Wanted, open_device};
use crate::Error;
use crate::args::{ExecutionArgs, RerunArgs, USUAL_SEED};
use crate::client::Client;
use crate::device::{DeviceChoice, Profile};
use crate::event::CaseResult;
use crate::exit::Exit;
use crate::journal::{self, Record};
use crate::plan::PlannedCase;
use crate::report::console::Form;
use crate::rerun::{choose, parse_address, plan_keys, result_of};
use crate::run_dir::{Plan, RunDir, Settings};
use crate::waivers::Waivers;
use crate::worker::LogFolder;

pub(super) async fn execute(args: &RerunArgs) -> Result<Exit, Error> {
    let runs_dir = args.runs.directory();
    if let Some(key) = &args.run_key {
        RunDir::refuse_existing(&runs_dir, key, None)?;
    }
    let chosen = match parse_address(&args.from)? {
        Some((server, key)) => Chosen::from_server(args, &server, key).await?,
        None => Chosen::from_kept(args, &RunDir::find_or_open(&runs_dir, &args.from)?)?,
    };
    let waivers = args.judgement.read().unwrap_or(Ok(chosen.waivers))?;
    say(&format!("{} of {} cases of `{}`", chosen.cases.len(), chosen.planned, chosen.run));
    let settings = args.over(chosen.settings);
    let client = match &settings.push {
        Some(url) => Some(Client::new(url, args.server.token()?)?),
        None => None,
    };
    let mut python = args.python.clone();
    let of_run = Some(settings.python.clone()).filter(|path| !path.as_os_str().is_empty());
    python.python = python.python.filter(|path| !path.as_os_str().is_empty()).or(of_run);
    let choice = match args.device {
        Some(choice) => choice,
        None => DeviceChoice::Named(profile_of(&settings, &chosen.run)?),
    };
    let tools = Tools::prepare(&python)?;
    let new = RunDir::begin(&runs_dir)?;
    let logs = LogFolder::new(new.logs());
    let wanted = Wanted {
        jobs: settings.jobs,
        address_space_mib: settings.address_space_mib,
        faults: settings.faults.clone(),
        backend: settings.backend,
    };
    let ready = open_device(&tools, choice, &wanted, &logs).await.inspect_err(|_| new.keep())?;
    let settings = Settings {
        profile: ready.profile.to_string(),
        device_reason: ready.reason.clone(),
        python: tools.environment.executable.clone(),
        ..settings
    };
    let mut labels: BTreeMap<String, String> = args.label.iter().cloned().collect();
    labels.insert("rerun_of".to_owned(), chosen.run.to_string());
    let is_planned = |suite: &&Suite| chosen.cases.iter().any(|case| case.key.suite() == **suite);
    let planned = Planned {
        new,
        runs_dir: &runs_dir,
        logs: &logs,
        tools: &tools,
        key: args.run_key.clone(),
        suites: Suite::ALL.iter().filter(is_planned).copied().collect(),
        labels,
        plan: Plan { settings, cases: chosen.cases, balance: None },
        ready,
        client,
        waivers,
        form: Form::of(args.json),
    };
    planned.execute().await
}

fn profile_of(settings: &Settings, run: &RunKey) -> Result<Profile, Error> {
    settings.profile.parse().map_err(|error| Error::Input {
        message: format!("run `{run}` was on a device that this runner does not know: {error}"),
        hint: "choose one with `--device`".to_owned(),
    })
}

/// What is executed again.
struct Chosen {
    run: RunKey,
    settings: Settings,
    /// How many cases the run had.
    planned: usize,
    cases: Vec<PlannedCase>,
    /// Those that the run had.
    waivers: Waivers,
}

impl Chosen {
    /// From a run's folder, where the plan is with everything that a worker needs.
    fn from_kept(args: &RerunArgs, run_dir: &RunDir) -> Result<Self, Error> {
        // A run in work lacks cases that it will have. A folder that cannot be written to has
        // nobody at work in it.
        if let Err(error @ Error::Usage { .. }) = run_dir.lock() {
            return Err(error);
        }
        let (run, plan) = (run_dir.run()?, run_dir.plan()?);
        let mut results: HashMap<CaseKey, CaseResult> = HashMap::new();
        journal::scan(&run_dir.journal(), |record| match record {
            Record::Attempt(attempt) => {
                let before = results.get(&attempt.case).copied();
                let now = before.map_or(CaseResult::Steady(attempt.outcome), |before| {
                    before.and(attempt.outcome)
                });
                results.insert(attempt.case, now);
            }
            Record::Started { .. } | Record::Finding { .. } | Record::Ended { .. } => {}
        })?;
        let with_result = |case: PlannedCase| {
            let result = results.get(&case.key).copied();
            (case, result)
        };
        let held = plan.cases.iter().filter(|case| plan.holds(&case.key));
        let cases: Vec<_> = held.cloned().map(with_result).collect();
        let planned = cases.len();
        let cases = choose(&run_dir.name(), cases, &args.only)?;
        let waivers = run_dir.waivers()?;
        Ok(Self { run: run.run_key, settings: plan.settings, planned, cases, waivers })
    }

    /// From a server, which knows keys and outcomes: the rest is planned again.
    async fn from_server(args: &RerunArgs, server: &str, run: RunKey) -> Result<Self, Error> {
        let models = load_models(&args.model_list, false)?;
        let client = Client::new(server, args.server.token()?)?;
        let failed = |error: crate::client::SendError| error.into_error(server);
        let profile = client.device_profile(&run).await.map_err(failed)?;
        let served = client.cases(&run).await.map_err(failed)?;
        let planned = served.len();
        let with_result = |case: crate::client::ServedCase| {
            let result = result_of(case.verdict, case.outcome);
            (case.case, result)
        };
        let keys = choose(run.as_str(), served.into_iter().map(with_result).collect(), &args.only)?;
        let cases = plan_keys(&keys, &models)?;
        if args.seed.is_none() {
            say(&format!("note: the server does not keep the run's seed; it is {USUAL_SEED} here"));
        }
        let settings = usual_settings(profile);
        Ok(Self { run, settings, planned, cases, waivers: Waivers::default() })
    }
}

/// What a run has when nothing is said.
fn usual_settings(profile: String) -> Settings {
    let usual = ExecutionArgs::usual();
    Settings {
        profile,
        device_reason: None,
        jobs: 0,
        retries: usual.retries,
        compile_timeout: usual.compile_timeout,
        execute_timeout: usual.execute_timeout,
        recycle_after: usual.recycle_after,
        recycle_growth_mib: usual.recycle_growth_mib,
        address_space_mib: usual.address_space_mib,
        seed: USUAL_SEED,
        shard: None,
        order_replays: usual.order_replays,
        shuffle: usual.shuffle,
        faults: BTreeMap::new(),
        backend: None,
        goldens: None,
        python: PathBuf::new(),
        push: None,
    }
}
