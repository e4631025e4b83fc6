//! One query grammar for `--filter`, URLs and the API.
//!
//! A query is terms separated by spaces; a case matches when every term does. A term is
//! `field:value`, or a bare text, which is looked for in the case key. A value may be negated
//! (`outcome:!pass`), may list alternatives (`dtype:bf16,fp16`), may hold `*` and `?`, and may be
//! quoted (`message:"is not implemented"`):
//!
//! ```text
//! op:aten.add dtype:bf16 outcome:!pass mode:eager
//! ```
//!
//! This module parses; [`matching`] holds a query against whatever can answer for its fields. Before a case is
//! executed it has no outcome, so a plan's filter is read by [`Query::parse_for_plan`], which
//! refuses such fields instead of silently matching nothing.

mod matching;

pub use matching::{Manner, Queried, wildcard};

use crate::{Direction, Dtype, Mode, Outcome, Stage, Suite, Verdict};

words! {
    /// What a term can ask about.
    Field as "field" {
        /// Anywhere in the case key; what a bare text asks.
        Case = "case",
        /// Suite of the case.
        Suite = "suite",
        /// Operator: the entry of an operator case, or the overload that an attempt names.
        /// `aten.add` means `aten::add` and each of its overloads.
        Operator = "op",
        /// Model of a model case.
        Model = "model",
        /// Element type; `bf16`, `fp16`, `fp32` and `fp64` are understood.
        Dtype = "dtype",
        /// Eager, strict or compile.
        Mode = "mode",
        /// Forward or train.
        Direction = "direction",
        /// Form or memory layout; `plain` where there is none.
        Layout = "layout",
        /// What was observed.
        Outcome = "outcome",
        /// What was judged.
        Verdict = "verdict",
        /// Where it stopped.
        Stage = "stage",
        /// Class of the error.
        Error = "error",
        /// First line of what went wrong.
        Message = "message",
    }
}

impl Field {
    /// Whether a case has it before it is executed.
    #[must_use]
    pub const fn is_planned(self) -> bool {
        match self {
            Self::Case
            | Self::Suite
            | Self::Operator
            | Self::Model
            | Self::Dtype
            | Self::Mode
            | Self::Direction
            | Self::Layout => true,
            Self::Outcome | Self::Verdict | Self::Stage | Self::Error | Self::Message => false,
        }
    }

    /// Puts a value into the form that cases have it in; fails where it is none of a closed list.
    fn normalise(self, value: &str) -> Result<String, String> {
        let known = |result: Result<&'static str, crate::UnknownWord>| {
            result.map(str::to_owned).map_err(|unknown| unknown.to_string())
        };
        let suite = |value: &str| value.parse::<Suite>().map(|suite| suite.to_string());
        if value.contains(['*', '?']) && self != Self::Operator {
            return Ok(value.to_owned());
        }
        match self {
            Self::Suite => suite(value).map_err(|unknown| unknown.to_string()),
            Self::Mode => known(value.parse::<Mode>().map(Mode::as_str)),
            Self::Direction => known(value.parse::<Direction>().map(Direction::as_str)),
            Self::Outcome => known(value.parse::<Outcome>().map(Outcome::as_str)),
            Self::Verdict => known(value.replace('-', " ").parse::<Verdict>().map(Verdict::as_str)),
            Self::Stage => known(value.parse::<Stage>().map(Stage::as_str)),
            Self::Dtype => known(spelled_out(value).parse::<Dtype>().map(Dtype::as_str)),
            Self::Operator => Ok(operator_pattern(value)),
            Self::Case | Self::Model | Self::Layout | Self::Error | Self::Message => {
                Ok(value.to_owned())
            }
        }
    }
}

fn spelled_out(dtype: &str) -> &str {
    match dtype {
        "bf16" => "bfloat16",
        "fp16" | "half" => "float16",
        "fp32" | "float" => "float32",
        "fp64" | "double" => "float64",
        "i64" | "long" => "int64",
        "i32" | "int" => "int32",
        other => other,
    }
}

/// `aten.add` → `aten::add`; the rest of a name keeps its dots.
fn operator_pattern(value: &str) -> String {
    match value.split_once('.') {
        Some((namespace @ ("aten" | "prims" | "tpu"), name)) => format!("{namespace}::{name}"),
        _ => value.to_owned(),
    }
}

/// Where a query cannot be read, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}\n\n    {query}\n    {marks}", marks = self.marks())]
pub struct QueryError {
    /// What is wrong, naming the word.
    pub problem: String,
    /// The whole query.
    pub query: String,
    /// Where the wrong part begins, in characters from 0.
    pub position: usize,
    /// How many characters it has, at least 1.
    pub length: usize,
}

impl QueryError {
    fn marks(&self) -> String {
        format!("{}{}", " ".repeat(self.position), "^".repeat(self.length))
    }
}

/// One term: a field and what it may or must not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// What is asked about.
    pub field: Field,
    /// Whether the alternatives are excluded rather than wanted.
    pub negated: bool,
    /// Values in the form that cases have them in; may hold `*` and `?`.
    pub alternatives: Vec<String>,
}

/// A parsed query. The empty query matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// All of these must hold.
    pub terms: Vec<Term>,
}

impl Query {
    /// Reads a query over executed cases.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        Parser { text: text.chars().collect(), at: 0 }.query(|_| true)
    }

    /// Reads a query over planned cases, refusing what is known only after execution.
    pub fn parse_for_plan(text: &str) -> Result<Self, QueryError> {
        Parser { text: text.chars().collect(), at: 0 }.query(Field::is_planned)
    }

    /// Whether every term holds.
    pub fn matches(&self, case: &impl Queried) -> bool {
        self.terms.iter().all(|term| term.matches(case))
    }
}

struct Parser {
    text: Vec<char>,
    at: usize,
}

impl Parser {
    fn query(mut self, allowed: impl Fn(Field) -> bool) -> Result<Query, QueryError> {
        let mut terms = Vec::new();
        loop {
            while self.peek().is_some_and(char::is_whitespace) {
                self.at += 1;
            }
            if self.peek().is_none() {
                return Ok(Query { terms });
            }
            terms.push(self.term(&allowed)?);
        }
    }

    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn error(&self, from: usize, problem: impl Into<String>) -> QueryError {
        QueryError {
            problem: problem.into(),
            query: self.text.iter().collect(),
            position: from,
            length: self.at.saturating_sub(from).max(1),
        }
    }

    fn term(&mut self, allowed: &impl Fn(Field) -> bool) -> Result<Term, QueryError> {
        let start = self.at;
        let field = self.field(allowed)?.unwrap_or(Field::Case);
        let negated = self.peek() == Some('!');
        self.at += usize::from(negated);
        let mut alternatives = Vec::new();
        loop {
            let from = self.at;
            let value = self.value()?;
            if value.is_empty() {
                return Err(self.error(start, format!("`{field}:` has no value")));
            }
            let value = field.normalise(&value).map_err(|problem| self.error(from, problem))?;
            alternatives.push(value);
            if self.peek() != Some(',') {
                return Ok(Term { field, negated, alternatives });
            }
            self.at += 1;
        }
    }

    /// Reads `name:` if there is one. Case keys hold colons too (`opinfo:add`, `timm:resnet18`), so
    /// a name that is no field but a source of subjects begins a bare text.
    fn field(&mut self, allowed: &impl Fn(Field) -> bool) -> Result<Option<Field>, QueryError> {
        let start = self.at;
        let rest = &self.text[start..];
        let Some(length) = rest.iter().position(|c| !c.is_ascii_lowercase()) else {
            return Ok(None);
        };
        let name: String = rest[..length].iter().collect();
        let is_path = rest.get(length + 1) == Some(&':');
        if rest[length] != ':' || name.is_empty() || is_path || SOURCES.contains(&name.as_str()) {
            return Ok(None);
        }
        self.at += length;
        let field: Field = name
            .parse()
            .map_err(|unknown: crate::UnknownWord| self.error(start, unknown.to_string()))?;
        if !allowed(field) {
            let problem = format!("`{field}` is not known before a case is executed");
            return Err(self.error(start, problem));
        }
        self.at += 1;
        Ok(Some(field))
    }

    fn value(&mut self) -> Result<String, QueryError> {
        let start = self.at;
        if self.peek() != Some('"') {
            while self.peek().is_some_and(|c| !c.is_whitespace() && c != ',') {
                self.at += 1;
            }
            return Ok(self.text[start..self.at].iter().collect());
        }
        self.at += 1;
        while self.peek().is_some_and(|c| c != '"') {
            self.at += 1;
        }
        if self.peek().is_none() {
            return Err(self.error(start, "the quote is not closed"));
        }
        self.at += 1;
        Ok(self.text[start + 1..self.at - 1].iter().collect())
    }
}

/// What subjects begin with, before their colon.
const SOURCES: &[&str] = &[
    "opinfo",
    "module",
    "timm",
    "torchvision",
    "transformers",
    "package",
    "python",
    "hub",
    "aten",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_points_at_the_word() {
        for (query, position, length, problem) in [
            ("op:add colour:red", 7, 6, "unknown field `colour`"),
            ("op:add dtype:bf17", 13, 4, "unknown dtype `bf17`"),
            ("outcome:passed", 8, 6, "unknown outcome `passed`"),
            ("mode:", 0, 5, "`mode:` has no value"),
            ("mode:eager,", 0, 11, "`mode:` has no value"),
            ("op:add \"softmax", 7, 8, "the quote is not closed"),
        ] {
            let error = Query::parse(query).unwrap_err();
            assert_eq!((error.position, error.length), (position, length), "{query}");
            assert!(error.problem.starts_with(problem), "{query}: {}", error.problem);
        }
        let error = Query::parse_for_plan("op:add outcome:pass").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`outcome` is not known before a case is executed\n\n    op:add outcome:pass\n           \
             ^^^^^^^"
        );
    }
}
