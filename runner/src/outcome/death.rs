//! What the end of a worker in the middle of a case means.

use protocol::{Outcome, Stage};

use super::{Asked, Judged};
use crate::worker::fork_server::Exit;
use crate::worker::process::signal_name;

/// Source files of XLA:CPU's own code generator. An abort there on `tpu-sim` is a limit of the
/// simulating host: the same programs compile for a TPU.
const HOST_ABORT_PLACES: &[&str] = &["computation_partitioner.cc"];

pub(super) fn judge_death(
    asked: &Asked,
    stage: Stage,
    exit: Exit,
    memory_killed: bool,
    log_text: &str,
) -> Judged {
    let fatal = fatal_line(log_text);
    match exit {
        Exit { signal: Some(libc::SIGKILL), .. } if memory_killed => Judged::bad(
            Outcome::Oom,
            stage,
            "SIGKILL",
            "the kernel killed the worker for lack of host memory",
        ),
        Exit { signal: Some(libc::SIGKILL), .. } => Judged::bad(
            Outcome::Infra,
            stage,
            "SIGKILL",
            "the worker was killed from outside, without a sign of lacking memory",
        ),
        Exit { signal: Some(signal), .. } => {
            let name = signal_name(signal);
            let host_limit = asked.host_limited
                && fatal.is_some_and(|line| HOST_ABORT_PLACES.iter().any(|p| line.contains(p)));
            let outcome = if host_limit { Outcome::HostLimit } else { Outcome::Crash };
            let message =
                fatal.map_or_else(|| format!("the worker was ended by {name}"), str::to_owned);
            Judged::bad(outcome, stage, &name, message)
        }
        Exit { exit_code: Some(code), .. } => {
            let message = fatal.map_or_else(
                || format!("the worker exited with code {code} in the middle of the case"),
                str::to_owned,
            );
            Judged::bad(Outcome::Crash, stage, &format!("exit-{code}"), message)
        }
        Exit { exit_code: None, signal: None } => Judged::bad(
            Outcome::Infra,
            stage,
            "worker-lost",
            "the fork server ended, and the worker with it",
        ),
    }
}

/// The line in which a native library says why it aborts, from the source file on: what a log
/// puts before it (time, process) differs each time.
fn fatal_line(log_text: &str) -> Option<&str> {
    let is_logged = |line: &str| {
        let bytes = line.as_bytes();
        bytes.first() == Some(&b'F')
            && bytes.len() > 5
            && bytes[1..5].iter().all(u8::is_ascii_digit)
    };
    let is_fatal = |line: &&str| {
        is_logged(line) || line.contains("Check failed") || line.starts_with("terminate called")
    };
    let is_python = |line: &&str| line.starts_with("Fatal Python error");
    let line = log_text.lines().find(is_fatal).or_else(|| log_text.lines().find(is_python))?;
    let prefix_end = line.find("] ").and_then(|end| line[..end].rfind(' '));
    Some(prefix_end.filter(|_| is_logged(line)).map_or(line, |end| &line[end + 1..]))
}
