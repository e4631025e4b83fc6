//! Takes the XML of a report apart. Nothing in it is looked up elsewhere or expanded: a document
//! type is refused, and so are depth, counts and attributes beyond what any report has.

mod attributes;

use chrono::{DateTime, Utc};
use quick_xml::XmlVersion;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::reader::Reader;

use super::meaning::Found;
use attributes::{Attributes, Claims};

/// Deepest nesting: suites within suites, a test, its properties.
const MAX_DEPTH: usize = 32;
/// Most attributes of one element.
const MAX_ATTRIBUTES: usize = 64;
/// Most tests of one report.
const MAX_TESTS: usize = 100_000;
/// Longest text kept of one element, in bytes; what follows is dropped, and a report is not worth
/// less for it.
const MAX_TEXT_BYTES: usize = 64 * 1024;

/// What a report holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Its tests, in its order.
    pub tests: Vec<Found>,
    /// When the first of its suites began, where it says so together with its time zone.
    pub started_at: Option<DateTime<Utc>>,
}

/// Why a text is not a report that can be taken in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}, at byte {position}")]
pub struct Problem {
    /// What is wrong.
    pub what: String,
    /// Where, from 0.
    pub position: u64,
    /// What to do.
    pub hint: &'static str,
}

/// One `testcase` as it stands there.
#[derive(Debug, Default)]
pub(super) struct Case {
    pub(super) class: String,
    pub(super) name: String,
    /// Values of the attributes `status` and `result`.
    pub(super) words: Vec<String>,
    pub(super) seconds: f64,
    pub(super) notes: Vec<Note>,
    pub(super) output: String,
}

/// Something that is said of a test by an element of its own.
#[derive(Debug)]
pub(super) struct Note {
    pub(super) kind: NoteKind,
    pub(super) class: String,
    pub(super) message: String,
    pub(super) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoteKind {
    Failure,
    Error,
    Skipped,
    /// An earlier execution failed, and the last one passed.
    Flaky,
    /// A further execution failed too.
    Rerun,
}

impl NoteKind {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Failure => "failure",
            Self::Error => "error",
            Self::Skipped => "skipped",
            Self::Flaky => "flaky",
            Self::Rerun => "rerun",
        }
    }

    fn of(element: &[u8]) -> Option<Self> {
        Some(match element {
            b"failure" => Self::Failure,
            b"error" => Self::Error,
            b"skipped" => Self::Skipped,
            b"flakyFailure" | b"flakyError" => Self::Flaky,
            b"rerunFailure" | b"rerunError" => Self::Rerun,
            _ => return None,
        })
    }
}

/// What an open element is.
#[derive(Debug)]
enum Open {
    Suites(Claims),
    Suite(Claims),
    Case(Case),
    Note(Note),
    Output,
    Other,
}

/// Reads a report of UTF-8 text.
///
/// # Errors
/// What is no well-formed report, is larger than the limits, has a document type, holds no test,
/// or claims more tests or failures than it names.
pub fn read(bytes: &[u8]) -> Result<Report, Problem> {
    let text = std::str::from_utf8(bytes).map_err(|error| Problem {
        what: "the report is not UTF-8".to_owned(),
        position: error.valid_up_to() as u64,
        hint: "write it as UTF-8",
    })?;
    let mut parser = Parser {
        reader: Reader::from_str(text.trim_start_matches('\u{feff}')),
        open: Vec::new(),
        tests: Vec::new(),
        started_at: None,
        has_root: false,
    };
    parser.read_all()?;
    if parser.tests.is_empty() {
        return Err(parser.problem(
            "the report holds no test".to_owned(),
            "a run without a test says nothing; select something",
        ));
    }
    Ok(Report { tests: parser.tests, started_at: parser.started_at })
}

struct Parser<'a> {
    reader: Reader<&'a [u8]>,
    open: Vec<Open>,
    tests: Vec<Found>,
    started_at: Option<DateTime<Utc>>,
    has_root: bool,
}

impl Parser<'_> {
    fn problem(&self, what: String, hint: &'static str) -> Problem {
        Problem { what, position: self.reader.buffer_position(), hint }
    }

    fn malformed(&self, error: &impl std::fmt::Display) -> Problem {
        self.problem(
            format!("the report is not well-formed XML: {error}"),
            "it ended early, or was changed on its way; send it again",
        )
    }

    fn read_all(&mut self) -> Result<(), Problem> {
        loop {
            let event = self.reader.read_event().map_err(|error| self.malformed(&error))?;
            match event {
                Event::Start(start) => self.start(&start)?,
                Event::Empty(start) => {
                    self.start(&start)?;
                    self.end()?;
                }
                Event::End(_) => self.end()?,
                Event::Text(text) => {
                    let text = text.decode().map_err(|error| self.malformed(&error))?;
                    self.text(&text)?;
                }
                Event::CData(text) => {
                    let text = text.decode().map_err(|error| self.malformed(&error))?;
                    self.text(&text)?;
                }
                Event::GeneralRef(reference) => {
                    let text = self.resolve(&reference)?;
                    self.text(&text)?;
                }
                Event::DocType(_) => {
                    return Err(self.problem(
                        "the report has a document type".to_owned(),
                        "leave `<!DOCTYPE …>` out: nothing is looked up or expanded here",
                    ));
                }
                Event::Decl(_) | Event::Comment(_) | Event::PI(_) => {}
                Event::Eof if self.open.is_empty() => return Ok(()),
                Event::Eof => return Err(self.malformed(&"an element is not closed")),
            }
        }
    }

    /// `&amp;` and `&#38;`; there are no others without a document type.
    fn resolve(&self, reference: &BytesRef<'_>) -> Result<String, Problem> {
        let character = reference.resolve_char_ref().map_err(|error| self.malformed(&error))?;
        if let Some(character) = character {
            return Ok(character.to_string());
        }
        let name = reference.decode().map_err(|error| self.malformed(&error))?;
        quick_xml::escape::resolve_predefined_entity(&name).map(str::to_owned).ok_or_else(|| {
            let name: String = name.chars().take(80).collect();
            self.problem(
                format!("the report uses the entity `{name}`, which XML does not define"),
                "write the character itself",
            )
        })
    }

    fn start(&mut self, start: &BytesStart<'_>) -> Result<(), Problem> {
        if self.open.len() >= MAX_DEPTH {
            return Err(self.problem(
                format!("the report is nested deeper than {MAX_DEPTH} elements"),
                "send what a test runner wrote",
            ));
        }
        let attributes = self.attributes(start)?;
        let name = start.local_name();
        let within_case = matches!(self.open.last(), Some(Open::Case(_)));
        let within_suite = matches!(self.open.last(), Some(Open::Suite(_) | Open::Suites(_)));
        let opened = match (name.as_ref(), NoteKind::of(name.as_ref())) {
            (b"testsuites", _) if self.open.is_empty() => Open::Suites(attributes.claims()),
            (b"testsuite", _) if self.open.is_empty() || within_suite => {
                self.note_start(&attributes);
                Open::Suite(attributes.claims())
            }
            (b"testcase", _) if within_suite => Open::Case(attributes.case(self)?),
            (_, Some(kind)) if within_case || within_suite => Open::Note(attributes.note(kind)),
            (b"system-out" | b"system-err", _) if within_case => Open::Output,
            // A report within a report, or a test within a test, would be counted wrongly.
            (b"testsuites" | b"testsuite" | b"testcase", _) => {
                return Err(self.problem(
                    "a suite or a test stands where none can".to_owned(),
                    "tests stand in `testsuite`, and suites in `testsuites` or in suites",
                ));
            }
            _ if self.open.is_empty() => {
                return Err(self.problem(
                    "the report does not begin with `testsuites` or `testsuite`".to_owned(),
                    "send the JUnit XML of a test runner",
                ));
            }
            _ => Open::Other,
        };
        if self.open.is_empty() && std::mem::replace(&mut self.has_root, true) {
            return Err(self.malformed(&"it goes on after its end"));
        }
        self.open.push(opened);
        Ok(())
    }

    /// The earliest one that says its time zone: a time without one may be off by half a day, and
    /// a run must not look younger than it is.
    fn note_start(&mut self, attributes: &Attributes) {
        let time = DateTime::parse_from_rfc3339(attributes.get("timestamp")).ok();
        if let Some(time) = time.map(|time| time.to_utc()) {
            self.started_at = Some(self.started_at.map_or(time, |known| known.min(time)));
        }
    }

    fn text(&mut self, text: &str) -> Result<(), Problem> {
        let is_blank = text.trim().is_empty();
        match self.open.last_mut() {
            Some(Open::Note(note)) => append(&mut note.text, text),
            Some(Open::Output) => {
                let place = self.open.len() - 2;
                if let Open::Case(case) = &mut self.open[place] {
                    append(&mut case.output, text);
                }
            }
            Some(_) => {}
            None if is_blank => {}
            None => return Err(self.malformed(&"there is text outside of its root")),
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Problem> {
        match self.open.pop() {
            Some(Open::Suites(claims) | Open::Suite(claims)) => self.close_suite(&claims)?,
            Some(Open::Case(case)) => self.close_case(case)?,
            Some(Open::Note(note)) => self.close_note(note)?,
            Some(Open::Output | Open::Other) => {}
            None => return Err(self.malformed(&"an element ends that did not begin")),
        }
        Ok(())
    }

    fn close_suite(&mut self, claims: &Claims) -> Result<(), Problem> {
        for (what, claimed, seen) in
            [("tests", claims.tests, claims.seen_tests), ("failures", claims.bad, claims.seen_bad)]
        {
            if claimed > seen {
                return Err(self.problem(
                    format!("`{}` claims {claimed} {what} and names {seen}", claims.name),
                    "a report that leaves some out cannot be judged; send the whole one",
                ));
            }
        }
        if let Some(Open::Suites(outer) | Open::Suite(outer)) = self.open.last_mut() {
            outer.seen_tests += claims.seen_tests;
            outer.seen_bad += claims.seen_bad;
        }
        Ok(())
    }

    fn close_case(&mut self, case: Case) -> Result<(), Problem> {
        if self.tests.len() >= MAX_TESTS {
            return Err(self.problem(
                format!("the report holds more than {MAX_TESTS} tests"),
                "divide it into several runs",
            ));
        }
        let is_extra = |note: &&Note| matches!(note.kind, NoteKind::Flaky | NoteKind::Rerun);
        let is_bad = |note: &&Note| note.kind != NoteKind::Skipped;
        let extra = case.notes.iter().filter(is_extra).count() as u64;
        let bad = case.notes.iter().filter(is_bad).count() as u64;
        if let Some(Open::Suite(claims) | Open::Suites(claims)) = self.open.last_mut() {
            // Some writers count every execution of a test.
            claims.seen_tests += 1 + extra;
            claims.seen_bad += bad;
        }
        self.tests.push(Found::new(case));
        Ok(())
    }

    /// Of a test, or of a whole suite, which then is a test of its own that went so: a suite that
    /// could not be set up has no tests to say it.
    fn close_note(&mut self, note: Note) -> Result<(), Problem> {
        match self.open.last_mut() {
            Some(Open::Case(case)) => case.notes.push(note),
            Some(Open::Suite(claims) | Open::Suites(claims)) => {
                let class = claims.name.clone();
                let name = "(the suite itself)".to_owned();
                self.close_case(Case { class, name, notes: vec![note], ..Case::default() })?;
            }
            Some(Open::Note(_) | Open::Output | Open::Other) | None => {}
        }
        Ok(())
    }

    fn attributes(&self, start: &BytesStart<'_>) -> Result<Attributes, Problem> {
        let mut found = Vec::new();
        // Looking for one that stands there twice takes time that grows with the square of their
        // number, so they are counted instead.
        for attribute in start.attributes().with_checks(false) {
            let attribute = attribute.map_err(|error| self.malformed(&error))?;
            let value = attribute
                .normalized_value(XmlVersion::Implicit1_0)
                .map_err(|error| self.malformed(&error))?;
            let key = String::from_utf8_lossy(attribute.key.as_ref()).into_owned();
            found.push((key, value.into_owned()));
            if found.len() > MAX_ATTRIBUTES {
                return Err(self.problem(
                    format!("an element has more than {MAX_ATTRIBUTES} attributes"),
                    "send what a test runner wrote",
                ));
            }
        }
        Ok(Attributes(found))
    }
}

fn append(to: &mut String, text: &str) {
    let mut end = text.len().min(MAX_TEXT_BYTES.saturating_sub(to.len()));
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    to.push_str(&text[..end]);
}
