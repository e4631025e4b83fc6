//! Sets up `tracing`: text or JSON lines on standard error, filtered by `RUST_LOG`, and spans to a
//! collector where there is one.

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt, registry};

use crate::args::LogFormat;
use crate::traces::Traces;

/// Starts logging; call once. A `quiet` command says only what is wrong, unless `RUST_LOG` asks.
pub fn start(format: LogFormat, quiet: bool, traces: Option<&Traces>) {
    let default = if quiet { "warn" } else { "info,sqlx=warn,hyper=warn" };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let lines = fmt::layer().with_writer(std::io::stderr);
    let lines = match format {
        LogFormat::Text => lines.with_target(false).with_ansi(crate::args::colour()).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    // A second call can only come from a test; the first subscriber then stays.
    let _ = registry().with(lines.with_filter(filter)).with(traces.map(Traces::layer)).try_init();
}
