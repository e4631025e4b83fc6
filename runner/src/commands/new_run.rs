//! From a plan on an open device to a kept run that is executed; what `run` and `rerun` share.

use std::collections::BTreeMap;
use std::path::Path;

use chrono::Utc;
use protocol::ingest_api::create_run;
use protocol::{PROTOCOL_VERSION, RunKey, Suite};

use super::say;
use super::session::{Ready, Tools};
use super::start::Start;
use crate::Error;
use crate::balance;
use crate::client::Client;
use crate::compare::ToleranceTable;
use crate::exit::Exit;
use crate::plan;
use crate::report::console::Form;
use crate::run_dir::{NewRun, Plan, RunDir};
use crate::waivers::Waivers;
use crate::worker::LogFolder;

/// A run that is planned, and not kept yet.
#[derive(Debug)]
pub(super) struct Planned<'a> {
    /// Its folder, without a name.
    pub(super) new: NewRun,
    /// Where it will be kept.
    pub(super) runs_dir: &'a Path,
    /// Its logs, in the folder.
    pub(super) logs: &'a LogFolder,
    /// Python and what is executed in it.
    pub(super) tools: &'a Tools,
    /// Its key; one is made from the time where there is none.
    pub(super) key: Option<RunKey>,
    /// Suites asked for.
    pub(super) suites: Vec<Suite>,
    /// Labels kept with it, beside the seed of its order of execution.
    pub(super) labels: BTreeMap<String, String>,
    /// Its cases and settings.
    pub(super) plan: Plan,
    /// The open device.
    pub(super) ready: Ready,
    /// Where to send results.
    pub(super) client: Option<Client>,
    /// Whose leave failures have.
    pub(super) waivers: Waivers,
    /// How its end is told.
    pub(super) form: Form,
}

impl Planned<'_> {
    /// Keeps it, and executes it to its end.
    pub(super) async fn execute(mut self) -> Result<Exit, Error> {
        let inventory = self.ready.worker.inventory().await;
        let shard = self.plan.settings.shard;
        let run = self.describe().await;
        let manifest = plan::manifest(&self.plan.cases);
        RunDir::refuse_other_plan(self.runs_dir, &run, &manifest.hash, shard)?;
        self.new.write_run(&run)?;
        self.new.write_manifest(&manifest)?;
        self.new.write_plan(&self.plan)?;
        match inventory {
            Ok(inventory) => self.new.write_inventory(&inventory)?,
            // Coverage has no ground then, and says so; what is executed stands.
            Err(why) => say(&format!("warning: there is no inventory of operators: {why}")),
        }
        if !self.waivers.file.is_empty() {
            self.new.write_waivers(&self.waivers)?;
        }
        let run_dir = self.new.name_it(self.runs_dir, &run.run_key, shard)?;
        self.logs.moved_to(run_dir.logs());
        let (plan, ready, client, form) = (self.plan, self.ready, self.client, self.form);
        let earlier = Vec::new();
        Start { run_dir, run, plan, manifest, earlier, ready, client, form }.execute().await
    }

    async fn describe(&self) -> create_run::Request {
        let (ready, tools) = (&self.ready, self.tools);
        let mut versions: BTreeMap<String, String> = ready.backend.versions().await;
        versions.extend(ready.probed.versions.clone());
        versions.insert("runner".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        versions.insert("tolerances".to_owned(), ToleranceTable::embedded().id().to_owned());
        let (major, minor, micro) = tools.environment.version;
        versions.entry("python".to_owned()).or_insert(format!("{major}.{minor}.{micro}"));
        if let Some(lock) = &tools.lock {
            versions.insert("python_lock".to_owned(), lock.clone());
        }
        let mut labels = self.labels.clone();
        if let Some(seed) = self.plan.settings.shuffle {
            labels.insert("shuffle".to_owned(), seed.to_string());
        }
        if let Some(balance) = &self.plan.balance {
            labels.insert(balance::LABEL.to_owned(), balance.hash());
        }
        create_run::Request {
            protocol_version: PROTOCOL_VERSION,
            run_key: self.key.clone().unwrap_or_else(|| new_key(ready)),
            suites: self.suites.clone(),
            device_profile: ready.profile.to_string(),
            device_kind: ready.probed.device_kind.clone(),
            simulated: ready.probed.simulated || ready.profile.is_simulated(),
            versions,
            host: host_name(),
            started_at: Utc::now(),
            labels,
        }
    }
}

/// `20261130-051145-tpu-sim-7f3a2b`.
fn new_key(ready: &Ready) -> RunKey {
    let time = Utc::now().format("%Y%m%d-%H%M%S");
    let chance = rand::random_range(0..0x0100_0000);
    let key = format!("{time}-{}-{chance:06x}", ready.profile);
    key.parse().expect("it is made of allowed characters")
}

fn host_name() -> String {
    let read = |path: &str| std::fs::read_to_string(Path::new(path)).ok();
    read("/proc/sys/kernel/hostname").map(|name| name.trim().to_owned()).unwrap_or_default()
}
