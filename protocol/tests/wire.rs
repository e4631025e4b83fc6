//! Every message against its recorded bytes in `tests/wire/`, which the worker's pytest reads too.
//!
//! To accept a deliberate change: `UPDATE_WIRE=1 cargo test -p protocol --test wire`.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::fmt::Debug;
use std::path::PathBuf;

use protocol::{ingest_api, worker_link};
use serde::{Serialize, de::DeserializeOwned};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/wire")
}

/// Reads the file as `M`, writes it again, and demands the same JSON.
fn check<M: Serialize + DeserializeOwned + Debug>(name: &str) {
    let path = folder().join(format!("{name}.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let message: M = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
    let again = serde_json::to_value(&message).unwrap();
    if std::env::var_os("UPDATE_WIRE").is_some() {
        std::fs::write(&path, serde_json::to_string_pretty(&again).unwrap() + "\n").unwrap();
        return;
    }
    assert_eq!(again, value, "{name} is not written as it is read");
}

#[test]
fn ingest_messages_are_read_and_written_as_recorded() {
    check::<ingest_api::create_run::Request>("create_run.request");
    check::<ingest_api::create_run::Response>("create_run.response");
    check::<ingest_api::put_manifest::Request>("put_manifest.request");
    check::<ingest_api::put_manifest::Response>("put_manifest.response");
    check::<ingest_api::post_results::Request>("post_results.request");
    check::<ingest_api::post_results::Response>("post_results.response");
    check::<ingest_api::seal_run::Request>("seal_run.request");
    check::<ingest_api::seal_run::Response>("seal_run.response");
    check::<ingest_api::ErrorBody>("error_body");
}

#[test]
fn link_messages_are_read_and_written_as_recorded() {
    for name in ["spawn", "stop"] {
        check::<worker_link::ToForkServer>(&format!("to_fork_server.{name}"));
    }
    for name in ["ready", "failed", "spawned", "exited"] {
        check::<worker_link::FromForkServer>(&format!("from_fork_server.{name}"));
    }
    for name in [
        "probe",
        "take_inventory",
        "name_entries",
        "list_operators",
        "execute_operator",
        "execute_model",
        "execute_blockers",
        "execute_divergence",
        "execute_dynamism",
    ] {
        check::<worker_link::ToWorker>(&format!("to_worker.{name}"));
    }
    for name in [
        "hello",
        "probed",
        "probe_failed",
        "inventory",
        "entries_named",
        "operators_listed",
        "entered",
        "built",
        "observed_blockers",
        "observed_divergence",
        "observed_outputs",
        "observed_failure",
        "observed_sweep",
        "recorded",
    ] {
        check::<worker_link::FromWorker>(&format!("from_worker.{name}"));
    }
}

#[test]
fn every_recorded_file_is_checked() {
    let checked = include_str!("wire.rs");
    for entry in std::fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let stem = name.strip_suffix(".json").unwrap();
        let last = stem.rsplit_once('.').map_or(stem, |(_, last)| last);
        assert!(
            checked.contains(&format!("\"{stem}\"")) || checked.contains(&format!("\"{last}\"")),
            "{name} is read by no test"
        );
    }
}

#[test]
fn an_unknown_field_is_refused_by_name() {
    let text = std::fs::read_to_string(folder().join("seal_run.request.json")).unwrap();
    let text = text.replacen('{', "{\"surprise\": 1,", 1);
    let error = serde_json::from_str::<ingest_api::seal_run::Request>(&text).unwrap_err();
    assert!(error.to_string().contains("surprise"), "{error}");
}

#[test]
fn frames_come_out_whole_however_the_bytes_arrive() {
    let first = worker_link::encode(&worker_link::ToWorker::Probe).unwrap();
    let second = worker_link::encode(&worker_link::ToWorker::Stop).unwrap();
    let bytes = [first, second].concat();
    for size in 1..bytes.len() {
        let mut decoder = worker_link::Decoder::default();
        let mut messages = Vec::new();
        for chunk in bytes.chunks(size) {
            decoder.feed(chunk);
            while let Some(message) = decoder.next_message::<worker_link::ToWorker>().unwrap() {
                messages.push(message);
            }
        }
        assert_eq!(messages, [worker_link::ToWorker::Probe, worker_link::ToWorker::Stop]);
    }
}

#[test]
fn rubbish_on_the_link_is_an_error_and_not_an_allocation() {
    let mut decoder = worker_link::Decoder::default();
    decoder.feed(b"Traceback (most recent call last):");
    let error = decoder.next_message::<worker_link::FromWorker>().unwrap_err();
    assert!(error.to_string().contains("over the limit"), "{error}");
}
