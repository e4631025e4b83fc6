//! `runner --suite …`: plans a run and executes it.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::worker_link::{FromWorker, ListOperators, OperatorCase, ToWorker};
use protocol::{Direction, Suite};

use super::blocking;
use super::durations::Durations;
use super::models::load_models;
use super::new_run::Planned;
use super::session::{Tools, Wanted, open_device};
use super::{record, say, selection};
use crate::Error;
use crate::args::{PlanArgs, RunArgs};
use crate::client::Client;
use crate::exit::Exit;
use crate::filter::Filter;
use crate::golden::GoldenUse;
use crate::golden::store::Store;
use crate::narrow::narrow;
use crate::plan::{self, Axes, PlannedCase};
use crate::run_dir::{Plan, RunDir, Settings};
use crate::worker::LogFolder;
use crate::worker::link::ReceiveError;
use crate::worker::worker::Worker;

/// Label that says what Tier 2 was compared with.
const REFERENCE_LABEL: &str = "reference";
/// How long making the samples of every operator entry may take.
const LISTING_LIMIT: Duration = Duration::from_secs(1800);

/// Plans and executes.
pub(super) async fn execute(args: &RunArgs) -> Result<Exit, Error> {
    let goldens = args.golden.usage(&args.device.python.setup.directory());
    if let Some(GoldenUse::Compare { location, cache }) = &goldens {
        if !args.plan.suites().contains(&Suite::Tier2) {
            return Err(Error::Usage {
                message: "`--golden` is for Tier 2, which is not among the suites".to_owned(),
                hint: "add `--tier 2`, or leave `--golden` out".to_owned(),
            });
        }
        let store = Store::open(location, cache)?;
        blocking(move || store.is_there()).await?;
    }
    execute_with(args, goldens).await
}

/// Plans and executes, with goldens or without.
pub(super) async fn execute_with(
    args: &RunArgs,
    goldens: Option<GoldenUse>,
) -> Result<Exit, Error> {
    let inputs = PlanInputs::read(&args.plan)?;
    let waivers = args.results.waivers()?;
    let push = args.results.push.clone().filter(|url| !url.is_empty());
    let client = match &push {
        Some(url) => Some(Client::new(url, args.server.token()?)?),
        None => None,
    };
    let runs_dir = args.results.runs.directory();
    if let Some(key) = &args.results.run_key {
        RunDir::refuse_existing(&runs_dir, key, args.plan.shard)?;
    }
    let durations = match &args.plan.balance {
        Some(source) => Some(Durations::read(source, &runs_dir, &args.server).await?),
        None => None,
    };
    let tools = Tools::prepare(&args.device.python)?;
    let new = RunDir::begin(&runs_dir)?;
    let logs = LogFolder::new(new.logs());
    let execution = &args.execution;
    let device = &args.device;
    let wanted = Wanted {
        jobs: device.jobs,
        address_space_mib: execution.address_space_mib,
        faults: device.fault.iter().cloned().collect(),
        backend: device.backend,
    };
    let mut ready =
        open_device(&tools, device.device, &wanted, &logs).await.inspect_err(|_| new.keep())?;
    let mut cases = inputs.plan(&args.plan, &mut ready.worker).await?;
    if let Some(GoldenUse::Record { folder }) = &goldens {
        let mut versions = ready.backend.versions().await;
        versions.extend(ready.probed.versions.clone());
        cases = record::still_to_record(cases, folder, args.plan.seed, &versions)?;
        if cases.is_empty() {
            ready.backend.stop().await;
            return Ok(Exit::Success);
        }
    }
    let balance = match (&durations, args.plan.shard) {
        (Some(durations), Some(shard)) => Some(durations.balance(&cases, shard)),
        (None, _) | (_, None) => None,
    };
    let labels = labels(args, goldens.as_ref());
    let settings = Settings {
        profile: ready.profile.to_string(),
        device_reason: ready.reason.clone(),
        jobs: device.jobs,
        retries: execution.retries,
        compile_timeout: execution.compile_timeout,
        execute_timeout: execution.execute_timeout,
        recycle_after: execution.recycle_after,
        recycle_growth_mib: execution.recycle_growth_mib,
        address_space_mib: execution.address_space_mib,
        seed: args.plan.seed,
        shard: args.plan.shard,
        order_replays: execution.order_replays,
        shuffle: execution.shuffle,
        faults: wanted.faults,
        backend: device.backend,
        goldens,
        python: tools.environment.executable.clone(),
        push,
    };
    let planned = Planned {
        new,
        runs_dir: &runs_dir,
        logs: &logs,
        tools: &tools,
        key: args.results.run_key.clone(),
        suites: args.plan.suites(),
        labels,
        plan: Plan { settings, cases, balance },
        ready,
        client,
        waivers,
        form: args.results.form(),
    };
    planned.execute().await
}

/// The user's labels, and what results depend on that nothing else of a run says.
fn labels(args: &RunArgs, goldens: Option<&GoldenUse>) -> BTreeMap<String, String> {
    let backend = args.device.backend.map(|backend| ("backend".to_owned(), backend.to_string()));
    let tier2 = args.plan.suites().contains(&Suite::Tier2);
    let reference = tier2.then(|| (REFERENCE_LABEL.to_owned(), reference_of(goldens)));
    args.results.label.iter().cloned().chain(backend).chain(reference).collect()
}

/// What Tier 2 of a run is compared with, for its label.
fn reference_of(goldens: Option<&GoldenUse>) -> String {
    match goldens {
        Some(GoldenUse::Compare { location, .. }) => {
            // Only its last part: a path of one host says nothing on another.
            let name = location.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
            format!("golden {name}")
        }
        Some(GoldenUse::Record { .. }) => "cpu, computed with each case; recorded".to_owned(),
        None => "cpu, computed with each case".to_owned(),
    }
}

/// What a plan is made of, read and checked before anything slow happens.
#[derive(Debug)]
pub(super) struct PlanInputs {
    suites: Vec<Suite>,
    entries: Vec<String>,
    models: Vec<plan::PlannedModel>,
    filter: Filter,
}

impl PlanInputs {
    pub(super) fn read(args: &PlanArgs) -> Result<Self, Error> {
        let suites = args.suites();
        if suites.is_empty() {
            return Err(Error::Usage {
                message: "no suite is chosen".to_owned(),
                hint: "choose with `--suite operators` or `--tier 1 --model-list FILE`; \
                       `runner --help` lists the suites and commands"
                    .to_owned(),
            });
        }
        let needs_models = suites.iter().find(|suite| **suite != Suite::Operators);
        if let Some(suite) = needs_models
            && args.model_list.is_empty()
        {
            return Err(Error::Usage {
                message: format!("the suite `{suite}` needs a model list"),
                hint: "name one with `--model-list FILE`".to_owned(),
            });
        }
        let filter = Filter::parse(&args.filter)?;
        let mut entries = Vec::new();
        if suites.contains(&Suite::Operators) {
            entries = selection::entries(&args.selection)?;
        }
        let models = load_models(&args.model_list, !args.no_dedupe)?;
        Ok(Self { suites, entries, models, filter })
    }

    /// Whether a worker must be asked for the operator cases.
    pub(super) fn needs_worker(&self) -> bool {
        self.suites.contains(&Suite::Operators)
    }

    /// Lists the cases; `worker` knows the operator database.
    pub(super) async fn plan(
        &self,
        args: &PlanArgs,
        worker: &mut Worker,
    ) -> Result<Vec<PlannedCase>, Error> {
        let operators =
            if self.needs_worker() { self.list_operators(args, worker).await? } else { Vec::new() };
        self.plan_with(args, &operators)
    }

    /// Lists the cases, given those of the operator database.
    pub(super) fn plan_with(
        &self,
        args: &PlanArgs,
        operators: &[OperatorCase],
    ) -> Result<Vec<PlannedCase>, Error> {
        let axes = Axes {
            suites: self.suites.clone(),
            modes: args.mode.clone(),
            dtypes: args.dtype.clone(),
            directions: args.direction.clone(),
            dynamic_forms: args.dynamic_form.clone(),
            checkpoints: args.checkpoint,
        };
        let cases = plan::plan_cases(&axes, operators, &self.models)?;
        plan::select(cases, &self.filter)
    }

    async fn list_operators(
        &self,
        args: &PlanArgs,
        worker: &mut Worker,
    ) -> Result<Vec<OperatorCase>, Error> {
        let mut question = ListOperators {
            entries: self.entries.clone(),
            dtypes: args.dtype.clone(),
            samples: args.most_samples(),
            forms: args.forms(),
            gradients: args.direction.contains(&Direction::Train),
        };
        say("listing the cases of PyTorch's operator database");
        if !args.filter.is_empty() && question.entries.is_empty() {
            question.entries = name_entries(worker).await?;
            narrow(&mut question, &args.mode, &self.filter);
            if question.entries.is_empty() {
                // To the worker no entries are all of them.
                return Ok(Vec::new());
            }
        }
        let answer = ask(worker, &ToWorker::ListOperators(question)).await?;
        let FromWorker::OperatorsListed { cases, unknown, problems } = answer else {
            return Err(not_listed("the worker gave another answer"));
        };
        if let Some(first) = unknown.first() {
            return Err(Error::Input {
                message: format!("PyTorch's operator database has no entry `{first}`"),
                hint: format!(
                    "names are those of `OpInfo.full_name`, for example `nn.functional.relu`; {} \
                     of the selection are unknown",
                    unknown.len()
                ),
            });
        }
        for (entry, problem) in &problems {
            say(&format!("note: the samples of `{entry}` cannot be made: {problem}"));
        }
        Ok(cases)
    }
}

async fn name_entries(worker: &mut Worker) -> Result<Vec<String>, Error> {
    let answer = ask(worker, &ToWorker::NameEntries).await?;
    let FromWorker::EntriesNamed { entries } = answer else {
        return Err(not_listed("the worker gave another answer"));
    };
    Ok(entries)
}

async fn ask(worker: &mut Worker, question: &ToWorker) -> Result<FromWorker, Error> {
    worker.send(question).await.map_err(|error| not_listed(&error.to_string()))?;
    match tokio::time::timeout(LISTING_LIMIT, worker.receive()).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(ReceiveError::Closed)) => Err(not_listed(&worker.describe_death().await)),
        Ok(Err(ReceiveError::Garbage(error))) => Err(not_listed(&error.to_string())),
        Err(_) => {
            let limit = LISTING_LIMIT.as_secs();
            Err(not_listed(&format!("listing the cases took longer than {limit} s")))
        }
    }
}

fn not_listed(problem: &str) -> Error {
    Error::Environment {
        message: format!("the operator cases cannot be listed: {problem}"),
        hint: "`runner doctor` checks the environment".to_owned(),
    }
}
