//! What the attributes of an element say.

use super::{Case, Note, NoteKind, Parser, Problem};

/// What a suite claims to hold, against what it was seen to hold: one that was written half, or
/// that counts what it does not name, must not pass for whole.
#[derive(Debug, Default)]
pub(super) struct Claims {
    pub(super) name: String,
    pub(super) tests: u64,
    pub(super) bad: u64,
    pub(super) seen_tests: u64,
    pub(super) seen_bad: u64,
}

pub(super) struct Attributes(pub(super) Vec<(String, String)>);

impl Attributes {
    /// Empty where there is none.
    pub(super) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    pub(super) fn claims(&self) -> Claims {
        let count = |name: &str| self.get(name).trim().parse::<u64>().unwrap_or(0);
        Claims {
            name: self.get("name").to_owned(),
            tests: count("tests"),
            bad: count("failures").saturating_add(count("errors")),
            ..Claims::default()
        }
    }

    pub(super) fn case(&self, parser: &Parser<'_>) -> Result<Case, Problem> {
        let class = match self.get("classname") {
            "" => self.get("file"),
            class => class,
        };
        let words = [self.get("status"), self.get("result")];
        Ok(Case {
            class: class.to_owned(),
            name: self.get("name").to_owned(),
            words: words.into_iter().filter(|w| !w.is_empty()).map(str::to_owned).collect(),
            seconds: self.seconds(parser)?,
            ..Case::default()
        })
    }

    fn seconds(&self, parser: &Parser<'_>) -> Result<f64, Problem> {
        // Some writers group the digits of thousands.
        let text = self.get("time").trim().replace(',', "");
        if text.is_empty() {
            return Ok(0.0);
        }
        match text.parse::<f64>() {
            Ok(seconds) if (0.0..=1e7).contains(&seconds) => Ok(seconds),
            Ok(_) | Err(_) => {
                let text: String = text.chars().take(80).collect();
                Err(parser.problem(
                    format!("`time` is `{text}`, which is no length of time"),
                    "write seconds from 0 to 10 million, or leave it out",
                ))
            }
        }
    }

    pub(super) fn note(&self, kind: NoteKind) -> Note {
        Note {
            kind,
            class: self.get("type").to_owned(),
            message: self.get("message").to_owned(),
            text: String::new(),
        }
    }
}
