//! How each field of an entry is read: its type, its limits, and what to say when it is wrong.

mod dynamic;

use std::path::PathBuf;
use std::str::FromStr;

use protocol::{SkipReason, UnknownWord};

use super::entry::{ModelEntry, ModelSource, Popularity, Size, Skip};
use super::error::Problem;
use super::node::{Node, Place, Table, Value};
use super::suggest::nearest;
use crate::compare::{Rule, ToleranceClass};

/// Fields of an entry; the schema has the same.
pub(crate) const ENTRY: &[&str] = &[
    "id",
    "class",
    "task",
    "revision",
    "checkpoint",
    "size",
    "overrides",
    "dtypes",
    "batch",
    "sequence",
    "dynamic",
    "tolerance_class",
    "rule",
    "signature",
    "tags",
    "popularity",
    "skip",
];
/// Fields of one dimension under `dynamic`.
pub(crate) const DYNAMIC: &[&str] = &["min", "max", "inputs"];
/// Fields of `popularity`.
pub(crate) const POPULARITY: &[&str] = &["rank", "count", "snapshot", "source"];
/// Fields of `skip`.
pub(crate) const SKIP: &[&str] = &["reason", "detail"];

/// Batch size when the entry has none.
pub(crate) const DEFAULT_BATCH: u64 = 2;
/// Sequence length when the entry has none.
pub(crate) const DEFAULT_SEQUENCE: u64 = 16;
/// Largest size of a dimension; beyond it is surely a slip.
const MAX_SIZE: u64 = 1 << 24;
/// Length of a graph's signature.
const SIGNATURE_CHARS: usize = 16;
/// Longest name of a model, so that its case keys stay within their limit.
const MAX_NAME_CHARS: usize = 200;

/// Reads entries and keeps what is wrong with them.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    pub(crate) problems: Vec<Problem>,
}

impl Reader {
    /// Reads one entry; `None` when something in it is wrong, which has then been noted.
    pub(crate) fn entry(&mut self, node: &Node) -> Option<ModelEntry> {
        let before = self.problems.len();
        let Value::Table(table) = &node.value else {
            let message = format!("an entry must be a table and is {}", node.value.noun());
            self.note(node.place, message, "write { id = \"source:name\" }");
            return None;
        };
        let mut fields = Fields { table, prefix: "", reader: self };
        fields.refuse_others(ENTRY);
        let id = fields.required("id", node.place, Self::id);
        let mut entry = ModelEntry {
            source: ModelSource::Transformers,
            name: String::new(),
            class: fields.optional("class", Self::text),
            task: fields.optional("task", Self::text),
            revision: fields.optional("revision", Self::revision),
            checkpoint: fields.optional("checkpoint", Self::text).map(PathBuf::from),
            size: fields.optional("size", Self::word).unwrap_or(Size::Tiny),
            overrides: fields.optional("overrides", Self::overrides).unwrap_or_default(),
            dtypes: fields.optional("dtypes", Self::words).unwrap_or_default(),
            batch: fields.optional("batch", Self::size).unwrap_or(DEFAULT_BATCH),
            sequence: fields.optional("sequence", Self::size).unwrap_or(DEFAULT_SEQUENCE),
            dynamic: fields.optional("dynamic", Self::dynamic).unwrap_or_default(),
            tolerance_class: fields.optional("tolerance_class", Self::word::<ToleranceClass>),
            rule: fields.optional("rule", Self::rule),
            signature: fields.optional("signature", Self::signature),
            tags: fields.optional("tags", Self::tags).unwrap_or_default(),
            popularity: fields.optional("popularity", Self::popularity),
            skip: fields.optional("skip", Self::skip),
            line: node.place.line,
        };
        let (source, name) = id?;
        (entry.source, entry.name) = (source, name);
        self.check_revision(&entry, node.place);
        (self.problems.len() == before).then_some(entry)
    }

    pub(crate) fn note(
        &mut self,
        place: Place,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.problems.push(place.problem(message, hint));
    }

    pub(crate) fn wrong_type(&mut self, field: &str, node: &Node, wanted: &str) {
        let message = format!("`{field}` must be {wanted} and is {}", node.value.noun());
        self.note(node.place, message, "");
    }

    fn check_revision(&mut self, entry: &ModelEntry, place: Place) {
        match (entry.source, &entry.revision) {
            (ModelSource::Hub, None) => self.note(
                place,
                "`revision` is missing: a hub model is pinned",
                "give the commit hash, not a branch",
            ),
            (ModelSource::Hub, Some(_)) | (_, None) => {}
            (source, Some(_)) => self.note(
                place,
                format!("`revision` is only for models of source `hub`, not `{source}`"),
                "",
            ),
        }
    }

    pub(crate) fn text(&mut self, field: &str, node: &Node) -> Option<String> {
        let Value::Text(text) = &node.value else {
            self.wrong_type(field, node, "a text");
            return None;
        };
        if text.trim().is_empty() || text.chars().any(char::is_control) {
            self.note(
                node.place,
                format!("`{field}` must not be empty or hold control characters"),
                "",
            );
            return None;
        }
        Some(text.clone())
    }

    fn id(&mut self, field: &str, node: &Node) -> Option<(ModelSource, String)> {
        let text = self.text(field, node)?;
        let Some((source, name)) = text.split_once(':') else {
            let hint = format!("write `timm:{text}` or another source before the colon");
            self.note(
                node.place,
                format!("`{field}` must read `source:name` and is `{text}`"),
                hint,
            );
            return None;
        };
        let source = self.parse_word(node.place, source);
        let bad = |c: char| c.is_whitespace() || matches!(c, '#' | '@' | '%' | '?');
        if name.is_empty() || name.chars().count() > MAX_NAME_CHARS || name.contains(bad) {
            let message = format!(
                "the name in `{field}` must have 1 to {MAX_NAME_CHARS} characters without spaces, \
                 `#`, `@`, `%` and `?`"
            );
            self.note(node.place, message, "a revision has a field of its own, `revision`");
            return None;
        }
        Some((source?, name.to_owned()))
    }

    fn revision(&mut self, field: &str, node: &Node) -> Option<String> {
        let text = self.text(field, node)?;
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if text.len() > 64 || !text.chars().all(good) {
            let message = format!("`{field}` must be a commit hash or a tag and is `{text}`");
            self.note(node.place, message, "");
            return None;
        }
        Some(text)
    }

    fn signature(&mut self, field: &str, node: &Node) -> Option<String> {
        let text = self.text(field, node)?;
        let good = |c: char| c.is_ascii_digit() || matches!(c, 'a'..='f');
        if text.len() != SIGNATURE_CHARS || !text.chars().all(good) {
            let message = format!(
                "`{field}` must be {SIGNATURE_CHARS} hexadecimal digits in small letters and is \
                 `{text}`"
            );
            self.note(node.place, message, "leave it out where it was not measured");
            return None;
        }
        Some(text)
    }

    fn parse_word<W: FromStr<Err = UnknownWord>>(&mut self, place: Place, text: &str) -> Option<W> {
        text.parse()
            .map_err(|error: UnknownWord| {
                let hint = nearest(text, error.allowed.split(", "))
                    .map_or(String::new(), |word| format!("did you mean `{word}`?"));
                self.note(place, error.to_string(), hint);
            })
            .ok()
    }

    pub(crate) fn word<W: FromStr<Err = UnknownWord>>(
        &mut self,
        field: &str,
        node: &Node,
    ) -> Option<W> {
        let text = self.text(field, node)?;
        self.parse_word(node.place, &text)
    }

    /// A rule that looks at values: an entry that compares none would be one that cannot fail.
    fn rule(&mut self, field: &str, node: &Node) -> Option<Rule> {
        let text = self.text(field, node)?;
        let comparing = || Rule::ALL.iter().copied().filter(|rule| *rule != Rule::Metadata);
        let found = comparing().find(|rule| rule.as_str() == text);
        if found.is_none() {
            let all: Vec<&str> = comparing().map(Rule::as_str).collect();
            let message = format!("`{field}` must be one of {} and is `{text}`", all.join(", "));
            self.note(node.place, message, "");
        }
        found
    }

    pub(crate) fn list(&mut self, field: &str, node: &Node) -> Option<Vec<Node>> {
        if let Value::List(items) = &node.value {
            return Some(items.clone());
        }
        self.wrong_type(field, node, "a list");
        None
    }

    pub(crate) fn words<W: FromStr<Err = UnknownWord>>(
        &mut self,
        field: &str,
        node: &Node,
    ) -> Option<Vec<W>> {
        let items = self.list(field, node)?;
        let mut words = Vec::with_capacity(items.len());
        for (position, item) in items.iter().enumerate() {
            words.extend(self.word(&format!("{field}[{position}]"), item));
        }
        Some(words)
    }

    pub(crate) fn tags(&mut self, field: &str, node: &Node) -> Option<Vec<String>> {
        let items = self.list(field, node)?;
        let mut tags = Vec::with_capacity(items.len());
        for (position, item) in items.iter().enumerate() {
            tags.extend(self.text(&format!("{field}[{position}]"), item));
        }
        Some(tags)
    }

    fn whole(&mut self, field: &str, node: &Node, from: u64, to: u64) -> Option<u64> {
        let Value::Integer(number) = node.value else {
            self.wrong_type(field, node, "a whole number");
            return None;
        };
        let inside = u64::try_from(number).ok().filter(|number| (from..=to).contains(number));
        if inside.is_none() {
            let message = format!("`{field}` must be {from} to {to} and is {number}");
            self.note(node.place, message, "");
        }
        inside
    }

    fn size(&mut self, field: &str, node: &Node) -> Option<u64> {
        self.whole(field, node, 1, MAX_SIZE)
    }

    pub(crate) fn table<'a>(&mut self, field: &str, node: &'a Node) -> Option<&'a Table> {
        if let Value::Table(table) = &node.value {
            return Some(table);
        }
        self.wrong_type(field, node, "a table");
        None
    }

    fn overrides(
        &mut self,
        field: &str,
        node: &Node,
    ) -> Option<serde_json::Map<String, serde_json::Value>> {
        let table = self.table(field, node)?;
        let mut map = serde_json::Map::new();
        for (key, place, node) in table {
            let Some(value) = node.value.to_json() else {
                let message = format!("`{field}.{key}` has no value in JSON");
                self.note(
                    *place,
                    message,
                    "use a text, a finite number, true, false, a list or a table",
                );
                continue;
            };
            map.insert(key.clone(), value);
        }
        Some(map)
    }

    fn popularity(&mut self, field: &str, node: &Node) -> Option<Popularity> {
        let table = self.table(field, node)?;
        let mut fields = Fields { table, prefix: field, reader: self };
        fields.refuse_others(POPULARITY);
        let rank = fields.required("rank", node.place, |reader, field, node| {
            reader.whole(field, node, 1, u64::MAX >> 1)
        });
        let count = fields
            .optional("count", |reader, field, node| reader.whole(field, node, 0, u64::MAX >> 1));
        let snapshot = fields.required("snapshot", node.place, Self::text);
        let source = fields.required("source", node.place, Self::text);
        Some(Popularity { rank: rank?, count, snapshot: snapshot?, source: source? })
    }

    fn skip(&mut self, field: &str, node: &Node) -> Option<Skip> {
        let table = self.table(field, node)?;
        let mut fields = Fields { table, prefix: field, reader: self };
        fields.refuse_others(SKIP);
        let reason = fields.required("reason", node.place, |reader, field, node| {
            let reason = reader.word(field, node)?;
            if reason == SkipReason::Reported {
                let message = "`reported` is what imported reports say".to_owned();
                reader.note(node.place, message, "say why this list skips it");
                return None;
            }
            Some(reason)
        });
        let detail = fields.required("detail", node.place, Self::text);
        Some(Skip { reason: reason?, detail: detail? })
    }
}

/// The fields of one table while they are read.
pub(crate) struct Fields<'a> {
    pub(crate) table: &'a Table,
    /// Path of the table within the entry, empty for the entry itself.
    pub(crate) prefix: &'a str,
    /// Keeps what is wrong.
    pub(crate) reader: &'a mut Reader,
}

impl Fields<'_> {
    fn path(&self, name: &str) -> String {
        if self.prefix.is_empty() { name.to_owned() } else { format!("{}.{name}", self.prefix) }
    }

    pub(crate) fn refuse_others(&mut self, known: &[&str]) {
        for (name, place, _) in self.table {
            if known.contains(&name.as_str()) {
                continue;
            }
            let hint = nearest(name, known.iter().copied()).map_or_else(
                || format!("the fields are {}", known.join(", ")),
                |word| format!("did you mean `{word}`?"),
            );
            self.reader.note(*place, format!("unknown field `{}`", self.path(name)), hint);
        }
    }

    pub(crate) fn optional<T>(
        &mut self,
        name: &str,
        read: impl Fn(&mut Reader, &str, &Node) -> Option<T>,
    ) -> Option<T> {
        let (_, _, node) = self.table.iter().find(|(key, ..)| key == name)?;
        let path = self.path(name);
        read(self.reader, &path, node)
    }

    pub(crate) fn required<T>(
        &mut self,
        name: &str,
        place: Place,
        read: impl Fn(&mut Reader, &str, &Node) -> Option<T>,
    ) -> Option<T> {
        if self.table.iter().all(|(key, ..)| key != name) {
            self.reader.note(place, format!("`{}` is missing", self.path(name)), "");
            return None;
        }
        self.optional(name, read)
    }
}
