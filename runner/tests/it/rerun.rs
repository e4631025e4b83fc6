//! `runner rerun`: exactly the cases that fit, as a run of their own, with the settings of theirs.

#![expect(clippy::unwrap_used, reason = "a test stops where its world is not as it must be")]

use insta::assert_snapshot;
use runner::plan::manifest;
use runner::run_dir::Plan;
use serde_json::{Value, json};

use crate::delivery::Server;
use crate::harness::{Ended, World};

fn json_of(world: &World, path: &str) -> Value {
    serde_json::from_slice(&std::fs::read(world.path(path)).unwrap()).unwrap()
}

fn plan_of(world: &World, run: &str) -> Plan {
    serde_json::from_value(json_of(world, &format!("runs/{run}/plan.json"))).unwrap()
}

/// Entries of a run's cases, in order.
fn entries(world: &World, run: &str) -> Vec<String> {
    let cases = plan_of(world, run).cases;
    let entry = |key: &str| key.split_once("opinfo:").unwrap().1.split('#').next().unwrap().into();
    cases.iter().map(|case| entry(case.key.as_str())).collect()
}

fn rerun(world: &World, from: &str, key: &str, more: &[&str]) -> Ended {
    let args = [&["rerun", "--from", from, "--run-key", key], more].concat();
    // Without a Python from outside it must be the run's.
    Ended::of(world.command(&args).env_remove("CONFORMANCE_PYTHON").output().unwrap())
}

#[test]
fn what_came_out_badly_is_executed_again_with_the_settings_of_its_run() {
    let world = World::new();
    let settings = ["--seed=11", "--retries=2", "--execute-timeout=77", "--label=nightly=yes"];
    let cases = ["pass.a", "abort", "flaky", "pass.b", "skipped", "host-limit"];
    assert_eq!(world.execute(&cases, &settings).code, 1);
    let ended = rerun(&world, "r", "again", &["--label=why=test"]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("3 of 6 cases of `r`"), "{}", ended.stderr);
    assert_eq!(entries(&world, "again"), ["abort", "flaky", "host-limit"]);
    let (first, again) = (plan_of(&world, "r"), plan_of(&world, "again"));
    assert_eq!(again.settings, first.settings);
    assert_eq!((again.settings.seed, again.settings.retries), (11, 2));
    assert!(again.cases.iter().all(|case| first.cases.contains(case)));
    let kept = json_of(&world, "runs/again/manifest.json");
    assert_eq!(kept["hash"], manifest(&again.cases).hash);
    let labels = &json_of(&world, "runs/again/run.json")["labels"];
    assert_eq!(*labels, json!({"rerun_of": "r", "why": "test"}));
    let changed = rerun(&world, "r", "changed", &["--seed=3", "--retries=0", "--only=crash"]);
    assert_eq!(changed.code, 1, "{}", changed.stderr);
    assert_eq!(entries(&world, "changed"), ["abort"]);
    let settings = plan_of(&world, "changed").settings;
    assert_eq!((settings.seed, settings.retries, settings.execute_timeout), (3, 0, 77));
}

#[test]
fn a_rerun_that_passes_is_a_success_and_can_be_rerun_from_its_folder() {
    let world = World::new();
    assert_eq!(world.execute(&["flaky", "pass"], &["--retries=0"]).code, 1);
    let folder = world.path("runs/r").display().to_string();
    let ended = rerun(&world, &folder, "again", &[]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(entries(&world, "again"), ["flaky"]);
    let by_outcome = rerun(&world, "latest", "third", &["--only", "crash,pass"]);
    assert_eq!(by_outcome.code, 0, "{}", by_outcome.stderr);
    assert_eq!(entries(&world, "third"), ["flaky"], "of `again`, the latest");
}

#[test]
fn cases_without_an_attempt_are_missing_and_only_those_of_the_shard() {
    let world = World::new();
    let broken = world.path("broken").display().to_string();
    let mut command = world.start(&["pass.0", "breaks", "pass.1", "pass.2"], &["--retries=0"]);
    command.env("FAKE_BROKEN", &broken).output().unwrap();
    std::fs::remove_file(&broken).unwrap();
    let ended = rerun(&world, "r", "again", &["--only=missing"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(entries(&world, "again"), ["pass.1", "pass.2"]);

    let entries_of_all: Vec<String> = (0..8).map(|n| format!("mismatch.{n}")).collect();
    let all: Vec<&str> = entries_of_all.iter().map(String::as_str).collect();
    let sharded = World::new();
    sharded.execute(&all, &["--retries=0", "--shard=1/2"]);
    let ended = rerun(&sharded, "r.shard-1-of-2", "again", &[]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    let shard = "1/2".parse::<runner::plan::Shard>().unwrap();
    let planned = plan_of(&sharded, "r.shard-1-of-2").cases.into_iter();
    let held: Vec<_> = planned.filter(|case| shard.holds(&case.key)).collect();
    assert!(!held.is_empty() && held.len() < 8);
    assert_eq!(plan_of(&sharded, "again").cases, held);
    assert_eq!(plan_of(&sharded, "again").settings.shard, None);
}

#[test]
fn none_that_fits_an_unknown_word_and_a_taken_key() {
    let world = World::new();
    assert_eq!(world.execute(&["pass.a", "pass.b", "skipped"], &[]).code, 0);
    let executed = world.executed().len();
    let snapshot = |args: &[&str]| world.snapshot(&world.run(args));
    assert_snapshot!("nothing_to_rerun", snapshot(&["rerun", "--from", "r"]));
    assert_snapshot!("only_an_unknown_word", snapshot(&["rerun", "--from=r", "--only", "bad"]));
    assert_snapshot!("rerun_of_no_run", snapshot(&["rerun", "--from", "nosuch"]));
    assert_snapshot!(
        "a_rerun_as_a_run_that_there_is",
        snapshot(&["rerun", "--from=r", "--only=pass", "--run-key=r"])
    );
    assert_snapshot!("rerun_of_no_address", snapshot(&["rerun", "--from", "http://h/x"]));
    assert_eq!(world.executed().len(), executed, "nothing was executed");
}

/// Cases of a run as a server lists them, in two pages.
fn served(seen_line: &str) -> (u16, &'static str, String) {
    let case = |entry: &str, verdict: &str, outcome: Value| {
        let case = format!("operators/opinfo:{entry}#3/float32.eager.forward");
        json!({"case": case, "verdict": verdict, "outcome": outcome, "attempts": 1})
    };
    let body = if seen_line.contains("/cases?limit=1000&cursor=abc ") {
        let model = "tier2/timm:resnet18#tiny/float32.eager.forward";
        json!({"cases": [
            case("pass.c", "flaky", json!("mismatch")),
            case("pass.d", "fixed", json!("pass")),
            {"case": model, "verdict": "regressed", "outcome": "timeout"},
        ], "next": null})
    } else if seen_line.contains("/cases?limit=1000 ") {
        json!({"cases": [
            case("pass.a", "missing", Value::Null),
            case("pass.b", "passed", json!("pass")),
            case("pass.x", "waived", json!("crash")),
        ], "next": "abc"})
    } else if seen_line.contains("/runs/far ") {
        json!({"run": "far", "device_profile": "cpu"})
    } else {
        return (
            404,
            "",
            r#"{"status":404,"title":"no run `none`","hint":"look","request_id":"1"}"#.into(),
        );
    };
    (200, "", body.to_string())
}

#[test]
fn a_run_on_a_server_is_rerun_by_its_address() {
    let world = World::new();
    let server = Server::start(|seen| served(&seen.line));
    let address = format!("{}/runs/far", server.address);
    let run = |key: &str, more: &[&str]| {
        let args = [&["rerun", "--from", &address, "--run-key", key], more].concat();
        world.run(&args)
    };
    let without_list = run("no", &[]);
    assert_eq!(without_list.code, 2, "{}", without_list.stderr);
    let told = world.redact(&without_list.stderr).replace(&server.address, "[SERVER]");
    assert_snapshot!("a_model_case_without_its_list", told);
    let ended = run("again", &["--only=missing,flaky,crash", "--seed=5"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(entries(&world, "again"), ["pass.a", "pass.x", "pass.c"]);
    assert_eq!(plan_of(&world, "again").settings.seed, 5);
    assert_eq!(json_of(&world, "runs/again/run.json")["labels"]["rerun_of"], "far");
    let posted = server.seen("POST");
    assert!(posted.is_empty(), "reading from a server is no wish to write to it");
    let list =
        world.file("l.toml", "models = [\n  { id = \"timm:resnet18\", size = \"tiny\" },\n]\n");
    let with_list = run("model", &["--only=timeout", "--model-list", &list.display().to_string()]);
    assert_eq!(with_list.code, 0, "{}", with_list.stderr);
    assert!(with_list.stderr.contains("the server does not keep the run's seed; it is 7 here"));
    assert_eq!(plan_of(&world, "model").cases.len(), 1);
    let nosuch = world.run(&["rerun", "--from", &format!("{}/runs/none", server.address)]);
    assert_eq!(nosuch.code, 3, "{}", nosuch.stderr);
    assert!(nosuch.stderr.contains("no run `none`"), "{}", nosuch.stderr);
}
