//! `--json` of every command: shapes that do not change, described in `docs/json.md`. To accept a
//! change: `INSTA_UPDATE=always cargo test -p runner --test it json`.

#![expect(clippy::unwrap_used, reason = "a test stops where its world is not as it must be")]

use insta::assert_json_snapshot;
use serde_json::Value;

use crate::delivery::Server;
use crate::harness::{Ended, World};

/// Values whose content differs from machine to machine, and which must be there all the same.
fn shape(world: &World, ended: &Ended) -> Vec<Value> {
    let folder = world.path("").display().to_string();
    let redacted = ended.stdout.replace(folder.trim_end_matches('/'), "[WORLD]");
    let whole: Vec<Value> = serde_json::Deserializer::from_str(&redacted)
        .into_iter::<Value>()
        .collect::<Result<_, _>>()
        .unwrap();
    assert!(!whole.is_empty(), "{}", ended.stderr);
    whole.into_iter().map(redact).collect()
}

fn redact(value: Value) -> Value {
    const VARYING: &[&str] = &[
        "started_at",
        "finished_at",
        "peak_memory",
        "host",
        "versions",
        "python",
        "found",
        "page",
    ];
    match value {
        Value::Object(object) => Value::Object(
            object
                .into_iter()
                .map(|(name, value)| {
                    let varies = VARYING.contains(&name.as_str()) && !value.is_null();
                    let value = if varies { format!("[{name}]").into() } else { redact(value) };
                    (name, value)
                })
                .collect(),
        ),
        Value::Array(items) => items.into_iter().map(redact).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

const CASES: &[&str] = &["pass", "mismatch.a", "mismatch.b", "unsupported", "abort", "flaky"];

#[test]
fn a_run_and_what_is_made_of_it() {
    let world = World::new();
    let ended = world.execute(CASES, &["--json"]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert_json_snapshot!("run", shape(&world, &ended));
    let report = world.run(&["report", "r", "--json"]);
    assert_eq!(report.stdout, ended.stdout, "the report says the same again");
    assert_json_snapshot!(
        "report_list",
        shape(&world, &world.run(&["report", "--list", "--json"]))
    );
    assert_json_snapshot!(
        "repro",
        shape(&world, &world.run(&["repro", "r", "abort", "--json", "--kept"]))
    );
    let rerun = world.run(&["rerun", "--from=r", "--only=flaky", "--run-key=again", "--json"]);
    let of_rerun: Value = serde_json::from_str(&rerun.stdout).unwrap();
    assert_eq!(of_rerun["total"]["outcomes"], serde_json::json!({"pass": 1}));
    let resume = world.run(&["resume", "r", "--json"]);
    assert_eq!(shape(&world, &resume), shape(&world, &ended), "nothing was left to do");
}

#[test]
fn what_is_there_to_run_on() {
    let world = World::new();
    let selection = world.file("s.txt", "pass.a\npass.b\n").display().to_string();
    let list = world.run(&[
        "list",
        "--suite=operators",
        "--samples=1",
        "--selection",
        &selection,
        "--json",
    ]);
    assert_json_snapshot!("list", shape(&world, &list));
    let doctor = world.run(&["doctor", "--device=cpu", "--json"]);
    let checks: Vec<Value> = shape(&world, &doctor);
    for check in &checks {
        let keys: Vec<_> = check.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["check", "found", "hint", "state"]);
        let state = check["state"].as_str().unwrap();
        assert!(["ok", "note", "fail"].contains(&state), "{state}");
        assert!(state == "ok" || !check["hint"].is_null(), "{check}");
    }
    let named = |name: &str| checks.iter().any(|check| check["check"] == name);
    for name in ["runs directory", "cache directory", "tmpfs for tensors", "sockets", "open files"]
    {
        assert!(named(name), "{name} is checked");
    }
    let devices = world.run(&["devices", "--json"]);
    for device in shape(&world, &devices) {
        let keys: Vec<_> = device.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["auto", "detail", "device", "state"]);
    }
    let setup = world.run(&["setup", "--sim-wrapper", "--json"]);
    let setup: Value = serde_json::from_str(&setup.stdout).unwrap();
    assert!(setup["path"].as_str().unwrap().ends_with(".so"), "{setup}");
}

#[test]
fn what_a_server_says() {
    let world = World::new();
    let answer = r#"{"gate":"nightly","answer":"closed","rules":[]}"#;
    let server = Server::start(move |_| (200, "", answer.to_owned()));
    let gate = world.run(&["gate", "nightly", "--server", &server.address, "--json"]);
    assert_eq!(gate.code, 1, "{}", gate.stderr);
    assert_eq!(
        serde_json::from_str::<Value>(&gate.stdout).unwrap(),
        serde_json::from_str::<Value>(answer).unwrap(),
        "as the server wrote it"
    );
    world.execute(&["pass"], &[]);
    let refused = Server::start(|_| {
        let body = r#"{"status":403,"title":"no","hint":"ask","request_id":"1"}"#;
        (403, "", body.to_owned())
    });
    let push = world.run(&["push", "r", "--server", &refused.address, "--json"]);
    assert_eq!(push.code, 3, "{}", push.stderr);
    let line: Value = serde_json::from_str(&push.stdout).unwrap();
    assert_eq!(line["delivered"], false);
    assert!(line["error"].as_str().unwrap().contains("refused the token: no"), "{line}");
}
