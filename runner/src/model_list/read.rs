//! From a file to entries: format, top level, duplicates.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::entry::ModelEntry;
use super::error::{ModelListError, Problem};
use super::fields::Reader;
use super::node::{Node, Place, Value, from_jsonl, from_toml};
use super::suggest::nearest;

/// Reads one list.
///
/// # Errors
///
/// Everything that is wrong with it at once; a list without entries is an error of its own.
pub fn load(path: &Path) -> Result<Vec<ModelEntry>, ModelListError> {
    let unreadable = |source| ModelListError::Unreadable { path: path.to_owned(), source };
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let folder = std::path::absolute(path).map_err(unreadable)?;
    let folder = folder.parent().unwrap_or(Path::new("/"));
    let mut entries = parse(path, &text)?;
    for checkpoint in entries.iter_mut().filter_map(|entry| entry.checkpoint.as_mut()) {
        *checkpoint = folder.join(&checkpoint);
    }
    Ok(entries)
}

/// Reads several lists into one. A model that is in more than one of them with the same content
/// counts once.
///
/// # Errors
///
/// Those of [`load`], and two entries of one model that differ.
pub fn load_all(paths: &[PathBuf]) -> Result<Vec<ModelEntry>, ModelListError> {
    let mut models: Vec<ModelEntry> = Vec::new();
    let mut seen: BTreeMap<String, (usize, &Path)> = BTreeMap::new();
    for path in paths {
        for entry in load(path)? {
            let Some((at, first)) = seen.get(&entry.subject()) else {
                seen.insert(entry.subject(), (models.len(), path));
                models.push(entry);
                continue;
            };
            let same = ModelEntry { line: models[*at].line, ..entry.clone() } == models[*at];
            if !same {
                let places = [
                    format!("{}:{}", first.display(), models[*at].line),
                    format!("{}:{}", path.display(), entry.line),
                ];
                return Err(ModelListError::Conflict { subject: entry.subject(), places });
            }
        }
    }
    Ok(models)
}

/// Reads the text of a list; the path's ending says the format, and messages name it.
///
/// # Errors
///
/// Those of [`load`].
pub fn parse(path: &Path, text: &str) -> Result<Vec<ModelEntry>, ModelListError> {
    let invalid = |mut problems: Vec<Problem>| {
        problems.sort();
        ModelListError::Invalid { path: path.to_owned(), problems }
    };
    let (nodes, mut problems) = match path.extension().and_then(|ending| ending.to_str()) {
        Some("toml") => toml_entries(text).map_err(invalid)?,
        Some("jsonl") => from_jsonl(text),
        _ => return Err(ModelListError::UnknownFormat { path: path.to_owned() }),
    };
    let mut reader = Reader::default();
    let entries: Vec<ModelEntry> = nodes.iter().filter_map(|node| reader.entry(node)).collect();
    problems.append(&mut reader.problems);
    problems.extend(duplicates(&entries));
    if !problems.is_empty() {
        return Err(invalid(problems));
    }
    if entries.is_empty() {
        return Err(ModelListError::Empty { path: path.to_owned() });
    }
    Ok(entries)
}

/// The items of `models`, and what is wrong beside them. A text without any key is an empty list.
fn toml_entries(text: &str) -> Result<(Vec<Node>, Vec<Problem>), Vec<Problem>> {
    let (mut nodes, mut problems) = (Vec::new(), Vec::new());
    for (key, place, node) in from_toml(text)? {
        match (key.as_str(), node.value) {
            ("models", Value::List(items)) => nodes = items,
            ("models", other) => {
                let message = format!("`models` must be a list and is {}", other.noun());
                problems
                    .push(place.problem(message, "write `models = [`, one entry per line, `]`"));
            }
            (other, _) => {
                let hint = nearest(other, ["models"])
                    .map_or("the only one is `models`".to_owned(), |word| {
                        format!("did you mean `{word}`?")
                    });
                problems.push(place.problem(format!("unknown field `{other}`"), hint));
            }
        }
    }
    Ok((nodes, problems))
}

fn duplicates(entries: &[ModelEntry]) -> Vec<Problem> {
    let mut first: BTreeMap<String, usize> = BTreeMap::new();
    let mut problems = Vec::new();
    for entry in entries {
        let subject = entry.subject();
        if let Some(line) = first.get(&subject) {
            let place = Place { line: entry.line, column: 1 };
            let message =
                format!("`{subject}` is listed twice: on lines {line} and {}", entry.line);
            problems.push(place.problem(message, "remove one of the two"));
        } else {
            first.insert(subject, entry.line);
        }
    }
    problems
}
