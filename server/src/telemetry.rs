//! Sets up `tracing`: text or JSON lines on standard error, filtered by `RUST_LOG`.

use tracing_subscriber::EnvFilter;

use crate::args::LogFormat;

/// Starts logging; call once. A `quiet` command says only what is wrong, unless `RUST_LOG` asks.
pub fn start(format: LogFormat, quiet: bool) {
    let default = if quiet { "warn" } else { "info,sqlx=warn,hyper=warn" };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second call can only come from a test; the first subscriber then stays.
    let _ = match format {
        LogFormat::Text => builder.with_target(false).with_ansi(crate::args::colour()).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}
