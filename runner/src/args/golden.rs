//! Goldens: what Tier 2 is compared with, and how they are recorded.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::RunArgs;
use crate::golden::GoldenUse;

/// What Tier 2 is compared with.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "How to run")]
pub struct GoldenArgs {
    /// Compare Tier 2 with goldens that `runner record` kept: a folder, or a `file:` URL. A case
    /// whose golden is missing, stale or corrupt is `infra`.
    #[arg(long, value_name = "DIR|URL", conflicts_with = "reference")]
    pub golden: Option<String>,
    /// What Tier 2 is compared with in place of a golden: `cpu` is float64 on the host, computed
    /// with each case. The default without `--golden`; results say it.
    #[arg(long, value_name = "REFERENCE", hide_possible_values = true)]
    pub reference: Option<Reference>,
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
    pub fn usage(&self) -> Option<GoldenUse> {
        let location = self.golden.clone()?;
        Some(GoldenUse::Compare { location })
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
    /// The goldens: a folder, or a `file:` URL.
    #[arg(value_name = "DIR|URL")]
    pub location: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}
