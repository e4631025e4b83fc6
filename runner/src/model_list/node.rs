//! A list file as a tree of values that know their line and column, from TOML or from JSONL.

use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::Problem;

/// A place in the file, from 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl Place {
    pub(crate) fn problem(self, message: impl Into<String>, hint: impl Into<String>) -> Problem {
        Problem { line: self.line, column: self.column, message: message.into(), hint: hint.into() }
    }
}

/// A value and where it is.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) value: Value,
}

/// A value of either format.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
    Bool(bool),
    List(Vec<Node>),
    Table(Table),
    /// A TOML date or time, as it is written.
    Date(String),
    /// A JSON null, or what is beyond range: no field takes it.
    Other(&'static str),
}

/// Keys with their places, and values.
pub(crate) type Table = Vec<(String, Place, Node)>;

impl Value {
    /// What it is, with its article, for messages.
    pub(crate) fn noun(&self) -> &'static str {
        match self {
            Self::Text(_) => "a text",
            Self::Integer(_) => "a whole number",
            Self::Float(_) => "a fraction",
            Self::Bool(_) => "true or false",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
            Self::Date(_) => "a date",
            Self::Other(noun) => noun,
        }
    }

    /// The same value for JSON, if it has one.
    pub(crate) fn to_json(&self) -> Option<serde_json::Value> {
        Some(match self {
            Self::Text(text) => text.clone().into(),
            Self::Integer(number) => (*number).into(),
            Self::Float(number) => serde_json::Number::from_f64(*number)?.into(),
            Self::Bool(value) => (*value).into(),
            Self::List(items) => {
                items.iter().map(|item| item.value.to_json()).collect::<Option<Vec<_>>>()?.into()
            }
            Self::Table(table) => table
                .iter()
                .map(|(key, _, node)| Some((key.clone(), node.value.to_json()?)))
                .collect::<Option<serde_json::Map<_, _>>>()?
                .into(),
            Self::Date(_) | Self::Other(_) => return None,
        })
    }
}

/// Turns byte offsets into lines and columns.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Self {
        let after = text.match_indices('\n').map(|(at, _)| at + 1);
        Self { text, starts: std::iter::once(0).chain(after).collect() }
    }

    fn place(&self, offset: usize) -> Place {
        let line = self.starts.partition_point(|start| *start <= offset);
        let before = self.text.get(self.starts[line - 1]..offset).unwrap_or_default();
        Place { line, column: before.chars().count() + 1 }
    }
}

/// Reads TOML: the top-level table, or every mistake of syntax.
pub(crate) fn from_toml(text: &str) -> Result<Table, Vec<Problem>> {
    let lines = Lines::of(text);
    let (table, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return Ok(toml_table(table.get_ref(), &lines));
    }
    let problem = |error: &toml::de::Error| {
        let place = lines.place(error.span().map_or(0, |span| span.start));
        place.problem(format!("not valid TOML: {}", error.message().replace('\n', ", ")), "")
    };
    Err(errors.iter().map(problem).collect())
}

fn toml_table(table: &DeTable<'_>, lines: &Lines<'_>) -> Table {
    let mut entries: Vec<(Range<usize>, _)> =
        table.iter().map(|(key, value)| (key.span(), (key, value))).collect();
    entries.sort_by_key(|(span, _)| span.start);
    entries
        .into_iter()
        .map(|(span, (key, value))| {
            (key.get_ref().to_string(), lines.place(span.start), toml_node(value, lines))
        })
        .collect()
}

fn toml_node(node: &Spanned<DeValue<'_>>, lines: &Lines<'_>) -> Node {
    let value = match node.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or(Value::Other("a number beyond 64 bits"), Value::Integer),
        DeValue::Float(number) => {
            number.as_str().parse().map_or(Value::Other("a fraction beyond range"), Value::Float)
        }
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Datetime(date) => Value::Date(date.to_string()),
        DeValue::Array(items) => {
            Value::List(items.iter().map(|item| toml_node(item, lines)).collect())
        }
        DeValue::Table(table) => Value::Table(toml_table(table, lines)),
    };
    Node { place: lines.place(node.span().start), value }
}

/// Reads JSONL: one object per line that is not blank.
pub(crate) fn from_jsonl(text: &str) -> (Vec<Node>, Vec<Problem>) {
    let (mut nodes, mut problems) = (Vec::new(), Vec::new());
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        match serde_json::from_str::<Json>(line) {
            Ok(json) => nodes.push(json_node(json, line, Place { line: number + 1, column: 1 })),
            Err(error) => {
                let place = Place { line: number + 1, column: error.column().max(1) };
                let text = error.to_string();
                // serde_json counts lines within this one.
                let message = text.split(" at line ").next().unwrap_or(&text);
                problems.push(place.problem(format!("not valid JSON: {message}"), ""));
            }
        }
    }
    (nodes, problems)
}

/// JSON that keeps the order of its keys and refuses the same key twice.
enum Json {
    Text(String),
    Integer(i64),
    Float(f64),
    Bool(bool),
    List(Vec<Json>),
    Table(Vec<(String, Json)>),
    Null,
}

/// Gives places to values. JSON values carry none, so a key is looked up in its line: the first
/// place where it is written as a key.
fn json_node(json: Json, line: &str, place: Place) -> Node {
    let value = match json {
        Json::Text(text) => Value::Text(text),
        Json::Integer(number) => Value::Integer(number),
        Json::Float(number) => Value::Float(number),
        Json::Bool(value) => Value::Bool(value),
        Json::Null => Value::Other("null"),
        Json::List(items) => {
            Value::List(items.into_iter().map(|item| json_node(item, line, place)).collect())
        }
        Json::Table(entries) => Value::Table(
            entries
                .into_iter()
                .map(|(key, json)| {
                    let at = key_place(&key, line, place);
                    let node = json_node(json, line, at);
                    (key, at, node)
                })
                .collect(),
        ),
    };
    Node { place, value }
}

fn key_place(key: &str, line: &str, place: Place) -> Place {
    let quoted = format!("\"{key}\"");
    let is_key = |at: &usize| line[at + quoted.len()..].trim_start().starts_with(':');
    line.match_indices(&quoted)
        .map(|(at, _)| at)
        .find(is_key)
        .map_or(place, |at| Place { column: line[..at].chars().count() + 1, ..place })
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct JsonVisitor;
        impl<'de> Visitor<'de> for JsonVisitor {
            type Value = Json;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON value")
            }
            fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
                Ok(Json::Bool(value))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
                Ok(Json::Integer(value))
            }
            #[expect(clippy::cast_precision_loss, reason = "beyond the range of any field")]
            fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
                Ok(i64::try_from(value).map_or(Json::Float(value as f64), Json::Integer))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
                Ok(Json::Float(value))
            }
            fn visit_str<E>(self, value: &str) -> Result<Json, E> {
                Ok(Json::Text(value.to_owned()))
            }
            fn visit_unit<E>(self) -> Result<Json, E> {
                Ok(Json::Null)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element()? {
                    list.push(item);
                }
                Ok(Json::List(list))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
                let mut entries: Vec<(String, Json)> = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, Json>()? {
                    if entries.iter().any(|(other, _)| *other == key) {
                        return Err(serde::de::Error::custom(format!("duplicate key `{key}`")));
                    }
                    entries.push((key, value));
                }
                Ok(Json::Table(entries))
            }
        }
        deserializer.deserialize_any(JsonVisitor)
    }
}
