//! From a file to waivers: every mistake at once, each with its line.

use std::collections::BTreeMap;
use std::path::Path;

use chrono::NaiveDate;
use protocol::waiver::{Conditions, Statement, Terms, VersionRange, find_problems};
use sha2::{Digest as _, Sha256};

use super::{Waiver, Waivers};
use crate::Error;
use crate::model_list::Problem;
use crate::model_list::error::problems_text;
use crate::model_list::fields::{Fields, Reader};
use crate::model_list::node::{Node, Place, Value, from_toml};
use crate::model_list::suggest::nearest;

/// Fields of a waiver.
const WAIVER: &[&str] = &[
    "case_pattern",
    "suite",
    "model",
    "operator",
    "outcomes",
    "when",
    "reason",
    "owner",
    "issue",
    "author",
    "expires_on",
];
/// Fields of `when`.
const WHEN: &[&str] = &["device", "device_kind", "dtype", "mode", "versions"];

/// Reads a file of waivers. One without any waiver is as good as none, and fine.
///
/// # Errors
///
/// Everything that is wrong with it at once.
pub fn load(path: &Path, today: NaiveDate) -> Result<Waivers, Error> {
    let text = std::fs::read_to_string(path).map_err(|error| Error::Input {
        message: format!("cannot read the waivers `{}`: {error}", path.display()),
        hint: "check the path given with `--waivers`".to_owned(),
    })?;
    parse(path, &text, today)
}

/// Reads the text of a file; messages name the path.
pub(super) fn parse(path: &Path, text: &str, today: NaiveDate) -> Result<Waivers, Error> {
    let mut reader = Reader::default();
    let nodes = match from_toml(text) {
        Ok(table) => waiver_nodes(table, &mut reader),
        Err(problems) => {
            reader.problems = problems;
            Vec::new()
        }
    };
    let read = |node: &Node| read_waiver(&mut reader, node, today);
    let waivers: Vec<Waiver> = nodes.iter().filter_map(read).collect();
    if !reader.problems.is_empty() {
        reader.problems.sort();
        return Err(invalid(path, &reader.problems));
    }
    let sha256 = hex::encode(Sha256::digest(text));
    Ok(Waivers { file: path.display().to_string(), sha256, waivers })
}

fn invalid(path: &Path, problems: &[Problem]) -> Error {
    Error::Input {
        message: problems_text("waiver file", path, problems),
        hint: "`docs/waivers.md` describes every field".to_owned(),
    }
}

/// The tables `[[waiver]]`, and what is wrong beside them.
fn waiver_nodes(table: Vec<(String, Place, Node)>, reader: &mut Reader) -> Vec<Node> {
    let mut nodes = Vec::new();
    for (key, place, node) in table {
        match (key.as_str(), node.value) {
            ("waiver", Value::List(items)) => nodes = items,
            ("waiver", other) => {
                let message = format!("`waiver` must be a list and is {}", other.noun());
                reader.note(place, message, "begin each waiver with a line `[[waiver]]`");
            }
            (other, _) => {
                let hint = nearest(other, ["waiver"])
                    .map_or("the only one is `waiver`".to_owned(), |word| {
                        format!("did you mean `{word}`?")
                    });
                reader.note(place, format!("unknown field `{other}`"), hint);
            }
        }
    }
    nodes
}

fn read_waiver(reader: &mut Reader, node: &Node, today: NaiveDate) -> Option<Waiver> {
    let before = reader.problems.len();
    let Value::Table(table) = &node.value else {
        let message = format!("a waiver must be a table and is {}", node.value.noun());
        reader.note(node.place, message, "begin each waiver with a line `[[waiver]]`");
        return None;
    };
    let mut fields = Fields { table, prefix: "", reader };
    fields.refuse_others(WAIVER);
    let case_pattern = fields.optional("case_pattern", Reader::text);
    let suite = fields.optional("suite", Reader::word);
    let model = fields.optional("model", Reader::text);
    let operator = fields.optional("operator", Reader::text);
    let outcomes = fields.required("outcomes", node.place, Reader::words);
    let conditions = fields.optional("when", conditions).unwrap_or_default();
    let reason = fields.required("reason", node.place, long_text);
    let owner = fields.required("owner", node.place, Reader::text);
    let issue = fields.required("issue", node.place, Reader::text);
    let author = fields.optional("author", Reader::text);
    let expires_on = fields.required("expires_on", node.place, date);
    if reader.problems.len() > before {
        return None;
    }
    let terms = Terms {
        case_pattern: case_pattern.unwrap_or_else(|| "*".to_owned()),
        suite,
        model,
        operator,
        outcomes: outcomes?,
        conditions,
        expires_on: expires_on?,
    };
    let line = node.place.line;
    let waiver = Waiver { line, terms, reason: reason?, owner: owner?, issue: issue?, author };
    check(reader, node.place, table, &waiver, today);
    (reader.problems.len() == before).then_some(waiver)
}

/// What server and runner refuse alike, at the field that says it.
fn check(
    reader: &mut Reader,
    place: Place,
    table: &[(String, Place, Node)],
    waiver: &Waiver,
    today: NaiveDate,
) {
    let Waiver { reason, owner, issue, .. } = waiver;
    let statement = Statement { reason, owner, issue };
    for problem in find_problems(&waiver.terms, &statement, today) {
        let field = table.iter().find(|(name, ..)| name == problem.field);
        let place = field.map_or(place, |(_, place, _)| *place);
        reader.note(place, format!("`{}` {}", problem.field, problem.problem), problem.hint);
    }
}

/// A text that may have several lines.
fn long_text(reader: &mut Reader, field: &str, node: &Node) -> Option<String> {
    let Value::Text(text) = &node.value else {
        reader.wrong_type(field, node, "a text");
        return None;
    };
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn date(reader: &mut Reader, field: &str, node: &Node) -> Option<NaiveDate> {
    let (Value::Date(text) | Value::Text(text)) = &node.value else {
        reader.wrong_type(field, node, "a date");
        return None;
    };
    let read = text.parse();
    if read.is_err() {
        let message = format!("`{field}` must be a day and is `{text}`");
        reader.note(node.place, message, "write it as 2027-01-31");
    }
    read.ok()
}

fn conditions(reader: &mut Reader, field: &str, node: &Node) -> Option<Conditions> {
    let table = reader.table(field, node)?;
    let mut fields = Fields { table, prefix: field, reader };
    fields.refuse_others(WHEN);
    Some(Conditions {
        device_profiles: fields.optional("device", one_or_more).unwrap_or_default(),
        device_kinds: fields.optional("device_kind", one_or_more).unwrap_or_default(),
        dtypes: fields.optional("dtype", one_or_more_words).unwrap_or_default(),
        modes: fields.optional("mode", one_or_more_words).unwrap_or_default(),
        versions: fields.optional("versions", versions).unwrap_or_default(),
    })
}

fn one_or_more(reader: &mut Reader, field: &str, node: &Node) -> Option<Vec<String>> {
    if matches!(node.value, Value::Text(_)) {
        return Some(vec![reader.text(field, node)?]);
    }
    not_empty(reader, field, node)?;
    reader.tags(field, node)
}

fn one_or_more_words<W: std::str::FromStr<Err = protocol::UnknownWord>>(
    reader: &mut Reader,
    field: &str,
    node: &Node,
) -> Option<Vec<W>> {
    if matches!(node.value, Value::Text(_)) {
        return Some(vec![reader.word(field, node)?]);
    }
    not_empty(reader, field, node)?;
    reader.words(field, node)
}

/// An empty list would read as "nowhere" and mean "everywhere".
fn not_empty(reader: &mut Reader, field: &str, node: &Node) -> Option<()> {
    if reader.list(field, node)?.is_empty() {
        reader.note(node.place, format!("`{field}` is empty"), "leave it out, or name one");
        return None;
    }
    Some(())
}

fn versions(
    reader: &mut Reader,
    field: &str,
    node: &Node,
) -> Option<BTreeMap<String, VersionRange>> {
    let mut ranges = BTreeMap::new();
    for (name, _, node) in reader.table(field, node)? {
        let Some(text) = reader.text(&format!("{field}.{name}"), node) else { continue };
        match text.parse() {
            Ok(range) => {
                ranges.insert(name.clone(), range);
            }
            Err(error) => {
                let hint = "write it as \">=2.14, <2.16\"";
                reader.note(node.place, format!("`{field}.{name}`: {error}"), hint);
            }
        }
    }
    Some(ranges)
}
