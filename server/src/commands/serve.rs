//! `server serve`: opens everything, serves until SIGINT or SIGTERM, closes everything.

use std::process::ExitCode;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Opened;
use crate::app::{self, AppState, Settings};
use crate::args::ServeArgs;
use crate::clock::Clock;
use crate::embedded::Use;
use crate::gates::Gates;
use crate::popularity::Popularity;
use crate::tasks;
use crate::trouble::OrTrouble as _;
use crate::webhooks::Webhooks;

pub(super) async fn run(args: ServeArgs) -> anyhow::Result<ExitCode> {
    // What can be wrong cheaply is looked at first.
    let gates = Gates::load(args.gates.as_deref())?;
    let popularity = Popularity::load(args.model_lists.as_deref())?;
    let webhooks = Webhooks::load(args.webhooks.as_deref())?;
    let listener = tokio::net::TcpListener::bind(args.listen).await.or_trouble(
        format!("cannot listen on `{}`", args.listen),
        "another program may have the port; choose another one with `--listen`",
    )?;
    let address = listener.local_addr()?;
    let stop = CancellationToken::new();
    let signals = tokio::spawn(stop_on_signal(stop.clone()));
    let opened = Opened::open(&args.database, Use::Server).await?;
    let settings = Settings {
        public_url: args.public_url.map_or_else(
            || format!("http://{address}"),
            |url| url.trim_end_matches('/').to_owned(),
        ),
        reads: args.reads,
        ingest_limit: args.ingest_limit,
        token_requests_per_minute: args.token_requests_per_minute,
        unknown_tokens_per_minute: args.unknown_tokens_per_minute,
        client_address_header: args.client_address_header,
    };
    let state = AppState::new(opened.db.clone(), Clock::system(), gates, settings)
        .with_webhooks(webhooks)
        .with_popularity(popularity);
    let silence = Duration::from_secs(u64::from(args.silence_hours) * 3600);
    let mut periodic = JoinSet::new();
    periodic.spawn(tasks::close_runs::run(state.clone(), silence, stop.clone()));
    if args.webhooks.is_some() {
        periodic.spawn(tasks::deliver::run(state.clone(), stop.clone()));
    }
    periodic.spawn(tasks::judge_again::run(state.clone(), stop.clone()));
    if let Some(embedded) = &opened.embedded {
        periodic.spawn(tasks::keep_database::run(embedded.clone(), stop.clone()));
    }
    tracing::info!("serving on http://{address}");
    let drain = Duration::from_secs(args.drain_seconds);
    let served = app::serve(listener, state, stop.clone(), drain).await;
    stop.cancel();
    periodic.join_all().await;
    signals.abort();
    opened.close().await?;
    served?;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// The first SIGINT or SIGTERM starts the orderly end; a second one ends at once.
async fn stop_on_signal(stop: CancellationToken) {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        tracing::error!("signals cannot be watched; stop this server with SIGKILL");
        return;
    };
    for first in [true, false] {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        if first {
            tracing::info!("stopping: requests in flight may end");
            stop.cancel();
        }
    }
    tracing::warn!("ending at once");
    std::process::exit(130);
}
