//! The `runner` program. Everything is in the library; this file only turns its answer into an
//! exit code and its errors into words.

use std::process::ExitCode;

use clap::Parser as _;
use runner::args::Cli;
use runner::exit::Exit;
use runner::talk::say;

fn main() -> ExitCode {
    let cli = Cli::parse();
    // One thread: what a case costs here is mostly waking another one. What takes long, comparing
    // above all, is on threads of its own.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("cannot start: {error}"), "", Exit::Trouble),
    };
    match runtime.block_on(runner::commands::execute(cli)) {
        Ok(exit) => exit.into(),
        Err(error) => fail(&error.to_string(), &error.hint(), error.exit()),
    }
}

fn fail(message: &str, hint: &str, exit: Exit) -> ExitCode {
    say(&format!("error: {message}"));
    if !hint.is_empty() {
        say(&format!("\nhint: {hint}"));
    }
    exit.into()
}
