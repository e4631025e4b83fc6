//! Shards of one run: every case in one of them, whatever decides which.

use serde_json::json;

use crate::delivery::Server;
use crate::harness::World;

const ENTRIES: &[&str] = &["pass.a", "pass.b", "pass.c", "pass.d", "pass.e", "pass.f"];

fn key(entry: &str) -> String {
    format!("operators/opinfo:{entry}#0/float32.eager.forward")
}

/// What each of two shards would execute, and what is said of that.
fn halves(world: &World, entries: &[&str], more: &[&str]) -> ([Vec<String>; 2], String) {
    let selection = world.file("s.txt", &entries.join("\n")).display().to_string();
    let mut said = String::new();
    let halves = ["1/2", "2/2"].map(|shard| {
        let fixed = ["list", "--suite=operators", "--samples=1", "--selection", &selection];
        let ended = world.run(&[&fixed[..], &["--shard", shard], more].concat());
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        said = ended.stderr;
        ended.stdout.lines().map(str::to_owned).collect()
    });
    (halves, said)
}

#[test]
fn without_balance_a_case_that_is_added_moves_no_other() {
    let world = World::new();
    let (before, _) = halves(&world, ENTRIES, &[]);
    for added in ["pass.0", "pass.g", "pass.ab"] {
        let entries = [&[added], ENTRIES].concat();
        let (mut after, _) = halves(&world, &entries, &[]);
        for half in &mut after {
            half.retain(|case| *case != key(added));
        }
        assert_eq!(after, before, "{added}");
    }
}

/// A server that knows how long some cases took.
fn durations(seconds: &[(&str, f64)]) -> Server {
    let cases: Vec<_> = seconds
        .iter()
        .map(|(entry, seconds)| {
            json!({"case": key(entry), "verdict": "passed", "outcome": "pass", "seconds": seconds})
        })
        .collect();
    let body = json!({"cases": cases, "next": null}).to_string();
    Server::start(move |_| (200, "", body.clone()))
}

#[test]
fn shards_are_balanced_by_durations_of_a_server_and_the_rest_goes_by_hash_and_is_named() {
    let world = World::new();
    let known = [("pass.a", 8.0), ("pass.b", 3.0), ("pass.c", 3.0), ("pass.d", 2.0)];
    let server = durations(&known);
    let address = format!("{}/runs/x", server.address);
    let (by_hash, _) = halves(&world, ENTRIES, &[]);
    let (balanced, said) = halves(&world, ENTRIES, &["--balance", &address]);
    let of = |half: &[String], entry: &str| half.contains(&key(entry));
    assert!(of(&balanced[0], "pass.a") && !of(&balanced[1], "pass.a"));
    for entry in ["pass.b", "pass.c", "pass.d"] {
        assert!(of(&balanced[1], entry) && !of(&balanced[0], entry), "{entry}");
    }
    for entry in ["pass.e", "pass.f"] {
        assert_eq!(of(&balanced[0], entry), of(&by_hash[0], entry), "{entry}");
    }
    assert!(said.contains("balanced 4 of 6 cases"), "{said}");
    assert!(said.contains("shards of 8, 8 s"), "{said}");
    let unknown = format!("2 cases have no duration there and go by their hash: {}", key("pass.e"));
    assert!(said.contains(&unknown), "{said}");
}

#[test]
fn a_kept_run_balances_the_next_and_its_shards_execute_every_case_once() {
    let world = World::new();
    assert_eq!(world.execute(ENTRIES, &[]).code, 0);
    std::fs::rename(world.path("runs/r"), world.path("runs/before")).unwrap();
    std::fs::remove_file(world.path("state/executed")).unwrap();
    let before = world.path("runs/before").display().to_string();
    for shard in ["1/2", "2/2"] {
        let ended = world.execute(ENTRIES, &["--shard", shard, "--balance", &before]);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
    }
    let mut executed = world.executed();
    executed.sort();
    assert_eq!(executed, ENTRIES.iter().map(|entry| key(entry)).collect::<Vec<_>>());
    let report = world.run(&["report", "r.shard-1-of-2", "--json"]);
    let summary: serde_json::Value = serde_json::from_str(&report.stdout).unwrap();
    assert_eq!(summary["total"]["outcomes"]["pass"], summary["total"]["planned"]);
}

#[test]
fn a_shard_with_another_plan_or_another_balance_is_refused() {
    // TRIALS S17.
    let world = World::new();
    assert_eq!(world.execute(ENTRIES, &["--shard=1/2"]).code, 0);
    let executed = world.executed().len();
    let server = durations(&[("pass.a", 1.0), ("pass.b", 1.0)]);
    let address = format!("{}/runs/x", server.address);
    for (entries, more, why) in [
        (&ENTRIES[1..], vec!["--shard=2/2"], "another plan"),
        (ENTRIES, vec!["--shard=2/3"], "another number of shards"),
        (ENTRIES, vec!["--shard=2/2", "--balance", &address], "another balance"),
    ] {
        let ended = world.execute(entries, &more);
        assert_eq!(ended.code, 2, "{why}: {}", ended.stderr);
        assert!(ended.stderr.contains(&format!("of run `r` has {why} than")), "{}", ended.stderr);
    }
    assert_eq!(world.executed().len(), executed, "nothing was executed");
    assert_eq!(world.execute(ENTRIES, &["--shard=2/2"]).code, 0);
}
