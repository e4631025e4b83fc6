//! The program `server`: reads the arguments and hands over to the library.

use clap::Parser as _;
use server::args::Args;

fn main() -> std::process::ExitCode {
    server::commands::main(Args::parse())
}
