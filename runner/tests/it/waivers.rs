//! `--waivers`: what a person answers for is told apart from what passes, and never hides.

#![expect(clippy::unwrap_used, reason = "a test stops where its world is not as it must be")]

use chrono::{TimeDelta, Utc};
use insta::assert_snapshot;
use serde_json::Value;

use crate::harness::World;

/// A day some days from now, or before.
fn day(days: i64) -> String {
    (Utc::now().date_naive() + TimeDelta::days(days)).to_string()
}

fn waiver(fields: &str, expires_on: &str) -> String {
    format!(
        "[[waiver]]\n{fields}\nreason = \"known since the first night\"\nowner = \"fft team\"\n\
         issue = \"https://issues.example/7\"\nexpires_on = {expires_on}\n\n"
    )
}

fn exact(entry: &str, outcomes: &str) -> String {
    format!(
        "case_pattern = \"operators/opinfo:{entry}#0/float32.eager.forward\"\noutcomes = {outcomes}"
    )
}

fn json(world: &World, name: &str) -> Value {
    let text = std::fs::read_to_string(world.path("runs/r").join(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_forgiven_failure_is_waived_and_not_passed_and_fails_nothing() {
    let world = World::new();
    let end = day(30);
    let text = [
        waiver(&exact("abort", "[\"crash\"]"), &end),
        waiver("operator = \"aten::named\"\noutcomes = [\"unsupported\"]", &end),
    ]
    .concat();
    let file = world.file("waivers.toml", &text).display().to_string();
    let ended = world.execute(&["pass", "abort", "unsupported"], &["--waivers", &file]);
    assert_eq!(ended.code, 0, "{}\n{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("3 cases: 1 pass, 2 waived"), "{}", ended.stdout);
    let summary = json(&world, "summary.json");
    assert_eq!(summary["total"]["outcomes"], serde_json::json!({"pass": 1, "waived": 2}));
    assert_eq!(summary["total"]["pass_rate"]["part"], 1);
    assert_eq!(summary["total"]["pass_rate"]["whole"], 3);
    assert_eq!(summary["cases"][1]["why"]["outcome"], "crash", "its true outcome is kept");
    let again = world.run(&["report", "r"]);
    assert_eq!(again.stdout, ended.stdout, "the waivers are kept with the run");
    let rerun = world.run(&["rerun", "--from=r", "--run-key=again", "--only=crash"]);
    assert_eq!(rerun.code, 0, "a rerun has the waivers of its run: {}", rerun.stdout);
}

#[test]
fn only_what_a_waiver_names_is_forgiven() {
    let world = World::new();
    let end = day(30);
    for (text, why) in [
        (waiver(&exact("abort", "[\"timeout\"]"), &end), "another outcome"),
        (waiver(&exact("abortion", "[\"crash\"]"), &end), "another case"),
        (waiver(&exact("abort", "[\"crash\"]"), &day(0)), "it has ended"),
        (waiver(&(exact("abort", "[\"crash\"]") + "\nwhen.device = \"tpu\""), &end), "device"),
        (waiver(&(exact("abort", "[\"crash\"]") + "\nwhen.dtype = \"int8\""), &end), "dtype"),
        (waiver(&(exact("abort", "[\"crash\"]") + "\nwhen.mode = \"strict\""), &end), "mode"),
        (
            waiver(
                &(exact("abort", "[\"crash\"]") + "\nwhen.versions = { torch_tpu = \">=0\" }"),
                &end,
            ),
            "a version that is not known",
        ),
    ] {
        let file = world.file("waivers.toml", &text).display().to_string();
        let ended = world.execute(&["abort"], &["--retries=0", "--waivers", &file]);
        assert_eq!(ended.code, 1, "{why}: {}", ended.stdout);
        std::fs::remove_dir_all(world.path("runs/r")).unwrap();
    }
}

#[test]
fn what_no_longer_counts_is_told_loudly() {
    let world = World::new();
    let (end, past) = (day(30), day(-3));
    let text = [
        waiver(&exact("pass", "[\"mismatch\"]"), &end),
        waiver(&exact("mismatch", "[\"mismatch\"]"), &past),
        waiver(&exact("nosuch", "[\"crash\"]"), &end),
        waiver("case_pattern = \"operators/opinfo:pass*\"\noutcomes = [\"crash\"]", &end),
        waiver("case_pattern = \"tier1/*\"\noutcomes = [\"crash\"]\nwhen.device = \"tpu\"", &end),
    ]
    .concat();
    let file = world.file("waivers.toml", &text).display().to_string();
    let ended = world.execute(&["pass", "mismatch"], &["--retries=0", "--waivers", &file]);
    let told = world.snapshot(&ended).replace(&end, "[END]").replace(&past, "[PAST]");
    assert_snapshot!(told);
    let standings: Vec<_> = json(&world, "summary.json")["waivers"]["waivers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|waiver| waiver["standing"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(standings, ["used", "expired", "unmatched", "not needed", "not for this run"]);
}

#[test]
fn a_file_with_mistakes_stops_before_anything_is_executed() {
    let world = World::new();
    let file = world.file("w.toml", "[[waiver]]\noutcomes = [\"pass\"]\nreasn = \"x\"\n");
    let file = file.display().to_string();
    let ended = world.execute(&["pass"], &["--waivers", &file]);
    assert_snapshot!(world.snapshot(&ended));
    assert!(world.executed().is_empty());
    let missing = world.execute(&["pass"], &["--waivers", "/nosuch/w.toml"]);
    assert_eq!(missing.code, 2, "{}", missing.stderr);
    assert!(missing.stderr.contains("/nosuch/w.toml"), "{}", missing.stderr);
}
