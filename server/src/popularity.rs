//! How popular models are, by the model lists that stand beside the server. The runner reads the
//! same lists and checks them; here only the name of an entry and its place in a ranking matter.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::toml_files;
use crate::trouble::Trouble;

/// Places by model, `source:name` without revision and size.
#[derive(Debug, Default, Clone)]
pub struct Popularity(BTreeMap<String, Place>);

/// A place in one ranking. Those of different sources or dates make no common ranking.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Place {
    /// From 1.
    pub rank: u64,
    /// The number ranked by, where it is known.
    pub count: Option<u64>,
    /// When it was taken: `2026-10`.
    pub snapshot: String,
    /// By whom.
    pub source: String,
}

#[derive(Debug, Deserialize)]
struct List {
    #[serde(default)]
    models: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Entry {
    Described { id: String, popularity: Option<Place> },
    Named(#[expect(dead_code, reason = "a name alone says nothing of popularity")] String),
}

impl Popularity {
    /// Reads every `*.toml` of the directory; nothing without one.
    pub fn load(directory: Option<&Path>) -> anyhow::Result<Self> {
        let mut all = Self::default();
        let Some(directory) = directory else { return Ok(all) };
        let hint = "name the directory of the lists with `--model-lists`";
        for (path, text) in toml_files::read(directory, "model lists", hint)? {
            all.add(&text).map_err(|error| {
                Trouble::error(
                    format!("`{}` is no model list: {}", path.display(), error.message()),
                    "model-lists/README.md describes every field",
                )
            })?;
        }
        Ok(all)
    }

    /// Adds one list. Of two places of a model, the later snapshot stands.
    pub fn add(&mut self, text: &str) -> Result<(), toml::de::Error> {
        let list: List = toml::from_str(text)?;
        for entry in list.models {
            let Entry::Described { id, popularity: Some(place) } = entry else { continue };
            let is_newer = |known: &Place| known.snapshot < place.snapshot;
            if self.0.get(&id).is_none_or(is_newer) {
                self.0.insert(id, place);
            }
        }
        Ok(())
    }

    /// The place of a model, whatever its revision.
    #[must_use]
    pub fn of(&self, subject_base: &str) -> Option<&Place> {
        let unpinned = subject_base.rsplit_once('@').map_or(subject_base, |(model, _)| model);
        self.0.get(subject_base).or_else(|| self.0.get(unpinned))
    }

    /// Whether no list was given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_has_its_newest_place_whatever_its_revision() {
        let mut all = Popularity::default();
        for (snapshot, rank) in [("2024-05-11", 9), ("2026-10", 2), ("2022-07-02", 1)] {
            let place = format!("rank = {rank}, snapshot = \"{snapshot}\", source = \"s\"");
            let entry = format!("id = \"hub:a/b\", task = \"x\", popularity = {{ {place} }}");
            all.add(&format!("models = [\"timm:resnet18\", {{ {entry} }}]")).unwrap();
        }
        assert_eq!(all.of("hub:a/b@main").unwrap().rank, 2);
        assert_eq!(all.of("hub:a/b").unwrap().snapshot, "2026-10");
        assert_eq!(all.of("timm:resnet18"), None);
        assert!(all.add("models = 3").is_err());
    }
}
