//! `runner completions` and `runner man`: what shells and `man` are to know of the command line.

use std::path::Path;

use clap::{Command, CommandFactory as _};

use super::print;
use crate::Error;
use crate::args::{Cli, CompletionsArgs, ManArgs, Shell};
use crate::exit::Exit;

pub(super) fn print_completions(args: &CompletionsArgs) -> Result<Exit, Error> {
    print(&completions(args.shell))?;
    Ok(Exit::Success)
}

pub(super) fn print_page(args: &ManArgs) -> Result<Exit, Error> {
    print(&page(args.command.as_deref())?)?;
    Ok(Exit::Success)
}

fn completions(shell: Shell) -> String {
    let generator = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut text = Vec::new();
    clap_complete::generate(generator, &mut Cli::command(), "runner", &mut text);
    String::from_utf8(text).expect("help texts are UTF-8")
}

/// The page in `roff`, of the program or of a command.
fn page(command: Option<&str>) -> Result<String, Error> {
    let mut program = Cli::command().disable_help_subcommand(true);
    program.build();
    let of = match command {
        None => program,
        Some(name) => command_page(&program, name)?,
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(of)
        .source(concat!("runner ", env!("CARGO_PKG_VERSION")))
        .render(&mut text)
        .map_err(Error::file("write", Path::new("the man page")))?;
    Ok(String::from_utf8(text).expect("help texts are UTF-8"))
}

/// A command under the name of its page: `runner-list`.
fn command_page(program: &Command, name: &str) -> Result<Command, Error> {
    let Some(found) = program.find_subcommand(name) else {
        let names: Vec<&str> = program.get_subcommands().map(Command::get_name).collect();
        return Err(Error::Usage {
            message: format!("there is no command `{name}`"),
            hint: format!("the commands are {}", names.join(", ")),
        });
    };
    let page_name: &'static str = format!("runner-{name}").leak();
    Ok(found.clone().name(page_name).display_name(page_name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_and_the_program_names_each() {
        let program = page(None).unwrap();
        assert!(program.contains(".TH runner 1"), "{program}");
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            let escaped = name.replace('-', "\\-");
            assert!(program.contains(&format!("runner\\-{escaped}(1)")), "{name}: {program}");
            let text = page(Some(name)).unwrap();
            let head = format!(".TH runner-{name} 1  \"runner {}\"", env!("CARGO_PKG_VERSION"));
            assert!(text.contains(&head), "{name}: {text}");
            assert!(text.contains(&format!("runner {escaped}")), "{name}: {text}");
        }
    }

    #[test]
    fn completions_know_every_command_and_the_long_flags_of_a_run() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let text = completions(shell);
            for command in Cli::command().get_subcommands() {
                assert!(text.contains(command.get_name()), "{shell:?} {}", command.get_name());
            }
            for flag in ["model-list", "shuffle", "from"] {
                assert!(text.contains(flag), "{shell:?} {flag}");
            }
        }
    }
}
