//! `runner list`: the plan, and nothing else.

use super::durations::Durations;
use super::print;
use super::run::PlanInputs;
use super::session::Tools;
use crate::Error;
use crate::args::ListArgs;
use crate::backend::{Backend, Limits};
use crate::device::Profile;
use crate::exit::Exit;
use crate::plan;
use crate::worker::LogFolder;

pub(super) async fn execute(args: &ListArgs) -> Result<Exit, Error> {
    let inputs = PlanInputs::read(&args.plan)?;
    let durations = match &args.plan.balance {
        Some(source) => Some(Durations::read(source, &args.runs.directory(), &args.server).await?),
        None => None,
    };
    let cases = if inputs.needs_worker() {
        list_with_worker(args, &inputs).await?
    } else {
        inputs.plan_with(&args.plan, &[])?
    };
    let balance = match (&durations, args.plan.shard) {
        (Some(durations), Some(shard)) => Some(durations.balance(&cases, shard)),
        (None, _) | (_, None) => None,
    };
    let held = |key: &protocol::CaseKey| match (args.plan.shard, &balance) {
        (None, _) => true,
        (Some(shard), None) => shard.holds(key),
        (Some(shard), Some(balance)) => balance.holds(shard, key),
    };
    let keys: Vec<_> = cases.iter().map(|case| &case.key).filter(|key| held(key)).collect();
    let mut text = String::new();
    if args.json {
        let manifest = plan::manifest(&cases);
        let head = serde_json::json!({"manifest": manifest.hash, "planned": cases.len()});
        text.push_str(&format!("{head}\n"));
        for key in &keys {
            text.push_str(&format!("{}\n", serde_json::json!({"case": key})));
        }
    } else {
        for key in &keys {
            text.push_str(key.as_str());
            text.push('\n');
        }
    }
    print(&text)?;
    Ok(Exit::Success)
}

/// The operator database is PyTorch's; listing it executes on the CPU only.
async fn list_with_worker(
    args: &ListArgs,
    inputs: &PlanInputs,
) -> Result<Vec<plan::PlannedCase>, Error> {
    let tools = Tools::prepare(&args.python)?;
    let logs = tempfile::tempdir().map_err(Error::file("write", &std::env::temp_dir()))?;
    let launch = tools.launch(Profile::Cpu, LogFolder::new(logs.path().to_owned()));
    let failed = |error: crate::worker::StartError| Error::Backend {
        device: Profile::Cpu.to_string(),
        message: error.message,
        hint: error.hint,
    };
    let backend = Backend::start(launch, Limits { address_space_bytes: None, starts: 1 })
        .await
        .map_err(failed)?;
    let mut worker = backend.worker(std::collections::BTreeMap::new()).await.map_err(failed)?;
    let cases = inputs.plan(&args.plan, &mut worker).await;
    backend.stop().await;
    cases
}
