//! What each command does, and how a failure is shown: message, blank line, `hint:`, exit code 1
//! (2 for bad usage, which clap gives).

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;

use crate::app::{self, AppState, Settings};
use crate::args::{Args, Command, LogFormat, ServeArgs};
use crate::clock::Clock;
use crate::db::Db;
use crate::trouble::{self, OrTrouble as _};

/// Does what the arguments say.
pub fn main(args: Args) -> ExitCode {
    let command = args.command.unwrap_or(Command::Serve(args.serve));
    let log_format = match &command {
        Command::Serve(serve) => serve.log_format,
        Command::Token(_) | Command::WithDatabase(_) => LogFormat::Text,
    };
    crate::telemetry::start(log_format);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&anyhow::Error::from(error).context("no threads")),
    };
    match runtime.block_on(run(command)) {
        Ok(code) => code,
        Err(error) => fail(&error),
    }
}

#[expect(clippy::print_stderr, reason = "the last word to the person who started it")]
fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("{}", trouble::describe(error));
    ExitCode::FAILURE
}

async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve(args) => serve(args).await.map(|()| ExitCode::SUCCESS),
        Command::Token(_) | Command::WithDatabase(_) => anyhow::bail!("not yet"),
    }
}

async fn serve(args: ServeArgs) -> anyhow::Result<()> {
    let url = args.database.database_url.clone().context("no `DATABASE_URL`")?;
    let listener = tokio::net::TcpListener::bind(args.listen).await.or_trouble(
        format!("cannot listen on `{}`", args.listen),
        "another program may have the port; choose another one with `--listen`",
    )?;
    let db = Db::connect(&url, args.database.database_connections).await?;
    db.migrate().await?;
    let address = listener.local_addr()?;
    let settings = Settings {
        public_url: args.public_url.unwrap_or_else(|| format!("http://{address}")),
        reads: args.reads,
        ingest_limit: args.ingest_limit,
    };
    let state = AppState::new(db, Clock::system(), settings);
    let stop = CancellationToken::new();
    app::serve(listener, state, stop, Duration::from_secs(args.drain_seconds)).await
}
