//! What the program does for each command. One file per command; [`session`] holds what most of
//! them need first: Python, worker package, device, backend.

mod blockers;
mod coverage;
mod devices;
mod doctor;
mod durations;
mod explain;
mod gate;
mod golden;
mod list;
mod manual;
mod models;
mod new_run;
mod push;
mod record;
mod report;
mod repro;
mod repro_proof;
mod rerun;
mod resume;
mod run;
mod selection;
mod session;
mod setup;
mod start;

use crate::Error;
use crate::args::{Cli, Command};
use crate::exit::Exit;
use crate::talk::say;

/// Does what the command line asks for.
pub async fn execute(cli: Cli) -> Result<Exit, Error> {
    match cli.command {
        None => run::execute(&cli.run).await,
        Some(Command::Setup(args)) => setup::execute(&args),
        Some(Command::List(args)) => list::execute(&args).await,
        Some(Command::Devices(args)) => devices::execute(&args).await,
        Some(Command::Doctor(args)) => doctor::execute(&args).await,
        Some(Command::Resume(args)) => resume::execute(&args).await,
        Some(Command::Rerun(args)) => rerun::execute(&args).await,
        Some(Command::Push(args)) => push::execute(&args).await,
        Some(Command::Report(args)) => report::execute(&args),
        Some(Command::Blockers(args)) => blockers::execute(&args),
        Some(Command::Record(args)) => record::execute(&args).await,
        Some(Command::Golden(args)) => golden::execute(&args).await,
        Some(Command::Gate(args)) => gate::execute(&args).await,
        Some(Command::Coverage(args)) => coverage::execute(&args).await,
        Some(Command::Explain(args)) => explain::execute(&args),
        Some(Command::Repro(args)) => repro::execute(&args),
        Some(Command::Completions(args)) => manual::print_completions(&args),
        Some(Command::Man(args)) => manual::print_page(&args),
    }
}

/// Does what waits for a network by itself, off the thread that drives the runtime.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// Writes data to stdout; a reader that has gone away is no error of ours.
fn print(text: &str) -> Result<(), Error> {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::file("write", std::path::Path::new("standard output"))(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
