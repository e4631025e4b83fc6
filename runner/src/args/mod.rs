//! Every setting of the runner, once: flag, environment variable, default, help text.
//!
//! This is the only place that reads the environment. Flags that several commands share are groups
//! (`plan`, `device`, `python`, `execution`, `results`); what only one command has is in
//! `commands`, or in a file of its name.

mod cli;
mod commands;
mod coverage;
mod device;
mod environment;
mod execution;
mod golden;
mod plan;
mod python;
mod rerun;
mod results;
mod words;

pub use cli::{Cli, Command, RunArgs};
pub use commands::{
    BlockersArgs, CompletionsArgs, DevicesArgs, DoctorArgs, ExplainArgs, GateArgs, ListArgs,
    ManArgs, PushArgs, ReportArgs, ReproArgs, ResumeArgs, Shell, Weight,
};
pub use coverage::{CoverageArgs, CoverageCommand, CoverageDiffArgs};
pub use device::DeviceArgs;
pub use environment::{colours, hub_cache, program_path, socket_directory};
pub use execution::ExecutionArgs;
pub use golden::{
    GoldenArgs, GoldenCacheArgs, GoldenCommand, GoldenCommandArgs, GoldenVerifyArgs, RecordArgs,
};
pub use plan::{PlanArgs, USUAL_SEED};
pub use python::{PythonArgs, SetupArgs, SetupCommandArgs, TorchBuild};
pub use rerun::RerunArgs;
pub use results::{JudgementArgs, ResultArgs, RunsDirArgs, ServerArgs};
