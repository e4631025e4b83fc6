//! Settings of `rerun`: what is not given is taken from the run whose cases are executed again.

use std::path::PathBuf;

use clap::Args;
use protocol::RunKey;

use super::words::parse_label;
use super::{JudgementArgs, PythonArgs, RunsDirArgs, ServerArgs};
use crate::device::DeviceChoice;
use crate::rerun::Only;
use crate::run_dir::Settings;

/// Settings of `rerun`.
#[derive(Debug, Args)]
pub struct RerunArgs {
    /// Run whose cases are executed again: its key, `latest`, the path of its directory, or its
    /// address on a server, as `https://host/runs/KEY`.
    #[arg(long, value_name = "RUN")]
    pub from: String,
    /// Which of its cases: `failed` (ended as anything but pass or skipped), `flaky`, `missing` (no
    /// attempt), or an outcome, as `crash`; with commas, may be repeated.
    #[arg(
        long,
        value_name = "WORDS",
        value_delimiter = ',',
        default_value = "failed,flaky,missing"
    )]
    pub only: Vec<Only>,
    /// Model list file, for the model cases of a run on a server; may be repeated.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub model_list: Vec<PathBuf>,
    /// Device [auto, tpu, tpu-sim, cuda, cpu, faulty] in place of that of the run.
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<DeviceChoice>,
    /// Worker processes; 0 is one per device slot.
    #[arg(long, value_name = "N")]
    pub jobs: Option<u32>,
    /// Seed of every random generator. A server does not keep it: from there it is 7 when not
    /// given.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// More attempts, each in a fresh process, for a case with an unexpected outcome.
    #[arg(long, value_name = "N")]
    pub retries: Option<u32>,
    /// Seconds that a case may spend importing, building, tracing, lowering and compiling.
    #[arg(long, value_name = "SECONDS")]
    pub compile_timeout: Option<u64>,
    /// Seconds that a case may spend transferring and executing.
    #[arg(long, value_name = "SECONDS")]
    pub execute_timeout: Option<u64>,
    /// Most executions to find the case before it that a case depends on; 0 does not look.
    #[arg(long, value_name = "N")]
    pub order_replays: Option<u32>,
    /// Execute in an order that this seed decides.
    #[arg(long, value_name = "SEED")]
    pub shuffle: Option<u64>,
    #[command(flatten)]
    pub python: PythonArgs,
    #[command(flatten)]
    pub runs: RunsDirArgs,
    /// Name of the new run. Without it a name is made from the time.
    #[arg(long, value_name = "KEY", help_heading = "Results")]
    pub run_key: Option<RunKey>,
    /// Label kept with the new run, beside `rerun_of`, as `name=value`; may be repeated.
    #[arg(long, value_name = "K=V", value_parser = parse_label, help_heading = "Results")]
    pub label: Vec<(String, String)>,
    /// Send results to this server while running. Only when asked for: to a server, the few cases
    /// of a rerun are a run like any other, and may be the latest one.
    #[arg(long, value_name = "URL", help_heading = "Results")]
    pub push: Option<String>,
    #[command(flatten)]
    pub server: ServerArgs,
    #[command(flatten)]
    pub judgement: JudgementArgs,
    /// Print the summary as JSON.
    #[arg(long, help_heading = "Results")]
    pub json: bool,
}

impl RerunArgs {
    /// The settings of a run with those of the command line in their place.
    #[must_use]
    pub fn over(&self, of_run: Settings) -> Settings {
        Settings {
            jobs: self.jobs.unwrap_or(of_run.jobs),
            seed: self.seed.unwrap_or(of_run.seed),
            retries: self.retries.unwrap_or(of_run.retries),
            compile_timeout: self.compile_timeout.unwrap_or(of_run.compile_timeout),
            execute_timeout: self.execute_timeout.unwrap_or(of_run.execute_timeout),
            order_replays: self.order_replays.unwrap_or(of_run.order_replays),
            shuffle: self.shuffle.or(of_run.shuffle),
            shard: None,
            push: self.push.clone().filter(|url| !url.is_empty()),
            ..of_run
        }
    }
}
