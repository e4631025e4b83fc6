//! What the commands beside running take.

use std::path::PathBuf;

use clap::Args;

use super::{DeviceArgs, PlanArgs, PythonArgs, RunsDirArgs, ServerArgs};

/// Settings of `list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    #[command(flatten)]
    pub plan: PlanArgs,
    #[command(flatten)]
    pub python: PythonArgs,
    #[command(flatten)]
    pub runs: RunsDirArgs,
    #[command(flatten)]
    pub server: ServerArgs,
    /// Print JSON lines with the manifest hash first.
    #[arg(long)]
    pub json: bool,
}

/// Settings of `devices`.
#[derive(Debug, Args)]
pub struct DevicesArgs {
    #[command(flatten)]
    pub python: PythonArgs,
    /// Print one JSON object per device.
    #[arg(long)]
    pub json: bool,
}

/// Settings of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    pub device: DeviceArgs,
    #[command(flatten)]
    pub runs: RunsDirArgs,
    #[command(flatten)]
    pub server: ServerArgs,
    /// Also check that this server answers.
    #[arg(long, value_name = "URL", env = "CONFORMANCE_SERVER", hide_env_values = true)]
    pub push: Option<String>,
    /// Print one JSON object per check.
    #[arg(long)]
    pub json: bool,
}

/// Settings of `resume`.
#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// Key of the run, or `latest`.
    pub run: String,
    /// Print the summary as JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub python: PythonArgs,
    #[command(flatten)]
    pub runs: RunsDirArgs,
    #[command(flatten)]
    pub server: ServerArgs,
    /// Send results to this server while running.
    #[arg(long, value_name = "URL", env = "CONFORMANCE_SERVER", hide_env_values = true)]
    pub push: Option<String>,
}

/// Settings of `push`.
#[derive(Debug, Args)]
pub struct PushArgs {
    /// Key of the run, or `latest`.
    #[arg(required_unless_present = "all")]
    pub run: Option<String>,
    /// Every kept run that is not delivered yet.
    #[arg(long, conflicts_with = "run")]
    pub all: bool,
    /// Address of the server; without it, the one the run was meant for.
    #[arg(long = "server", value_name = "URL", env = "CONFORMANCE_SERVER", hide_env_values = true)]
    pub server_url: Option<String>,
    #[command(flatten)]
    pub server: ServerArgs,
    #[command(flatten)]
    pub runs: RunsDirArgs,
    /// Print one JSON object per run.
    #[arg(long)]
    pub json: bool,
}

/// Settings of `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Key of the run, or `latest`.
    #[arg(default_value = "latest")]
    pub run: String,
    /// List the runs kept here instead.
    #[arg(long)]
    pub list: bool,
    /// Print the summary as JSON; with `--list`, one object per run.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub runs: RunsDirArgs,
}

/// Settings of `blockers`.
#[derive(Debug, Args)]
pub struct BlockersArgs {
    /// Key of the run, its folder, or `latest`.
    #[arg(default_value = "latest")]
    pub run: String,
    /// What counts: every model the same, or by the number that its list ranks it by.
    #[arg(long, value_name = "WHAT", default_value = "models")]
    pub weight: Weight,
    /// Most steps to show.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Print the whole ranking as JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub runs: RunsDirArgs,
}

/// What makes one model count more than another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Weight {
    /// Nothing.
    Models,
    /// Downloads, or whatever its list counts; counts of different dates are added all the same.
    Popularity,
}

impl Weight {
    /// What is added up.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Models => "models",
            Self::Popularity => "popularity by the model list",
        }
    }
}

/// Settings of `gate`.
#[derive(Debug, Args)]
pub struct GateArgs {
    /// Name of the gate.
    pub name: String,
    /// Address of the server.
    #[arg(long, value_name = "URL", env = "CONFORMANCE_SERVER", hide_env_values = true)]
    pub server: String,
    /// Run key of the candidate, or `latest`.
    #[arg(long, value_name = "RUN", default_value = "latest")]
    pub candidate: String,
    /// Only runs on this device profile count as `latest`.
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// Print the server's JSON answer.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub token: ServerArgs,
}

/// A case of a kept run.
#[derive(Debug, Args)]
pub struct CaseArgs {
    /// Key of the run, or `latest`; left out, it is the latest.
    #[arg(value_name = "RUN")]
    pub run_or_case: String,
    /// Case key, or a part of it that only one case has.
    #[arg(value_name = "CASE")]
    pub case: Option<String>,
}

impl CaseArgs {
    /// The run: the first of two words, else the latest.
    #[must_use]
    pub fn run(&self) -> &str {
        if self.case.is_some() { &self.run_or_case } else { "latest" }
    }

    /// The case: the last word.
    #[must_use]
    pub fn case(&self) -> &str {
        self.case.as_deref().unwrap_or(&self.run_or_case)
    }
}

/// Settings of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    #[command(flatten)]
    pub of: CaseArgs,
    /// Most elements to show of each tensor.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub worst: usize,
    /// Print a JSON object.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub runs: RunsDirArgs,
}

/// Settings of `repro`.
#[derive(Debug, Args)]
pub struct ReproArgs {
    #[command(flatten)]
    pub of: CaseArgs,
    /// Print the script that was kept with the run: nothing is made smaller, nothing is executed.
    #[arg(long)]
    pub kept: bool,
    /// Seconds that making the script smaller may take; 0 leaves it as it is.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub minimise: u64,
    /// Where the script is written; without it, below `repro` in the folder of the run.
    #[arg(long, value_name = "FILE", conflicts_with = "kept")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub runs: RunsDirArgs,
    #[command(flatten)]
    pub python: PythonArgs,
    /// Print a JSON object with the script in it.
    #[arg(long)]
    pub json: bool,
}

/// Settings of `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Which shell.
    pub shell: Shell,
}

/// Shells whose completions are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Shell {
    /// To be sourced, or put into `bash-completion/completions/runner`.
    Bash,
    /// To be put as `_runner` into a directory of `fpath`.
    Zsh,
    /// To be put into `fish/completions/runner.fish`.
    Fish,
}

/// Settings of `man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Command; without it, the page of the program.
    pub command: Option<String>,
}
