//! How to run: retries, deadlines, recycling.

use clap::{Args, Parser};

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
    /// Where a case fails and then passes alone, execute the cases before it in its process again
    /// at most this many times, to find the one that it depends on; 0 does not look.
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub order_replays: u32,
    /// Execute in an order that this seed decides, to find cases that depend on others; the plan
    /// stays as it is.
    #[arg(long, value_name = "SEED")]
    pub shuffle: Option<u64>,
    /// Most MiB of address space a worker process may take; a case beyond it is `oom`.
    #[arg(long, value_name = "MIB")]
    pub address_space_mib: Option<u64>,
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
