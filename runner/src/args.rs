//! Every setting of the runner, once: flag, environment variable, default, help text.
//!
//! This is the only place that reads the environment.

mod rerun;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use protocol::{Direction, Dtype, Mode, RunKey, Suite};

use crate::device::DeviceChoice;
use crate::exit::Exit;
use crate::plan::Shard;

pub use rerun::RerunArgs;

/// Seed of every random generator, when none is given.
pub const USUAL_SEED: u64 = 7;

/// Runs TorchTPU conformance suites: plans cases, executes each in a worker process that may
/// crash alone, compares with a reference, and reports.
#[derive(Debug, Parser)]
#[command(
    name = "runner",
    version,
    args_conflicts_with_subcommands = true,
    after_help = Exit::table(),
    max_term_width = 100
)]
pub struct Cli {
    /// What to do; without a command, suites are run.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Settings of a run.
    #[command(flatten)]
    pub run: RunArgs,
}

/// The commands beside running.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make the locked Python environment (torch, torch_tpu, transformers, …) in the cache, and
    /// print the path of its Python.
    Setup(SetupCommandArgs),
    /// Print the plan: one case key per line; executes nothing on the device.
    List(Box<ListArgs>),
    /// Show which devices this host has and which one `auto` chooses.
    Devices(DevicesArgs),
    /// Check everything a run needs, and say how to mend what is missing.
    Doctor(DoctorArgs),
    /// Execute the cases of an interrupted run that have no result yet.
    Resume(ResumeArgs),
    /// Execute again, as a new run, the cases of a run that failed, were flaky or are missing.
    Rerun(Box<RerunArgs>),
    /// Send the results of kept runs to a server.
    Push(PushArgs),
    /// Make the reports of a kept run again.
    Report(ReportArgs),
    /// Ask a server whether a gate is open.
    Gate(GateArgs),
    /// Print stand-alone Python that executes one case of a kept run.
    Repro(ReproArgs),
    /// Print the completions of a shell.
    Completions(CompletionsArgs),
    /// Print the man page of the program, or of one command.
    Man(ManArgs),
}

/// Settings of a run.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub plan: PlanArgs,
    #[command(flatten)]
    pub device: DeviceArgs,
    #[command(flatten)]
    pub execution: ExecutionArgs,
    #[command(flatten)]
    pub results: ResultArgs,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// What to run.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "What to run")]
pub struct PlanArgs {
    /// Suite to run [operators, tier1, tier2, dynamism]; may be repeated.
    #[arg(long, value_name = "SUITE", value_parser = word::<Suite>)]
    pub suite: Vec<Suite>,
    /// Short for `--suite tier1` or `--suite tier2`.
    #[arg(long, value_name = "1|2", value_parser = parse_tier)]
    pub tier: Vec<Suite>,
    /// Model list file for tier1, tier2 and dynamism; may be repeated.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub model_list: Vec<PathBuf>,
    /// Operator entries: `smoke` (a fixed small set), `all`, or a file with one entry per line.
    #[arg(long, value_name = "NAME|FILE", default_value = "smoke")]
    pub selection: String,
    /// Most samples per operator entry and dtype; 0 is all of them.
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub samples: u32,
    /// How the backend executes [eager, strict, compile]; may be repeated.
    #[arg(long, value_name = "MODE", value_parser = word::<Mode>, default_value = "eager")]
    pub mode: Vec<Mode>,
    /// Element type, by its PyTorch name; may be repeated.
    #[arg(long, value_name = "DTYPE", value_parser = word::<Dtype>, default_value = "float32")]
    pub dtype: Vec<Dtype>,
    /// How far a case goes [forward, train]; may be repeated.
    #[arg(
        long,
        value_name = "DIRECTION",
        value_parser = word::<Direction>,
        default_value = "forward"
    )]
    pub direction: Vec<Direction>,
    /// Only cases that match, by a text in their key or as `op:aten.add dtype:bf16 mode:!compile`;
    /// may be repeated, and one match is enough.
    #[arg(long, value_name = "QUERY")]
    pub filter: Vec<String>,
    /// Only this slice of the plan, from 1, stable by hash of the case key.
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,
    /// Seed of every random generator.
    #[arg(long, value_name = "N", default_value_t = USUAL_SEED)]
    pub seed: u64,
}

/// Where to run.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Where to run")]
pub struct DeviceArgs {
    /// Device [auto, tpu, tpu-sim, cuda, cpu, faulty]; auto is tpu, else cuda, else tpu-sim, else
    /// cpu.
    #[arg(
        long,
        value_name = "DEVICE",
        default_value = "auto",
        env = "CONFORMANCE_DEVICE",
        hide_env_values = true
    )]
    pub device: DeviceChoice,
    /// Rule of the `faulty` device for an operator entry or model id, as `add=wrong-value`; for
    /// tests and canaries, may be repeated.
    #[arg(long, value_name = "SUBJECT=RULE", value_parser = parse_label)]
    pub fault: Vec<(String, String)>,
    /// Worker processes; 0 is one per device slot (per chip on a TPU, else 1).
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub jobs: u32,
    #[command(flatten)]
    pub python: PythonArgs,
}

/// Which Python.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Where to run")]
pub struct PythonArgs {
    /// Python of an existing environment with the build under test; without it, the environment
    /// of `runner setup` is used (and made first when it is missing).
    #[arg(long, value_name = "PATH", env = "CONFORMANCE_PYTHON", hide_env_values = true)]
    pub python: Option<PathBuf>,
    #[command(flatten)]
    pub setup: SetupArgs,
    /// Python package of the worker to use instead of the one in this program; for development.
    #[arg(
        long,
        value_name = "DIR",
        env = "CONFORMANCE_WORKER_PACKAGE",
        hide_env_values = true,
        hide = true
    )]
    pub worker_package: Option<PathBuf>,
}

/// Settings of `setup`.
#[derive(Debug, Args)]
pub struct SetupCommandArgs {
    #[command(flatten)]
    pub setup: SetupArgs,
    /// Install the development tools (pytest, linters) into a folder of their own, and print its
    /// path, for `PYTHONPATH`.
    #[arg(long, conflicts_with = "sim_wrapper")]
    pub tools: bool,
    /// Unpack the wrapper library of `tpu-sim`, and print its path.
    #[arg(long)]
    pub sim_wrapper: bool,
}

/// How to make the Python environment.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Python environment")]
pub struct SetupArgs {
    /// Package index to install from.
    #[arg(long, value_name = "URL", env = "CONFORMANCE_INDEX_URL", hide_env_values = true)]
    pub index_url: Option<String>,
    /// Index of torch wheels, for `--torch-build`.
    #[arg(long, value_name = "URL", env = "CONFORMANCE_TORCH_INDEX_URL", hide_env_values = true)]
    pub torch_index_url: Option<String>,
    /// Which torch: `default` (by the lock and its hashes, with CUDA libraries) or `cpu` (smaller,
    /// from the torch index, pinned by version but not by hash).
    #[arg(
        long,
        value_name = "BUILD",
        default_value = "default",
        env = "CONFORMANCE_TORCH_BUILD",
        hide_env_values = true
    )]
    pub torch_build: TorchBuild,
    /// Where environments and unpacked programs are kept.
    #[arg(long, value_name = "DIR", env = "CONFORMANCE_CACHE", hide_env_values = true)]
    pub cache_dir: Option<PathBuf>,
}

/// Which build of torch `runner setup` installs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum TorchBuild {
    /// By the lock file and its hashes.
    Default,
    /// From the torch index, without CUDA libraries and without hashes.
    Cpu,
}

/// How to run.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "How to run")]
pub struct ExecutionArgs {
    /// More attempts, each in a fresh process, for a case with an unexpected outcome.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub retries: u32,
    /// Seconds that a case may spend importing, building, tracing, lowering and compiling.
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub compile_timeout: u64,
    /// Seconds that a case may spend transferring and executing.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub execute_timeout: u64,
    /// Replace a worker process after this many cases.
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub recycle_after: u32,
    /// Replace a worker process when its memory has grown by this many MiB.
    #[arg(long, value_name = "MIB", default_value_t = 4096)]
    pub recycle_growth_mib: u64,
    /// Execute in an order that this seed decides, to find cases that depend on others; the plan
    /// stays as it is.
    #[arg(long, value_name = "SEED")]
    pub shuffle: Option<u64>,
    /// Most MiB of address space a worker process may take; a case beyond it is `oom`.
    #[arg(long, value_name = "MIB")]
    pub address_space_mib: Option<u64>,
}

/// Where results go.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Results")]
pub struct ResultArgs {
    #[command(flatten)]
    pub runs: RunsDirArgs,
    /// Name of the run; shards of one run share it. Without it a name is made from the time.
    #[arg(long, value_name = "KEY")]
    pub run_key: Option<RunKey>,
    /// Label kept with the run, as `name=value`; may be repeated.
    #[arg(long, value_name = "K=V", value_parser = parse_label)]
    pub label: Vec<(String, String)>,
    /// Send results to this server while running.
    #[arg(long, value_name = "URL", env = "CONFORMANCE_SERVER", hide_env_values = true)]
    pub push: Option<String>,
}

/// Where runs are kept.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Results")]
pub struct RunsDirArgs {
    /// Where runs are kept.
    #[arg(long, value_name = "DIR", env = "CONFORMANCE_RUNS_DIR", hide_env_values = true)]
    pub runs_dir: Option<PathBuf>,
}

/// How to prove to a server who writes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Results")]
pub struct ServerArgs {
    /// File holding the server token; else the variable `CONFORMANCE_TOKEN`.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

/// Settings of `list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    #[command(flatten)]
    pub plan: PlanArgs,
    #[command(flatten)]
    pub python: PythonArgs,
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
}

/// Settings of `resume`.
#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// Key of the run, or `latest`.
    pub run: String,
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
    #[command(flatten)]
    pub runs: RunsDirArgs,
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

/// Settings of `repro`.
#[derive(Debug, Args)]
pub struct ReproArgs {
    /// Key of the run, or `latest`.
    pub run: String,
    /// Case key, or a part of it that only one case has.
    pub case: String,
    #[command(flatten)]
    pub runs: RunsDirArgs,
    #[command(flatten)]
    pub setup: SetupArgs,
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

fn word<W: std::str::FromStr<Err = protocol::UnknownWord>>(text: &str) -> Result<W, String> {
    text.parse().map_err(|error: protocol::UnknownWord| format!("must be one of {}", error.allowed))
}

fn parse_tier(text: &str) -> Result<Suite, String> {
    match text {
        "1" => Ok(Suite::Tier1),
        "2" => Ok(Suite::Tier2),
        _ => Err("there are tier 1 and tier 2".to_owned()),
    }
}

fn parse_label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("it reads `name=value`".to_owned()),
    }
}

impl PlanArgs {
    /// Suites asked for, each once, in suite order.
    #[must_use]
    pub fn suites(&self) -> Vec<Suite> {
        let asked = |suite: &&Suite| self.suite.contains(suite) || self.tier.contains(suite);
        Suite::ALL.iter().filter(asked).copied().collect()
    }
}

impl ExecutionArgs {
    /// The settings of a run for which none are given.
    #[must_use]
    pub fn usual() -> Self {
        #[derive(Parser)]
        struct Alone {
            #[command(flatten)]
            execution: ExecutionArgs,
        }
        Alone::parse_from(["runner"]).execution
    }
}

impl RunsDirArgs {
    /// `--runs-dir`, else `torchtpu-conformance/runs` in the user's state directory.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        let default = || base_directory("XDG_STATE_HOME", ".local/state").join("runs");
        self.runs_dir.clone().unwrap_or_else(default)
    }
}

impl SetupArgs {
    /// `--cache-dir`, else `torchtpu-conformance` in the user's cache directory.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        self.cache_dir.clone().unwrap_or_else(|| base_directory("XDG_CACHE_HOME", ".cache"))
    }
}

impl ServerArgs {
    /// The token: of `--token-file`, else of `CONFORMANCE_TOKEN`. It is no flag, because flags
    /// show in process lists.
    pub fn token(&self) -> Result<Option<String>, crate::Error> {
        let Some(path) = &self.token_file else {
            return Ok(variable("CONFORMANCE_TOKEN").map(|token| token.trim().to_owned()));
        };
        let text = std::fs::read_to_string(path).map_err(|error| crate::Error::Input {
            message: format!("cannot read the token file `{}`: {error}", path.display()),
            hint: "`server token create --name NAME --scope ingest` prints a token".to_owned(),
        })?;
        Ok(Some(text.trim().to_owned()))
    }
}

/// The value of an environment variable that is set and not empty.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the place that may")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Directories searched for programs.
#[must_use]
pub fn program_path() -> Vec<PathBuf> {
    variable("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default()
}

/// Where short-lived sockets go: the user's runtime directory, else `/tmp`. Not `TMPDIR`, whose
/// value may be longer than a socket path can be.
#[must_use]
pub fn socket_directory() -> PathBuf {
    let directory = variable("XDG_RUNTIME_DIR").map(PathBuf::from);
    directory.filter(|path| path.is_dir()).unwrap_or_else(|| PathBuf::from("/tmp"))
}

/// Whether colours may be written to this stream.
#[must_use]
pub fn colours(is_terminal: bool) -> bool {
    is_terminal && variable("NO_COLOR").is_none() && variable("TERM").as_deref() != Some("dumb")
}

fn base_directory(variable_name: &str, below_home: &str) -> PathBuf {
    let home = || PathBuf::from(variable("HOME").unwrap_or_else(|| "/".to_owned()));
    let base = variable(variable_name).map(PathBuf::from).filter(|path| path.is_absolute());
    base.unwrap_or_else(|| home().join(below_home)).join("torchtpu-conformance")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_flag_table_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_promised_command_line_is_understood() {
        let cli = Cli::parse_from(["runner", "--tier", "2", "--model-list", "mine.toml"]);
        assert_eq!(cli.run.plan.suites(), [Suite::Tier2]);
        assert_eq!(cli.run.plan.model_list, [PathBuf::from("mine.toml")]);
    }

    #[test]
    fn suites_are_taken_once_and_in_order() {
        let cli =
            Cli::parse_from(["runner", "--tier", "1", "--suite", "tier1", "--suite=operators"]);
        assert_eq!(cli.run.plan.suites(), [Suite::Operators, Suite::Tier1]);
    }
}
