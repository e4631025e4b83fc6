//! What the elements of a report say of one test: its attempts, in the order in which they were
//! made, each with an outcome.

use protocol::Outcome;

use super::read::{Case, Note, NoteKind};

/// One test of a report.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Class, file or suite that it belongs to; may be empty.
    pub class: String,
    /// Its name.
    pub name: String,
    /// At least one.
    pub tries: Vec<Try>,
    /// Wall seconds, as the report says of all tries together.
    pub seconds: f64,
    /// What it wrote.
    pub output: String,
}

/// One execution of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Try {
    /// What was observed.
    pub outcome: Outcome,
    /// Class of the error.
    pub class: String,
    /// First line.
    pub message: String,
    /// All that the report says of it.
    pub text: String,
}

impl Try {
    fn passed() -> Self {
        Self {
            outcome: Outcome::Pass,
            class: String::new(),
            message: String::new(),
            text: String::new(),
        }
    }

    fn failed(note: &Note) -> Self {
        let first_line = note.text.lines().map(str::trim).find(|line| !line.is_empty());
        let message = match note.message.trim() {
            "" => first_line.unwrap_or_default().to_owned(),
            message => message.to_owned(),
        };
        let class = match note.class.trim() {
            "" => note.kind.word().to_owned(),
            class => class.to_owned(),
        };
        Self { outcome: Outcome::Error, class, message, text: note.text.clone() }
    }

    fn skipped(note: &Note) -> Self {
        Self { outcome: Outcome::Skipped, ..Self::failed(note) }
    }
}

/// What pytest writes for a test that failed as somebody expected it to. It did fail, and a
/// waiver is what forgives that here.
const EXPECTED_FAILURE: &str = "pytest.xfail";

/// Words of the attributes `status` and `result` with which some writers say, instead of with an
/// element, that a test was not executed.
const NOT_EXECUTED: [&str; 6] =
    ["notrun", "skipped", "skip", "disabled", "suppressed", "not executed"];
/// The same for one that was and went well.
const WENT_WELL: [&str; 7] = ["run", "completed", "passed", "pass", "ok", "success", "successful"];

impl Found {
    /// Of a `testcase`.
    pub(super) fn new(case: Case) -> Self {
        let tries = tries(&case);
        Self {
            class: case.class,
            name: case.name,
            tries,
            seconds: case.seconds,
            output: case.output,
        }
    }
}

fn tries(case: &Case) -> Vec<Try> {
    let of = |kind: NoteKind| case.notes.iter().filter(move |note| note.kind == kind);
    // Two elements of one test, such as the failure of its body and the error of its teardown, are
    // one execution that went badly.
    let failed = of(NoteKind::Failure).chain(of(NoteKind::Error)).next().map(Try::failed);
    let expected = of(NoteKind::Skipped).find(|note| note.class == EXPECTED_FAILURE);
    let skipped = of(NoteKind::Skipped).next();
    let last = failed
        .or_else(|| expected.map(Try::failed))
        .or_else(|| skipped.map(Try::skipped))
        .or_else(|| said_in_words(case))
        .unwrap_or_else(Try::passed);
    // Failed before it passed at last, or again after it had failed.
    let flaky = of(NoteKind::Flaky).map(Try::failed);
    let again = of(NoteKind::Rerun).map(Try::failed);
    flaky.chain(std::iter::once(last)).chain(again).collect()
}

/// What the attributes say, where no element says it.
fn said_in_words(case: &Case) -> Option<Try> {
    let words: Vec<String> = case.words.iter().map(|word| word.trim().to_lowercase()).collect();
    let bad = words
        .iter()
        .find(|word| !WENT_WELL.contains(&word.as_str()) && !NOT_EXECUTED.contains(&word.as_str()));
    if let Some(word) = bad {
        let message = format!("the report says `{word}` and nothing else");
        return Some(Try {
            outcome: Outcome::Error,
            class: "status".to_owned(),
            message,
            text: String::new(),
        });
    }
    let word = words.iter().find(|word| NOT_EXECUTED.contains(&word.as_str()))?;
    Some(Try {
        outcome: Outcome::Skipped,
        class: "status".to_owned(),
        message: format!("the report says `{word}`"),
        text: String::new(),
    })
}
