//! Where to run.

use clap::Args;

use super::PythonArgs;
use super::words::{parse_label, word};
use crate::device::{Compiler, DeviceChoice};

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
    /// What `torch.compile` compiles with on cpu, cuda and faulty [eager, aot_eager, inductor];
    /// without it inductor, and aot_eager on cpu and faulty. A TPU has its own compiler.
    #[arg(long, value_name = "BACKEND", value_parser = word::<Compiler>)]
    pub backend: Option<Compiler>,
    /// Worker processes; 0 is one per device slot (per chip on a TPU, else 1).
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub jobs: u32,
    #[command(flatten)]
    pub python: PythonArgs,
}
