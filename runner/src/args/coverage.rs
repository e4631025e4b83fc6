//! Settings of `coverage`.

use clap::{Args, Subcommand};
use protocol::coverage::Definition;

use super::words::word;
use super::{PythonArgs, RunsDirArgs};
use crate::device::DeviceChoice;

/// Settings of `coverage`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct CoverageArgs {
    /// What else to do.
    #[command(subcommand)]
    pub command: Option<CoverageCommand>,
    /// Device [auto, tpu, tpu-sim, cuda, cpu, faulty] whose dispatcher is asked now.
    #[arg(long, value_name = "DEVICE", default_value = "auto", env = "CONFORMANCE_DEVICE")]
    pub device: DeviceChoice,
    /// Take the inventory that was kept with this run, and count what it executed: its key, or
    /// `latest`; may be repeated. Without it, the newest run of each suite is counted.
    #[arg(long, value_name = "RUN")]
    pub run: Vec<String>,
    /// Only by this definition; may be repeated. They are worded in docs/coverage.md.
    #[arg(long, value_name = "NAME", value_parser = word::<Definition>)]
    pub definition: Vec<Definition>,
    /// List what was counted, `+` for what is covered.
    #[arg(long)]
    pub list: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub python: PythonArgs,
    #[command(flatten)]
    pub runs: RunsDirArgs,
}

/// What else `coverage` does.
#[derive(Debug, Subcommand)]
pub enum CoverageCommand {
    /// Name the overloads that are new, lost, or of another schema or class.
    Diff(CoverageDiffArgs),
}

/// Settings of `coverage diff`.
#[derive(Debug, Args)]
pub struct CoverageDiffArgs {
    /// Earlier inventory: key of a kept run, `latest`, or a file.
    pub before: String,
    /// Later one.
    pub after: String,
    /// Print JSON lines.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub runs: RunsDirArgs,
}
