//! Which cases to run.

use std::path::PathBuf;

use clap::Args;
use protocol::{Direction, Dtype, Form, Mode, Suite};

use super::words::{parse_form, parse_suite, parse_tier, word};
use crate::dynamic_form::DynamicForm;
use crate::plan::Shard;

/// Seed of every random generator, when none is given.
pub const USUAL_SEED: u64 = 7;

/// Samples per operator entry, dtype and form at `--depth quick`.
const QUICK_SAMPLES: u32 = 5;

/// What to run.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "What to run")]
pub struct PlanArgs {
    /// Suite to run [operators, tier1, tier2, dynamism]; may be repeated.
    #[arg(long, value_name = "SUITE", value_parser = parse_suite)]
    pub suite: Vec<Suite>,
    /// Short for `--suite tier1` or `--suite tier2`.
    #[arg(long, value_name = "1|2", value_parser = parse_tier)]
    pub tier: Vec<Suite>,
    /// Model list file for tier1, tier2 and dynamism; may be repeated.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub model_list: Vec<PathBuf>,
    /// Tier 1 also loads a checkpoint of every model onto the device, saved on the host, not only
    /// those that a list names.
    #[arg(long)]
    pub checkpoint: bool,
    /// Execute every model, also those of which the list says that they have the graph of another.
    #[arg(long)]
    pub no_dedupe: bool,
    /// Operator entries: `all`, `smoke` (a fixed small set), or a file with one entry per line.
    #[arg(long, value_name = "NAME|FILE", default_value = "all")]
    pub selection: String,
    /// How much of each operator entry: `quick` is the first non-empty sample and others evenly
    /// spaced, five in all; `full` is every sample.
    #[arg(long, value_name = "DEPTH", default_value = "quick", hide_possible_values = true)]
    pub depth: Depth,
    /// Most samples per operator entry and dtype, in place of those of `--depth`; 0 is all.
    #[arg(long, value_name = "N", conflicts_with = "depth")]
    pub samples: Option<u32>,
    /// How operators are called, or with which inputs [function, out, inplace, noncontiguous,
    /// transposed, expanded, empty, zero-dim, module, error-inputs, all]; several with commas.
    #[arg(long, value_name = "FORM", value_parser = parse_form, value_delimiter = ',', default_value = "function")]
    pub form: Vec<Forms>,
    /// What dynamism cases are given [plain, padded_left, padded_right, positions_at_limit,
    /// dynamic_cache, static_cache]; several with commas.
    #[arg(
        long,
        value_name = "FORM",
        value_parser = word::<DynamicForm>,
        value_delimiter = ',',
        default_value = "plain"
    )]
    pub dynamic_form: Vec<DynamicForm>,
    /// How the backend executes [eager, strict, compile]; several with commas.
    #[arg(long, value_name = "MODE", value_parser = word::<Mode>, value_delimiter = ',', default_value = "eager")]
    pub mode: Vec<Mode>,
    /// Element type, by its PyTorch name; several with commas.
    #[arg(long, value_name = "DTYPE", value_parser = word::<Dtype>, value_delimiter = ',', default_value = "float32")]
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
    /// Make shards of about the same length, by the durations of an earlier run: its key, the path
    /// of its folder or journal, or its address on a server. The same for every shard of a run.
    #[arg(long, value_name = "RUN", requires = "shard")]
    pub balance: Option<String>,
    /// Seed of every random generator.
    #[arg(long, value_name = "N", default_value_t = USUAL_SEED)]
    pub seed: u64,
}

/// How much of each operator entry is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Depth {
    /// The first non-empty sample, and others evenly spaced.
    Quick,
    /// Every sample.
    Full,
}

/// Forms of operators that one word of the command line names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forms(pub(super) Vec<Form>);

impl PlanArgs {
    /// Suites asked for, each once, in suite order.
    #[must_use]
    pub fn suites(&self) -> Vec<Suite> {
        let asked = |suite: &&Suite| self.suite.contains(suite) || self.tier.contains(suite);
        Suite::ALL.iter().filter(asked).copied().collect()
    }

    /// Most samples per operator entry, dtype and form; 0 is all of them.
    #[must_use]
    pub fn most_samples(&self) -> u32 {
        self.samples.unwrap_or(match self.depth {
            Depth::Quick => QUICK_SAMPLES,
            Depth::Full => 0,
        })
    }

    /// Forms of operators asked for, each once.
    #[must_use]
    pub fn forms(&self) -> Vec<Form> {
        let asked = |form: &&Form| self.form.iter().any(|forms| forms.0.contains(form));
        Form::ALL.iter().filter(asked).copied().collect()
    }
}
