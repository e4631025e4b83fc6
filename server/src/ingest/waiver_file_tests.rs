//! The file as the runner reads it, and what is made of a change in it.

use protocol::waiver::Terms;

use super::*;
use fixtures::with;

#[path = "../../../protocol/tests/waivers/mod.rs"]
mod fixtures;

fn today() -> NaiveDate {
    "2026-11-30".parse().unwrap()
}

const GOOD: &str = include_str!("../../../protocol/tests/waivers/every_field.toml");

fn entries(text: &str) -> Vec<Entry> {
    read(text.as_bytes(), today()).unwrap()
}

fn refusal(text: &str) -> String {
    read(text.as_bytes(), today()).unwrap_err().to_string()
}

#[test]
fn the_file_means_what_the_runner_reads_in_it() {
    let expected: Vec<Terms> =
        serde_json::from_str(include_str!("../../../protocol/tests/waivers/every_field.json"))
            .unwrap();
    let read = entries(GOOD);
    assert_eq!(read.iter().map(|entry| entry.waiver.terms()).collect::<Vec<_>>(), expected);
    assert_eq!(read.iter().map(|entry| entry.line).collect::<Vec<_>>(), [2, 18]);
    assert_eq!((read[0].waiver.author(), read[1].waiver.author()), ("ada", "vision team"));
}

#[test]
fn the_example_in_the_documents_is_one() {
    let text = include_str!("../../../docs/waivers.md");
    let example = text.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    assert_eq!(entries(example).len(), 1);
}

#[test]
fn what_the_runner_refuses_is_refused_here() {
    assert!(fixtures::refused().count() > 20);
    for change in fixtures::refused() {
        let (field, text) = with(change);
        let refusal = refusal(&text);
        assert!(fixtures::names(&refusal, &field, change), "{change}: {refusal}");
        assert!(refusal.contains("line "), "{change}: {refusal}");
    }
    assert!(refusal("waiver = 1").contains("line 1"));
    assert!(refusal("[[waiver]\n").contains("line 1"));
    assert!(read(b"\xff", today()).unwrap_err().to_string().contains("UTF-8"));
}

#[test]
fn every_mistake_of_meaning_is_told_at_once_and_no_waiver_stands_there_twice() {
    let (_, first) = with("reason = \"broken\"");
    let (_, second) = with("issue = \"chat\"");
    let text = refusal(&format!("{first}{second}"));
    assert!(text.contains("line 1: `reason`") && text.contains("line 8: `issue`"), "{text}");
    let (_, good) = with("owner = \"o\"");
    assert!(refusal(&format!("{good}\n{good}")).contains("is that of line 1 again"));
}

#[test]
fn the_plan_tells_new_changed_ended_and_over_apart() {
    let (_, base) = with("owner = \"o\"");
    let (_, other) = with("case_pattern = \"operators/b*\"");
    let of = |text: &str| entries(text).remove(0).waiver;
    let author = Some("o".to_owned());
    let stored = NewWaiver { author, ..of(&base) };
    assert_eq!(plan(&[(7, stored.clone())], &entries(&base), today()).unchanged, 1);

    let longer = base.replace("2027-03-01", "2027-04-01").replace("\"error\"", "\"crash\"");
    let made = plan(&[(7, stored.clone())], &entries(&longer), today());
    assert_eq!((made.changed[0].replaces, made.changed[0].line), (7, 1));
    assert_eq!(made.changed[0].fields, ["expires_on", "outcomes"]);
    assert!(made.added.is_empty() && made.ended.is_empty());

    let made = plan(&[(7, stored.clone())], &entries(&other), today());
    assert_eq!((made.added[0].scope.as_str(), made.ended[0].waiver), ("operators/b*", 7));
    assert_eq!(plan(&[(7, stored.clone())], &[], today()).ended.len(), 1);

    let later = "2027-03-01".parse().unwrap();
    let made = plan(&[], &entries(&base), later);
    assert_eq!((made.expired[0].line, made.added.len()), (1, 0));
    let made = plan(&[(7, stored)], &entries(&base), later);
    assert_eq!((made.unchanged, made.expired.len()), (1, 0), "it is there, and ends by itself");
}
