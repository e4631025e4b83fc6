//! The file format: every mistake is told with its line, and every field is taken.

use std::path::Path;

use chrono::NaiveDate;
use insta::assert_snapshot;
use protocol::{Dtype, Mode, Outcome, Suite};

use super::read::parse;
use crate::Error;

#[path = "../../../protocol/tests/waivers/mod.rs"]
mod fixtures;

const GOOD: &str = r#"
[[waiver]]
case_pattern = "operators/opinfo:fft.*"
operator = "aten::_fft_r2c"
suite = "operators"
outcomes = ["unsupported", "error"]
when.device = "tpu"
when.device_kind = ["TPU v6e", "TPU v5*"]
when.dtype = ["float32", "bfloat16"]
when.mode = "eager"
when.versions = { torch = ">=2.14, <2.16", torch_tpu = "<0.3" }
reason = """the transforms are not lowered yet,
  see the plan"""
owner = "fft team"
issue = "https://issues.example/7"
author = "someone else"
expires_on = 2027-03-01
"#;

fn today() -> NaiveDate {
    "2026-11-30".parse().unwrap()
}

fn refusal(text: &str) -> String {
    match parse(Path::new("waivers.toml"), text, today()) {
        Err(Error::Input { message, .. }) => message,
        other => panic!("it was taken: {other:?}"),
    }
}

#[test]
fn every_field_is_taken() {
    let waivers = parse(Path::new("waivers.toml"), GOOD, today()).unwrap();
    assert_eq!(waivers.describe(0), "waivers.toml:2 (https://issues.example/7)");
    let waiver = &waivers.waivers[0];
    assert_eq!(waiver.reason, "the transforms are not lowered yet, see the plan");
    let terms = &waiver.terms;
    assert_eq!(terms.suite, Some(Suite::Operators));
    assert_eq!(terms.outcomes, [Outcome::Unsupported, Outcome::Error]);
    assert_eq!(terms.conditions.dtypes, [Dtype::Float32, Dtype::Bfloat16]);
    assert_eq!(terms.conditions.modes, [Mode::Eager]);
    assert_eq!(terms.conditions.device_kinds, ["TPU v6e", "TPU v5*"]);
    assert!(terms.conditions.versions["torch"].contains("2.15.0"));
    assert_eq!(terms.expires_on.to_string(), "2027-03-01");
    let kept = serde_json::to_string(&waivers).unwrap();
    assert_eq!(serde_json::from_str::<super::Waivers>(&kept).unwrap(), waivers);
}

#[test]
fn no_waiver_is_fine_and_an_ended_one_is_read() {
    assert!(parse(Path::new("w"), "# none yet\n", today()).unwrap().waivers.is_empty());
    let ended = GOOD.replace("2027-03-01", "2026-01-01");
    assert_eq!(parse(Path::new("w"), &ended, today()).unwrap().waivers.len(), 1);
}

#[test]
fn every_mistake_is_told_at_once_with_its_place() {
    assert_snapshot!(refusal(
        r#"
[[waiver]]
case_patern = "operators/*"
operator = "aten::add.Tensor"
outcomes = ["crsh"]
when = { mode = "lazy", dtype = [], kind = "x", versions = { torch = "2.15" } }
reason = "why"
issue = "https://issues.example/1"
expires_on = "soon"

[[waiver]]
case_pattern = "*"
outcomes = []
reason = "because"
owner = "me"
issue = "tracker 7"
expires_on = 2029-01-01

[[waivers]]
"#
    ));
}

#[test]
fn what_is_no_toml_and_no_list_is_told() {
    assert_snapshot!(refusal("[[waiver]\nwaiver = 1\n"));
    assert_snapshot!(refusal("waiver = 1\n"));
}

/// The server has a reader of its own for the same format, and must make the same of this file.
#[test]
fn the_file_that_the_server_reads_too_means_the_same_here() {
    let text = include_str!("../../../protocol/tests/waivers/every_field.toml");
    let expected: Vec<protocol::waiver::Terms> =
        serde_json::from_str(include_str!("../../../protocol/tests/waivers/every_field.json"))
            .unwrap();
    let read = parse(Path::new("w"), text, today()).unwrap().waivers;
    assert_eq!(read.into_iter().map(|waiver| waiver.terms).collect::<Vec<_>>(), expected);
}

#[test]
fn what_the_server_refuses_is_refused_here() {
    for change in fixtures::refused() {
        let (field, text) = fixtures::with(change);
        let refusal = refusal(&text);
        assert!(fixtures::names(&refusal, &field, change), "{change}: {refusal}");
    }
}
