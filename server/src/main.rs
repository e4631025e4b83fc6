//! The program `server`: reads the arguments and hands over to the library.

fn main() -> std::process::ExitCode {
    match server::settings::parse(std::env::args_os()) {
        Ok(parsed) => server::commands::main(parsed),
        Err(error) => server::commands::fail(&error),
    }
}
