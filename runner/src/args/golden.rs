//! Goldens: what Tier 2 is compared with, and how they are recorded.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};

use super::RunArgs;
use super::python::cache_directory;
use crate::golden::{Cache, GoldenUse};

/// Room for the goldens of a few lists.
const DEFAULT_CACHE_GIB: u32 = 20;

/// What Tier 2 is compared with.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "How to run")]
pub struct GoldenArgs {
    /// Compare Tier 2 with goldens that `runner record` kept: a folder, or a URL (`file:`, `s3:`,
    /// `gs:`). A case whose golden is missing, stale or corrupt is `infra`.
    #[arg(long, value_name = "DIR|URL", conflicts_with = "reference")]
    pub golden: Option<String>,
    #[command(flatten)]
    pub cache: GoldenCacheArgs,
    /// What Tier 2 is compared with in place of a golden: `cpu` is float64 on the host, computed
    /// with each case. The default without `--golden`; results say it.
    #[arg(long, value_name = "REFERENCE", hide_possible_values = true)]
    pub reference: Option<Reference>,
}

/// What is kept of goldens that come from an object store.
#[derive(Debug, Clone, Args)]
pub struct GoldenCacheArgs {
    /// Most GiB of goldens of object stores that are kept in the cache.
    #[arg(
        long,
        value_name = "GIB",
        default_value_t = DEFAULT_CACHE_GIB,
        env = "CONFORMANCE_GOLDEN_CACHE_GIB"
    )]
    pub golden_cache_gib: u32,
}

impl GoldenCacheArgs {
    /// Where in the program's cache goldens are kept, and how much of them.
    #[must_use]
    pub fn below(&self, cache: &Path) -> Cache {
        let most_bytes = u64::from(self.golden_cache_gib) << 30;
        Cache { folder: cache.join("goldens"), most_bytes }
    }
}

/// A reference that is computed with each case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Reference {
    /// The host, in float64 where the model can be.
    Cpu,
}

impl GoldenArgs {
    /// What is done with goldens; nothing where none are used.
    #[must_use]
    pub fn usage(&self, cache: &Path) -> Option<GoldenUse> {
        let location = self.golden.clone()?;
        Some(GoldenUse::Compare { location, cache: self.cache.below(cache) })
    }
}

/// Settings of `record`.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// Folder to keep goldens in. What is in it already, and still right, is not recorded again.
    #[arg(long, value_name = "DIR", required = true)]
    pub out: PathBuf,
    #[command(flatten)]
    pub run: RunArgs,
}

/// Settings of `golden`.
#[derive(Debug, Args)]
pub struct GoldenCommandArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: GoldenCommand,
}

/// What is done with goldens.
#[derive(Debug, Subcommand)]
pub enum GoldenCommand {
    /// Hash every file, and name each that is not what was recorded.
    Verify(GoldenVerifyArgs),
}

/// Settings of `golden verify`.
#[derive(Debug, Args)]
pub struct GoldenVerifyArgs {
    /// The goldens: a folder, or a URL (`file:`, `s3:`, `gs:`), of which everything is fetched.
    #[arg(value_name = "DIR|URL")]
    pub location: String,
    /// Where fetched goldens are kept, in `goldens`.
    #[arg(long, value_name = "DIR", env = "CONFORMANCE_CACHE", hide_env_values = true)]
    pub cache_dir: Option<PathBuf>,
    #[command(flatten)]
    pub cache: GoldenCacheArgs,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

impl GoldenVerifyArgs {
    /// Where fetched goldens are kept.
    #[must_use]
    pub fn cache(&self) -> Cache {
        self.cache.below(&cache_directory(self.cache_dir.as_deref()))
    }
}
