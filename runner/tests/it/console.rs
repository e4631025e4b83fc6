//! What a person sees while a run goes on: a bar on a terminal, lines in a log, colours where they
//! are wanted.

use crate::harness::{Ended, World};

/// Starts the program on a terminal of its own; what it writes there comes back as stdout.
const ON_A_TERMINAL: &str =
    "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";

fn on_a_terminal(world: &World, variables: &[(&str, &str)]) -> String {
    let run = world.start(&["pass.a", "sleepy", "abort", "pass.b"], &["--retries=0"]);
    let mut command = std::process::Command::new("python3");
    command.args(["-c", ON_A_TERMINAL]).arg(run.get_program()).args(run.get_args());
    command.env_clear().env("TERM", "xterm").stdin(std::process::Stdio::null());
    for (name, value) in run.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command.envs(variables.iter().copied());
    let ended = Ended::of(command.output().expect("there is a python3"));
    assert_eq!(ended.code, 1, "{}{}", ended.stdout, ended.stderr);
    ended.stdout
}

#[test]
fn a_terminal_gets_a_bar_with_rate_and_remaining_time_and_colours() {
    let shown = on_a_terminal(&World::new(), &[]);
    assert!(shown.contains("4/4 [") || shown.contains("3/4 ["), "{shown}");
    assert!(shown.contains(" < ") && shown.contains("/s]"), "rate and remaining time: {shown}");
    assert!(shown.contains("\u{1b}[31mcrash\u{1b}[0m  operators/opinfo:abort#0"), "{shown}");
}

#[test]
fn who_wants_no_colour_gets_none() {
    for variable in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let shown = on_a_terminal(&World::new(), &[variable]);
        assert!(shown.contains("crash  operators/opinfo:abort#0"), "{variable:?}: {shown}");
        assert!(!shown.contains("\u{1b}[3"), "{variable:?}: {shown}");
    }
}

#[test]
fn a_log_gets_bad_cases_at_once_and_no_bar() {
    let world = World::new();
    let ended = world.execute(&["pass.a", "abort"], &["--retries=0"]);
    assert!(ended.stderr.contains("crash  operators/opinfo:abort#0"), "{}", ended.stderr);
    assert!(!ended.stderr.contains('\r') && !ended.stderr.contains('\u{1b}'), "{}", ended.stderr);
}
