//! `kill -9` of the worker and of the runner, and polite signals: no finished result is lost or
//! doubled.

#![expect(clippy::unwrap_used, reason = "a test stops where its world is not as it must be")]

use std::collections::HashMap;
use std::process::Child;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use protocol::Outcome;
use runner::worker::process::{descendants, is_running};

use crate::harness::{Ended, World, fork_server_of, hidden_pid, wait_for};

pub(crate) fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().try_into().unwrap()), signal).unwrap();
}

pub(crate) fn sleepy(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("sleepy.{n}")).collect()
}

pub(crate) fn spawn(world: &World, entries: &[String], more: &[&str]) -> Child {
    let entries: Vec<&str> = entries.iter().map(String::as_str).collect();
    world.start(&entries, more).env("FAKE_SLEEP", "0.1").spawn().unwrap()
}

pub(crate) fn wait_for_attempts(world: &World, count: usize) {
    wait_for("attempts", || {
        world.path("runs/r/journal.jsonl").exists() && world.attempts().len() >= count
    });
}

#[test]
fn a_killed_runner_leaves_no_process_and_resume_does_only_the_rest() {
    let world = World::new();
    let entries = sleepy(12);
    let mut child = spawn(&world, &entries, &[]);
    wait_for_attempts(&world, 4);
    let family = descendants(child.id());
    assert!(family.len() >= 2, "fork server and worker: {family:?}");
    signal(&child, Signal::SIGKILL);
    child.wait().unwrap();
    wait_for("the family to end", || family.iter().all(|pid| !is_running(*pid)));
    let finished = world.attempts();
    let mut command = world.command(&["resume", "r"]);
    let ended = Ended::of(command.env("FAKE_SLEEP", "0.01").output().unwrap());
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let attempts = world.attempts();
    let mut count: HashMap<_, usize> = HashMap::new();
    for attempt in &attempts {
        *count.entry(attempt.case.clone()).or_default() += 1;
    }
    assert_eq!(count.len(), 12);
    assert!(count.values().all(|times| *times == 1), "{count:?}");
    assert_eq!(attempts[..finished.len()], finished[..], "what was finished is untouched");
    let again = world.run(&["resume", "r"]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert_eq!(world.attempts().len(), 12, "nothing is left to do");
}

#[test]
fn a_killed_worker_costs_one_attempt_of_one_case() {
    let world = World::new();
    let child = spawn(&world, &sleepy(6), &[]);
    wait_for_attempts(&world, 2);
    let family = descendants(child.id());
    let worker = family
        .iter()
        .find(|pid| {
            // The fork server is the runner's child, the worker is the fork server's.
            !std::fs::read_to_string(format!("/proc/{pid}/stat"))
                .unwrap_or_default()
                .contains(&format!(") S {} ", child.id()))
        })
        .copied()
        .unwrap();
    kill(Pid::from_raw(worker.try_into().unwrap()), Signal::SIGKILL).unwrap();
    let ended = Ended::wait(child);
    assert_eq!(ended.code, 0, "nothing was learnt from it, and it passed then: {}", ended.stderr);
    let attempts = world.attempts();
    let infra: Vec<_> = attempts.iter().filter(|a| a.outcome == Outcome::Infra).collect();
    assert_eq!(infra.len(), 1, "{attempts:?}");
    assert_eq!(attempts.iter().filter(|a| a.outcome == Outcome::Pass).count(), 6);
    assert_eq!(attempts.len(), 7);
}

#[test]
fn an_interrupt_finishes_what_is_in_flight_and_reports() {
    for (name, by) in [("SIGINT", Signal::SIGINT), ("SIGTERM", Signal::SIGTERM)] {
        let world = World::new();
        let child = spawn(&world, &sleepy(30), &[]);
        wait_for_attempts(&world, 2);
        signal(&child, by);
        let ended = Ended::wait(child);
        assert_eq!(ended.code, 3, "{}", ended.stderr);
        assert!(ended.stdout.contains(&format!("stopped by {name}")), "{}", ended.stdout);
        assert!(ended.stdout.contains("runner resume r"), "{}", ended.stdout);
        let attempts = world.attempts();
        assert!(attempts.len() < 30 && attempts.iter().all(|a| a.outcome == Outcome::Pass));
        let executed = world.executed();
        assert_eq!(executed.len(), attempts.len(), "the one in flight was finished");
    }
}

#[test]
fn a_second_interrupt_abandons_a_hanging_case_without_blaming_it() {
    let world = World::new();
    let mut command = world.start(&["pass", "hang"], &["--execute-timeout=3600"]);
    let child = command.spawn().unwrap();
    wait_for("the hang", || world.executed().len() == 2);
    signal(&child, Signal::SIGINT);
    std::thread::sleep(std::time::Duration::from_millis(200));
    signal(&child, Signal::SIGINT);
    let ended = Ended::wait(child);
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    assert_eq!(world.attempts().len(), 1, "the abandoned case has no attempt");
    assert!(ended.stdout.contains("1 cases were not run"), "{}", ended.stdout);
}

#[test]
fn two_runners_cannot_write_to_one_run() {
    let world = World::new();
    let mut child = spawn(&world, &sleepy(30), &[]);
    wait_for_attempts(&world, 1);
    let second = world.run(&["resume", "r"]);
    assert_eq!(second.code, 2, "{}", second.stderr);
    assert!(second.stderr.contains("another runner is at work"), "{}", second.stderr);
    signal(&child, Signal::SIGKILL);
    child.wait().unwrap();
}

#[test]
fn what_hid_in_another_session_does_not_outlive_a_killed_fork_server() {
    let world = World::new();
    let entries = ["hidden", "hiddenclean", "pass"];
    let mut command = world.start(&entries, &["--execute-timeout=3600"]);
    let child = command.spawn().unwrap();
    for entry in ["hidden", "hiddenclean"] {
        let hidden = hidden_pid(&world, entry);
        kill(Pid::from_raw(fork_server_of(&child).try_into().unwrap()), Signal::SIGKILL).unwrap();
        wait_for("its end", || !is_running(hidden));
    }
    wait_for("the other cases", || world.attempts().iter().any(|a| a.outcome == Outcome::Pass));
    let ended = Ended::wait(child);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(world.outcomes("hidden"), [Outcome::Infra, Outcome::Pass]);
    assert_eq!(world.outcomes("pass"), [Outcome::Pass]);
}

#[test]
fn a_killed_fork_server_takes_its_workers_along_and_is_replaced() {
    let world = World::new();
    let child = spawn(&world, &sleepy(6), &[]);
    wait_for_attempts(&world, 2);
    let parent_of = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let (_, rest) = stat.rsplit_once(") ").unwrap_or_default();
        rest.split(' ').nth(1).and_then(|parent| parent.parse::<u32>().ok())
    };
    let family = descendants(child.id());
    let fork_server =
        family.iter().copied().find(|pid| parent_of(*pid) == Some(child.id())).unwrap();
    kill(Pid::from_raw(fork_server.try_into().unwrap()), Signal::SIGKILL).unwrap();
    let ended = Ended::wait(child);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let attempts = world.attempts();
    let lost: Vec<_> = attempts.iter().filter(|a| a.outcome == Outcome::Infra).collect();
    assert_eq!(lost.len(), 1, "{attempts:?}");
    assert_eq!(attempts.iter().filter(|a| a.outcome == Outcome::Pass).count(), 6);
    assert!(family.iter().all(|pid| !is_running(*pid)), "none of the first family is left");
}

#[test]
fn what_an_abandoned_case_hid_in_another_session_is_ended_with_it() {
    let world = World::new();
    let mut command = world.start(&["pass", "hidden"], &["--execute-timeout=3600"]);
    let child = command.spawn().unwrap();
    let hidden = hidden_pid(&world, "hidden");
    signal(&child, Signal::SIGINT);
    std::thread::sleep(std::time::Duration::from_millis(200));
    signal(&child, Signal::SIGINT);
    let ended = Ended::wait(child);
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    assert_eq!(world.outcomes("pass"), [Outcome::Pass], "partial results are kept");
    wait_for("its end", || !is_running(hidden));
}

#[test]
fn a_journal_that_cannot_grow_ends_the_run_and_loses_no_whole_record() {
    let world = World::new();
    let entries: Vec<String> = (0..400).map(|n| format!("pass.{n}")).collect();
    let entries: Vec<&str> = entries.iter().map(String::as_str).collect();
    let size = |world: &World, file: &str| std::fs::metadata(world.path(file)).unwrap().len();
    let whole = World::new();
    assert_eq!(whole.execute(&entries, &[]).code, 0);
    let (plan, journal) = (size(&whole, "runs/r/plan.json"), size(&whole, "runs/r/journal.jsonl"));
    assert!(plan < journal, "{plan} {journal}");
    let plain = world.start(&entries, &[]);
    // What the program unpacks is larger than the limit.
    for what in ["--sim-wrapper", "--breadcrumb"] {
        assert_eq!(world.run(&["setup", what]).code, 0);
    }
    let kibibytes = (plan + journal) / 2 / 1024;
    let limit = format!("trap '' XFSZ; ulimit -f {kibibytes}; exec \"$@\"");
    let mut command = std::process::Command::new("bash");
    command.args(["-c", &limit, "limited"]).arg(plain.get_program()).args(plain.get_args());
    command.env_clear().stdin(std::process::Stdio::null());
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ended = Ended::of(command.output().unwrap());
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    let ending = ended.stdout.lines().find(|line| line.starts_with("aborted: "));
    assert!(
        ending.is_some_and(|line| line.contains("journal.jsonl")),
        "{}{}",
        ended.stdout,
        ended.stderr
    );
    let attempts = world.attempts();
    assert!((10..400).contains(&attempts.len()), "{} attempts were kept", attempts.len());
    assert!(attempts.iter().all(|attempt| attempt.outcome == Outcome::Pass));
    let resumed = world.run(&["resume", "r"]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    let mut count: HashMap<_, usize> = HashMap::new();
    for attempt in world.attempts() {
        *count.entry(attempt.case).or_default() += 1;
    }
    assert_eq!(count.len(), 400);
    assert!(count.values().all(|times| *times == 1));
}
