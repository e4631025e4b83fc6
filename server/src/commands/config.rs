//! `server config`: every setting of `serve`, its value and where that comes from.

use std::process::ExitCode;

use crate::settings::{self, Parsed};

#[expect(clippy::print_stdout, reason = "the list is the command's data")]
pub(super) fn run(parsed: &Parsed) -> ExitCode {
    for setting in settings::list(parsed) {
        let value = setting.value.as_deref().unwrap_or("-");
        println!("{}\t{value}\t{}\t{}", setting.name, setting.source, setting.variable);
    }
    ExitCode::SUCCESS
}
