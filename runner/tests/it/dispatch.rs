//! What becomes of cases that end badly: each costs itself and nothing else.

use protocol::{Outcome, Stage};
use runner::worker::process::is_running;

use crate::harness::World;

const FAST: &[&str] = &["--execute-timeout=1", "--compile-timeout=1"];

#[test]
fn every_way_to_end_is_called_by_its_name_and_the_others_run() {
    let world = World::new();
    let entries = [
        "abort",
        "pass.0",
        "exit",
        "pass.1",
        "garbage",
        "pass.2",
        "toolong",
        "notjson",
        "othercase",
        "mismatch",
        "nan",
        "error",
        "unsupported",
        "oom",
        "infra",
        "host-limit",
        "skipped",
        "elsewhere",
        "killed",
        "pass.3",
    ];
    let ended = world.execute(&entries, &["--retries=0"]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    for (entry, outcome, class) in [
        ("abort", Outcome::Crash, "SIGABRT"),
        ("exit", Outcome::Crash, "exit-3"),
        ("garbage", Outcome::Infra, "link-garbage"),
        ("toolong", Outcome::Infra, "link-garbage"),
        ("notjson", Outcome::Infra, "link-garbage"),
        ("othercase", Outcome::Infra, "link-garbage"),
        ("mismatch", Outcome::Mismatch, "values-differ"),
        ("nan", Outcome::Mismatch, "non-finite"),
        ("error", Outcome::Error, "RuntimeError"),
        ("unsupported", Outcome::Unsupported, "RuntimeError"),
        ("oom", Outcome::Oom, "RuntimeError"),
        ("infra", Outcome::Infra, "RuntimeError"),
        ("host-limit", Outcome::HostLimit, "RuntimeError"),
        ("skipped", Outcome::Skipped, "RuntimeError"),
        ("elsewhere", Outcome::Fallback, "other-device"),
        ("killed", Outcome::Infra, "SIGKILL"),
    ] {
        let attempt = world.attempt(entry);
        assert_eq!((attempt.outcome, attempt.error_class.as_str()), (outcome, class), "{entry}");
    }
    for entry in ["pass.0", "pass.1", "pass.2", "pass.3"] {
        assert_eq!(world.outcomes(entry), [Outcome::Pass], "{entry}");
    }
    assert_eq!(world.attempts().len(), entries.len());
}

#[test]
fn a_crash_names_its_operator_its_signal_and_its_last_words() {
    let world = World::new();
    world.execute(&["abort"], &[]);
    let attempts = world.attempts();
    assert_eq!(attempts.len(), 2, "it is tried again in a fresh process");
    for attempt in attempts {
        assert_eq!((attempt.outcome, attempt.stage), (Outcome::Crash, Some(Stage::Execute)));
        assert_eq!(attempt.message, "scatter.cc:154] Check failed: rank");
        assert_eq!(attempt.operator.as_deref(), Some("aten::scatter_reduce.two"));
        assert_eq!(attempt.evidence.last_operator.unwrap().source, "rerun");
        assert_eq!(attempt.evidence.signal, Some(6));
        assert!(attempt.evidence.log.head.contains("Check failed"));
        assert_eq!(attempt.evidence.repro, "import torch  # left behind\n");
    }
    assert_eq!(world.executed().len(), 3, "two attempts and one rerun that names the operator");
}

#[test]
fn what_a_worker_was_inside_of_is_known_without_a_rerun_that_repeats_it() {
    let world = World::new();
    let entries = ["inside", "hanginside", "killedinside", "pass"];
    world.execute(&entries, &[FAST, &["--retries=0"]].concat());
    for (entry, outcome, blamed) in [
        ("inside", Outcome::Crash, Some("aten::linear")),
        ("hanginside", Outcome::Timeout, Some("aten::linear")),
        ("killedinside", Outcome::Infra, None),
    ] {
        let attempt = world.attempt(entry);
        assert_eq!((attempt.outcome, attempt.stage), (outcome, Some(Stage::Execute)), "{entry}");
        assert_eq!(attempt.operator.as_deref(), blamed, "{entry}");
        let last = attempt.evidence.last_operator.unwrap();
        assert_eq!((last.overload.as_str(), last.source.as_str()), ("aten::linear", "breadcrumb"));
        let notes = attempt.evidence.notes.join("\n");
        assert!(notes.contains("it had got to `aten::addmm.out`"), "{notes}");
    }
    assert_eq!(world.outcomes("pass"), [Outcome::Pass]);
}

#[test]
fn without_breadcrumbs_a_rerun_still_names_the_operator() {
    let world = World::new();
    let mut command = world.start(&["abort", "inside"], &["--retries=0"]);
    crate::harness::Ended::of(command.env("FAKE", "no-crumbs").output().unwrap());
    assert_eq!(world.attempt("abort").operator.as_deref(), Some("aten::scatter_reduce.two"));
    let inside = world.attempt("inside");
    assert_eq!((inside.outcome, inside.operator), (Outcome::Crash, None));
}

#[test]
fn a_native_hang_that_ignores_signals_costs_one_case() {
    let world = World::new();
    let entries = ["hang", "pass.0", "pass.1", "pass.2", "pass.3", "pass.4"];
    let ended = world.execute(&entries, &[FAST, &["--retries=0"]].concat());
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    let hang = world.attempt("hang");
    assert_eq!((hang.outcome, hang.error_class.as_str()), (Outcome::Timeout, "execute-timeout"));
    assert_eq!(world.attempts().iter().filter(|a| a.outcome == Outcome::Pass).count(), 5);
}

#[test]
fn no_descendant_survives_its_case_not_even_in_another_session() {
    let world = World::new();
    world.execute(&["grandchild", "pass"], &[FAST, &["--retries=0"]].concat());
    assert_eq!(world.outcomes("grandchild"), [Outcome::Timeout]);
    let pid = std::fs::read_to_string(world.path("state/grandchild")).unwrap();
    assert!(!is_running(pid.trim().parse().unwrap()), "{pid} survived");
    assert_eq!(world.outcomes("pass"), [Outcome::Pass]);
}

#[test]
fn a_child_that_inherits_the_link_does_not_hide_the_death_of_its_parent() {
    let world = World::new();
    world.execute(&["heir", "pass"], &["--retries=0", "--execute-timeout=3600"]);
    let heir = std::fs::read_to_string(world.path("state/heir")).unwrap().parse().unwrap();
    assert_eq!(world.outcomes("heir"), [Outcome::Crash]);
    assert_eq!(world.outcomes("pass"), [Outcome::Pass]);
    // The scripted fork server ends groups only; the real one has an eye on orphans.
    let _ =
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(heir), nix::sys::signal::Signal::SIGKILL);
}

#[test]
fn a_child_that_keeps_the_output_open_holds_nobody_up() {
    let world = World::new();
    let ended = world.execute(&["leak", "pass"], &["--retries=0"]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert_eq!(world.attempt("leak").message, "it failed as error");
    assert_eq!(world.outcomes("pass"), [Outcome::Pass]);
}

#[test]
fn a_flood_of_output_keeps_both_ends_and_does_not_stay_on_disk() {
    let world = World::new();
    let ended = world.execute(&["noisy"], &[]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let log = world.attempt("noisy").evidence.log;
    assert!(log.head.starts_with("begin\n"), "{:.20}", log.head);
    assert!(log.tail.ends_with("\u{fffd}\u{fffd} end\n"), "{:?}", log.tail);
    let kept = (log.head.len() + log.tail.len()) as u64;
    assert!(kept < 20_000, "{kept}");
    assert!(log.dropped_bytes > (200 << 20) - 20_000, "{}", log.dropped_bytes);
    assert!(std::fs::metadata(world.path("runs/r/journal.jsonl")).unwrap().len() < 100_000);
}

/// Most resident memory of a living process, in bytes.
fn peak_resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok()).unwrap_or(0) << 10
}

#[test]
fn a_gibibyte_on_stderr_is_neither_kept_in_memory_nor_waited_for() {
    let world = World::new();
    let mut command = world.start(&["noisy", "pass"], &[]);
    let mut child = command.env("FAKE_MIB", "1024").spawn().unwrap();
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        peak = peak.max(peak_resident(child.id()));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!((1 << 20..200 << 20).contains(&peak), "the runner took {} MiB", peak >> 20);
    assert_eq!(world.outcomes("noisy"), [Outcome::Pass]);
    assert_eq!(world.outcomes("pass"), [Outcome::Pass]);
    assert!(world.attempt("noisy").evidence.log.dropped_bytes > (1 << 30) - 20_000);
}

#[test]
fn unexpected_outcomes_are_tried_again_and_every_attempt_is_kept() {
    let world = World::new();
    let ended = world.execute(&["flaky", "mismatch", "unsupported", "skipped", "pass"], &[]);
    assert_eq!(ended.code, 1, "a flaky case did not pass: {}", ended.stderr);
    assert_eq!(world.outcomes("flaky"), [Outcome::Mismatch, Outcome::Pass]);
    assert_eq!(world.outcomes("mismatch"), [Outcome::Mismatch, Outcome::Mismatch]);
    assert_eq!(world.outcomes("unsupported"), [Outcome::Unsupported]);
    assert_eq!(world.outcomes("skipped"), [Outcome::Skipped]);
    assert_eq!(world.outcomes("pass"), [Outcome::Pass]);
    assert!(ended.stdout.contains("1 flaky"), "{}", ended.stdout);
}

#[test]
fn a_poisoned_device_costs_one_case() {
    let world = World::new();
    let entries = ["pass.0", "poison", "pass.1", "pass.2"];
    world.execute(&entries, &["--retries=0"]);
    assert_eq!(world.outcomes("poison"), [Outcome::Error]);
    for entry in ["pass.0", "pass.1", "pass.2"] {
        assert_eq!(world.outcomes(entry), [Outcome::Pass], "{entry}");
    }
    let notes = world.attempt("poison").evidence.notes.join("\n");
    assert!(notes.contains("failed its probe after this case"), "{notes}");
    assert!(notes.contains("opinfo:pass.0#0"), "the case before it is named: {notes}");
}

#[test]
fn a_device_that_stays_broken_is_drained_and_later_cases_are_not_blamed() {
    let world = World::new();
    let broken = world.path("broken").display().to_string();
    let mut command = world.start(&["pass.0", "breaks", "pass.1", "pass.2"], &["--retries=0"]);
    let output = command.env("FAKE_BROKEN", broken).output().unwrap();
    let ended = crate::harness::Ended::of(output);
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    assert_eq!(world.outcomes("pass.0"), [Outcome::Pass]);
    assert_eq!(world.outcomes("breaks"), [Outcome::Crash]);
    assert!(world.outcomes("pass.1").is_empty() && world.outcomes("pass.2").is_empty());
    assert!(ended.stdout.contains("2 cases were not run"), "{}", ended.stdout);
    assert!(ended.stderr.contains("takes no more cases"), "{}", ended.stderr);
}

#[test]
fn a_crash_while_recording_or_leaving_changes_no_outcome() {
    let world = World::new();
    let ended = world.execute(&["recordabort", "pass", "teardown"], &[]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(world.outcomes("recordabort"), [Outcome::Pass]);
    let evidence = world.attempt("recordabort").evidence;
    assert_eq!(evidence.operators, None, "not measured is not none");
    assert!(evidence.notes[0].contains("recording operators ended"), "{:?}", evidence.notes);
    assert_eq!(world.outcomes("teardown"), [Outcome::Pass]);
    assert!(ended.stdout.contains("teardown-crash"), "{}", ended.stdout);
}

#[test]
fn a_device_that_another_process_has_for_a_moment_is_waited_for() {
    let world = World::new();
    let device = world.file("state/device", "");
    let has_it = std::process::Command::new("flock")
        .args([device.as_path(), "sh".as_ref(), "-c".as_ref(), "echo; sleep 1.2".as_ref()])
        .stdout(std::process::Stdio::piped())
        .spawn();
    let mut has_it = has_it.unwrap();
    let mut held = [0];
    std::io::Read::read_exact(has_it.stdout.as_mut().unwrap(), &mut held).unwrap();
    let ended = world.execute(&["pass"], &[]);
    assert!(has_it.try_wait().unwrap().is_some(), "it was held till the end");
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    assert_eq!(world.outcomes("pass"), [Outcome::Pass]);
}

#[test]
fn a_full_disk_is_no_fault_of_the_case_and_where_it_stays_full_no_other_suffers() {
    let world = World::new();
    let ended = on_a_mebibyte(&world, &["pass.0", "overflow", "pass.1"]);
    assert_eq!(ended.code, 1, "{}{}", ended.stdout, ended.stderr);
    assert_eq!(world.outcomes("overflow"), [Outcome::Infra]);
    assert!(world.attempt("overflow").message.contains("No space left on device"));
    assert_eq!(world.outcomes("pass.1"), [Outcome::Pass], "its room is there again");

    let world = World::new();
    let ended = on_a_mebibyte(&world, &["pass.0", "fillup", "pass.1", "pass.2"]);
    assert_eq!(ended.code, 3, "{}{}", ended.stdout, ended.stderr);
    assert_eq!(world.outcomes("pass.0"), [Outcome::Pass]);
    assert_eq!(world.outcomes("fillup"), [Outcome::Infra]);
    assert!(world.outcomes("pass.1").is_empty() && world.outcomes("pass.2").is_empty());
    assert!(ended.stdout.contains("2 cases were not run"), "{}", ended.stdout);
    assert!(ended.stderr.contains("tensors cannot be written in `/dev/shm/"), "{}", ended.stderr);
}

/// Executes entries where there is one mebibyte for tensors.
#[expect(clippy::unwrap_used, reason = "a test stops where it cannot start the program")]
fn on_a_mebibyte(world: &World, entries: &[&str]) -> crate::harness::Ended {
    let plain = world.start(entries, &["--retries=0"]);
    let mut command = std::process::Command::new("unshare");
    let mounted = "mount -t tmpfs -o size=1m tmpfs /dev/shm && exec \"$@\"";
    command.args(["--map-root-user", "--mount", "sh", "-c", mounted, "sh"]);
    command.arg(plain.get_program()).args(plain.get_args());
    command.env_clear().stdin(std::process::Stdio::null());
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    crate::harness::Ended::of(command.output().unwrap())
}

#[test]
fn what_is_right_one_at_a_time_and_wrong_fused_is_a_finding_of_the_run() {
    let world = World::new();
    let ended = world.execute(&["fused", "pass", "mismatch"], &["--mode=eager,strict"]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    let finding = "cross-mode: pass in strict, mismatch in eager: \
                   operators/opinfo:fused#0/float32.*.forward";
    assert_eq!(ended.stdout.matches("cross-mode").count(), 1, "{}", ended.stdout);
    assert!(ended.stdout.contains(finding), "{}", ended.stdout);
    let report = world.run(&["report", "r"]);
    assert!(report.stdout.contains(finding), "{}", report.stdout);
}

#[test]
fn workers_are_replaced_after_so_many_cases() {
    let world = World::new();
    let entries: Vec<String> = (0..7).map(|n| format!("pass.{n}")).collect();
    let entries: Vec<&str> = entries.iter().map(String::as_str).collect();
    let ended = world.execute(&entries, &["--recycle-after=3"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let logs = std::fs::read_dir(world.path("runs/r/logs")).unwrap().flatten();
    let workers = logs.filter(|e| e.file_name().to_string_lossy().starts_with("worker-")).count();
    assert_eq!(workers, 3);
}

#[test]
fn two_workers_share_the_cases() {
    let world = World::new();
    let entries: Vec<String> = (0..12).map(|n| format!("sleepy.{n}")).collect();
    let entries: Vec<&str> = entries.iter().map(String::as_str).collect();
    let mut command = world.start(&entries, &["--jobs=2"]);
    let ended = crate::harness::Ended::of(command.env("FAKE_SLEEP", "0.05").output().unwrap());
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(world.attempts().len(), 12);
    for worker in ["worker-1.log", "worker-2.log"] {
        assert!(world.path("runs/r/logs").join(worker).is_file(), "{worker}");
    }
}

#[test]
fn a_worker_that_dies_at_every_start_is_not_started_for_ever() {
    let world = World::new();
    let mut command = world.start(&["pass"], &[]);
    let ended = crate::harness::Ended::of(command.env("FAKE", "workers-die").output().unwrap());
    assert_eq!(ended.code, 3);
    assert!(ended.stderr.contains("backend failed to start on `cpu`"), "{}", ended.stderr);
    assert!(world.executed().is_empty());
    let folders = std::fs::read_dir(world.path("runs")).unwrap().flatten();
    let logs = folders.flat_map(|run| std::fs::read_dir(run.path().join("logs")).unwrap());
    let names = logs.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let started = names.filter(|name| name.starts_with("worker-")).count();
    assert!((2..=6).contains(&started), "{started} workers were started");
}
