//! Every word of every shared enum stands in the glossary.

use protocol::{Direction, Form, Mode, Outcome, SkipReason, Stage, Suite, Verdict};

#[test]
fn every_word_stands_in_the_glossary() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/glossary.md");
    let glossary = std::fs::read_to_string(path).unwrap();
    let words = [
        Outcome::ALL.iter().map(|w| w.as_str()).collect::<Vec<_>>(),
        Verdict::ALL.iter().map(|w| w.as_str()).collect(),
        Stage::ALL.iter().map(|w| w.as_str()).collect(),
        SkipReason::ALL.iter().map(|w| w.as_str()).collect(),
        Suite::ALL.iter().map(|w| w.as_str()).collect(),
        Mode::ALL.iter().map(|w| w.as_str()).collect(),
        Direction::ALL.iter().map(|w| w.as_str()).collect(),
        Form::ALL.iter().map(|w| w.as_str()).collect(),
    ];
    for word in words.concat() {
        assert!(glossary.contains(&format!("`{word}`")), "`{word}` is not in docs/glossary.md");
    }
}
