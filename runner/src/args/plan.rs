//! Which cases to run.

use std::path::PathBuf;

use clap::Args;
use protocol::{Direction, Dtype, Mode, Suite};

use super::words::{parse_tier, word};
use crate::plan::Shard;

/// Seed of every random generator, when none is given.
pub const USUAL_SEED: u64 = 7;

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
    /// Execute every model, also those of which the list says that they have the graph of another.
    #[arg(long)]
    pub no_dedupe: bool,
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

impl PlanArgs {
    /// Suites asked for, each once, in suite order.
    #[must_use]
    pub fn suites(&self) -> Vec<Suite> {
        let asked = |suite: &&Suite| self.suite.contains(suite) || self.tier.contains(suite);
        Suite::ALL.iter().filter(asked).copied().collect()
    }
}
