//! `--shuffle SEED`: another order of execution, the same plan.

#![expect(clippy::unwrap_used, reason = "a test stops where its world is not as it must be")]

use nix::sys::signal::Signal;
use protocol::ingest_api::{create_run, put_manifest};
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
