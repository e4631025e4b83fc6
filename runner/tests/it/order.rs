//! `--shuffle SEED`: another order of execution, the same plan.

#![expect(clippy::unwrap_used, reason = "a test stops where its world is not as it must be")]

use nix::sys::signal::Signal;
use protocol::Outcome;
use protocol::ingest_api::{create_run, put_manifest};
use runner::journal::Record;
use runner::plan::shuffle;
use runner::run_dir::Plan;
use serde::de::DeserializeOwned;

use crate::harness::{Ended, World};
use crate::kill::{signal, sleepy, spawn, wait_for_attempts};

fn read<T: DeserializeOwned>(world: &World, file: &str) -> T {
    serde_json::from_slice(&std::fs::read(world.path("runs").join(file)).unwrap()).unwrap()
}

/// The order that a seed gives to the cases of run `r`.
fn order(world: &World, seed: u64) -> Vec<String> {
    let mut cases = read::<Plan>(world, "r/plan.json").cases;
    shuffle(&mut cases, seed);
    cases.iter().map(|case| case.key.to_string()).collect()
}

#[test]
fn a_shuffled_run_has_the_same_manifest_and_reports_and_another_order() {
    let (plain, shuffled) = (World::new(), World::new());
    let entries: Vec<String> = (0..8).map(|n| format!("pass.{n}")).collect();
    let entries: Vec<&str> = entries.iter().map(String::as_str).collect();
    assert_eq!(plain.execute(&entries, &[]).code, 0);
    assert_eq!(shuffled.execute(&entries, &["--shuffle=5"]).code, 0);
    let manifest = |world| read::<put_manifest::Request>(world, "r/manifest.json");
    assert_eq!(manifest(&shuffled), manifest(&plain));
    let planned: Vec<_> = manifest(&plain).cases.iter().map(ToString::to_string).collect();
    assert_eq!(plain.executed(), planned);
    assert_eq!(shuffled.executed(), order(&shuffled, 5));
    assert_ne!(shuffled.executed(), planned);
    let labels = |world| read::<create_run::Request>(world, "r/run.json").labels;
    assert_eq!(labels(&shuffled), [("shuffle".to_owned(), "5".to_owned())].into());
    assert!(labels(&plain).is_empty());
}

#[test]
fn shards_of_a_shuffled_run_agree_in_the_plan() {
    let world = World::new();
    let entries: Vec<String> = (0..8).map(|n| format!("pass.{n}")).collect();
    let entries: Vec<&str> = entries.iter().map(String::as_str).collect();
    for shard in ["--shard=1/2", "--shard=2/2"] {
        assert_eq!(world.execute(&entries, &["--shuffle=5", shard]).code, 0);
    }
    let manifest =
        |part: &str| read::<put_manifest::Request>(&world, &format!("{part}/manifest.json"));
    assert_eq!(manifest("r.shard-1-of-2"), manifest("r.shard-2-of-2"));
    let mut executed = world.executed();
    executed.sort_unstable();
    let planned: Vec<_> = manifest("r.shard-1-of-2").cases;
    let mut planned: Vec<_> = planned.iter().map(ToString::to_string).collect();
    planned.sort_unstable();
    assert_eq!(executed, planned);
}

#[test]
fn resume_and_rerun_keep_the_order() {
    let world = World::new();
    let child = spawn(&world, &sleepy(12), &["--shuffle=9"]);
    wait_for_attempts(&world, 2);
    signal(&child, Signal::SIGINT);
    assert_eq!(Ended::wait(child).code, 3);
    assert!(world.executed().len() < 12);
    let resumed = world.run(&["resume", "r"]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    assert_eq!(world.executed(), order(&world, 9));
    let again = ["rerun", "--from=r", "--only=pass", "--run-key=again"];
    assert_eq!(world.run(&again).code, 0);
    assert_eq!(world.executed()[12..], order(&world, 9));
    let other = ["rerun", "--from=r", "--only=pass", "--run-key=other", "--shuffle=2"];
    assert_eq!(world.run(&other).code, 0);
    assert_eq!(world.executed()[24..], order(&world, 2));
}

/// Findings in the journal of run `r`.
fn findings(world: &World) -> Vec<String> {
    let text = |record| match record {
        Record::Finding { text } => Some(text),
        Record::Started { .. } | Record::Attempt(_) | Record::Ended { .. } => None,
    };
    world.records().into_iter().filter_map(text).collect()
}

/// Passing cases with one in between that spoils its process and passes.
fn with_poison(before: usize, after: usize) -> Vec<String> {
    let pass = |range: std::ops::Range<usize>| range.map(|n| format!("pass.{n}"));
    let poison = std::iter::once("poisonlater".to_owned());
    pass(0..before).chain(poison).chain(pass(before..before + after)).collect()
}

fn execute(world: &World, entries: &[String], more: &[&str]) -> Ended {
    let entries: Vec<&str> = entries.iter().map(String::as_str).collect();
    world.execute(&entries, more)
}

#[test]
fn a_case_that_passes_and_spoils_its_process_is_named_by_the_one_that_suffers() {
    let world = World::new();
    // In another order it is not the neighbour that suffers first, but whoever comes next.
    let ended = execute(&world, &with_poison(9, 6), &["--shuffle=3"]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    let flaky: Vec<_> = world
        .attempts()
        .into_iter()
        .filter(|attempt| attempt.attempt == 2)
        .map(|attempt| (attempt.outcome, attempt.case.to_string(), attempt.evidence.notes))
        .collect();
    let [(Outcome::Pass, victim, notes)] = &flaky[..] else { panic!("{flaky:?}") };
    let order = order(&world, 3);
    let culprit = order.iter().position(|case| case.contains(":poisonlater#")).unwrap();
    assert_eq!(&order[culprit + 1], victim);
    let finding = format!(
        "order: `{victim}` ends as error after `{}` in the same process, and passes alone",
        order[culprit]
    );
    assert!(notes.iter().any(|note| note.starts_with(&finding)), "{notes:?}");
    assert_eq!(findings(&world), std::slice::from_ref(&finding));
    assert!(ended.stdout.contains(&finding), "{}", ended.stdout);
    let page = std::fs::read_to_string(world.path("runs/r/report.html")).unwrap();
    assert!(page.contains("and passes alone"));
}

#[test]
fn a_culprit_far_before_its_victim_is_found_and_the_search_can_be_switched_off() {
    // What reads the poison is a case of its own, far behind.
    let mut entries = vec!["pass.x".to_owned(), "plant".to_owned()];
    entries.extend((0..20).map(|n| format!("pass.{n}")));
    entries.push("reap".to_owned());
    let world = World::new();
    execute(&world, &entries, &[]);
    let found = findings(&world);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].contains("opinfo:reap#0") && found[0].contains("after `operators/opinfo:plant#0"),
        "{found:?}"
    );
    let without = World::new();
    execute(&without, &entries, &["--order-replays=0"]);
    assert!(findings(&without).is_empty());
    assert_eq!(without.outcomes("reap"), [Outcome::Error, Outcome::Pass]);
    let few = World::new();
    execute(&few, &entries, &["--order-replays=1"]);
    assert!(findings(&few).is_empty());
    let notes = few.attempts().pop().unwrap().evidence.notes;
    assert!(notes.iter().any(|note| note.contains("in 1 tries")), "{notes:?}");
}

#[test]
fn two_cases_that_spoil_a_process_only_together_are_both_in_what_is_named() {
    let world = World::new();
    let entries = ["pass.0", "halfone", "pass.1", "pass.2", "halftwo", "pass.3"];
    world.execute(&entries, &[]);
    let found = findings(&world);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("opinfo:halftwo#0"), "{found:?}");
    assert!(
        found[0].contains("the 5 cases from `operators/opinfo:pass.0#0")
            || found[0].contains("the 4 cases from `operators/opinfo:halfone#0"),
        "{found:?}"
    );
}

#[test]
fn a_flaky_case_blames_no_neighbour() {
    let world = World::new();
    world.execute(&["pass.0", "pass.1", "flaky"], &[]);
    assert!(findings(&world).is_empty());
    let notes = world.attempts().pop().unwrap().evidence.notes;
    assert!(notes.iter().any(|note| note.contains("no case before it")), "{notes:?}");
}
