//! `server with-database -- CMD`: runs a command with `DATABASE_URL` of a private, temporary,
//! migrated database, and ends as the command ends.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitCode;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::WithDatabaseArgs;
use crate::db::Db;
use crate::embedded::Embedded;
use crate::trouble::OrTrouble as _;

pub(super) async fn run(args: WithDatabaseArgs) -> anyhow::Result<ExitCode> {
    // From now on these end the command, and then us in order; they do not end us alone.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let database = args.database.clone();
    let embedded = tokio::task::spawn_blocking(move || Embedded::temporary(&database)).await??;
    let url = embedded.url();
    let ended = async {
        let db = Db::connect(&url, 1).await?;
        match &args.migrations {
            Some(folder) => db.migrate_from(folder).await?,
            None => db.migrate().await?,
        }
        db.pool().close().await;
        let program = &args.command[0];
        let mut child = tokio::process::Command::new(program)
            .args(&args.command[1..])
            .env("DATABASE_URL", &url)
            .spawn()
            .or_trouble(
                format!("`{}` cannot be started", program.display()),
                "name a program on `PATH`, or its path",
            )?;
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
        loop {
            let signal = tokio::select! {
                status = child.wait() => break anyhow::Ok(status?),
                _ = interrupt.recv() => Signal::SIGINT,
                _ = terminate.recv() => Signal::SIGTERM,
            };
            if let Some(pid) = pid {
                // It may have ended this moment, which the next turn sees.
                let _ = kill(pid, signal);
            }
        }
    }
    .await;
    tokio::task::spawn_blocking(move || embedded.close()).await??;
    let status = ended?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Ok(ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}
