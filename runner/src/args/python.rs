//! Which Python runs the workers, and how its environment is made.

use std::path::{Path, PathBuf};

use clap::Args;

use super::environment::base_directory;

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
    #[arg(long, conflicts_with = "breadcrumb")]
    pub sim_wrapper: bool,
    /// Print a JSON object with the path in it.
    #[arg(long)]
    pub json: bool,
    /// Unpack the library that keeps the operators a worker is inside of, and print its path.
    #[arg(long, conflicts_with = "tools")]
    pub breadcrumb: bool,
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

/// The folder that was given, else the program's in the user's cache directory.
pub(super) fn cache_directory(given: Option<&Path>) -> PathBuf {
    given.map_or_else(|| base_directory("XDG_CACHE_HOME", ".cache"), Path::to_owned)
}

impl SetupArgs {
    /// `--cache-dir`, else `torchtpu-conformance` in the user's cache directory.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        cache_directory(self.cache_dir.as_deref())
    }
}
