//! What each command does, and how a failure is shown: message, blank line, `hint:`, exit code 1
//! (2 for bad usage, which clap gives).

mod config;
mod gate;
mod migrate;
mod retention;
mod serve;
mod token;
mod transfer;
mod with_database;

use std::process::ExitCode;
use std::sync::Arc;

use crate::args::{Command, DatabaseArgs, LogFormat};
use crate::db::Db;
use crate::embedded::{Embedded, Use};
use crate::settings::Parsed;
use crate::traces::Traces;
use crate::trouble;

/// Does what the arguments say.
pub fn main(mut parsed: Parsed) -> ExitCode {
    let command = parsed.args.command.take();
    if let Some(Command::Config(_)) = command {
        return config::run(&parsed);
    }
    let command = command.unwrap_or(Command::Serve(parsed.args.serve));
    let (log_format, otlp_endpoint) = match &command {
        Command::Serve(serve) => (serve.log_format, serve.otlp_endpoint.clone()),
        Command::Token(_)
        | Command::Migrate(_)
        | Command::Gate(_)
        | Command::Retention(_)
        | Command::Export(_)
        | Command::Import(_)
        | Command::Config(_)
        | Command::WithDatabase(_) => (LogFormat::Text, None),
    };
    let quiet = !matches!(command, Command::Serve(_));
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&anyhow::Error::from(error).context("starting threads")),
    };
    let traces = otlp_endpoint.map(|url| Traces::new(url.as_str(), runtime.handle().clone()));
    let traces = match traces.transpose() {
        Ok(traces) => traces,
        Err(error) => return fail(&error),
    };
    crate::telemetry::start(log_format, quiet, traces.as_ref());
    let code = runtime.block_on(run(command)).unwrap_or_else(|error| fail(&error));
    if let Some(traces) = traces {
        traces.end();
    }
    // A blocking read that nobody waits for must not keep the process.
    runtime.shutdown_background();
    code
}

/// Says what went wrong, and how the process ends.
#[expect(clippy::print_stderr, reason = "the last word to the person who started it")]
pub fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("{}", trouble::describe(error));
    ExitCode::FAILURE
}

async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve(args) => serve::run(args).await,
        Command::Token(args) => token::run(args.command).await,
        Command::Migrate(args) => migrate::run(args).await,
        Command::Gate(args) => gate::run(args).await,
        Command::Retention(args) => retention::run(args).await,
        Command::Export(args) => transfer::export(args).await,
        Command::Import(args) => transfer::import(args).await,
        Command::Config(_) => Ok(ExitCode::SUCCESS),
        Command::WithDatabase(args) => with_database::run(args).await,
    }
}

/// The database that the settings name, and the private one when it is that.
struct Opened {
    db: Db,
    embedded: Option<Arc<Embedded>>,
}

impl Opened {
    async fn open(args: &DatabaseArgs, purpose: Use) -> anyhow::Result<Self> {
        let opened = Self::open_as_it_is(args, purpose).await?;
        match opened.db.migrate().await {
            Ok(()) => Ok(opened),
            Err(error) => {
                opened.close().await?;
                Err(error)
            }
        }
    }

    /// Without bringing the schema up to date.
    async fn open_as_it_is(args: &DatabaseArgs, purpose: Use) -> anyhow::Result<Self> {
        let embedded = match args.url() {
            Some(_) => None,
            None => {
                let args = args.clone();
                Some(tokio::task::spawn_blocking(move || Embedded::open(&args, purpose)).await??)
            }
        };
        let url = match (&embedded, args.url()) {
            (Some(embedded), _) => embedded.url(),
            (None, url) => url.unwrap_or_default().to_owned(),
        };
        match Db::connect(&url, args.database_connections).await {
            Ok(db) => Ok(Self { db, embedded: embedded.map(Arc::new) }),
            Err(error) => {
                close(embedded).await?;
                Err(error)
            }
        }
    }

    /// Whoever shares the embedded database must have let go of it.
    async fn close(self) -> anyhow::Result<()> {
        self.db.pool().close().await;
        close(self.embedded.and_then(Arc::into_inner)).await
    }
}

async fn close(embedded: Option<Embedded>) -> anyhow::Result<()> {
    match embedded {
        Some(embedded) => tokio::task::spawn_blocking(move || embedded.close()).await?,
        None => Ok(()),
    }
}
