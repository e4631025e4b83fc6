//! Model list files, as the planner needs them.

use std::path::{Path, PathBuf};

use crate::Error;
use crate::args::hub_cache;
use crate::model_list::{self, ModelEntry, ModelListError, ModelSource};
use crate::plan::{PlannedModel, Skip};

/// Reads every list; the models of all of them in order.
///
/// With `dedupe`, models that have one graph need one execution.
pub(super) fn load_models(files: &[PathBuf], dedupe: bool) -> Result<Vec<PlannedModel>, Error> {
    let entries = model_list::load_all(files).map_err(as_error)?;
    let cache = hub_cache();
    let is_known = |entry: &ModelEntry| dedupe && !has_configuration_of_its_own(entry, &cache);
    Ok(entries.iter().map(|entry| planned(entry, is_known(entry))).collect())
}

/// Whether a worker would build this model from its own configuration, out of the hub's local
/// cache, which may make another graph than the geometry that the list records.
fn has_configuration_of_its_own(entry: &ModelEntry, hub_cache: &Path) -> bool {
    let Some(revision) = &entry.revision else { return false };
    let folder = format!("models--{}", entry.name.replace('/', "--"));
    entry.source == ModelSource::Hub
        && hub_cache.join(folder).join("snapshots").join(revision).join("config.json").exists()
}

fn planned(entry: &ModelEntry, graph_is_known: bool) -> PlannedModel {
    let skip = entry.skip.as_ref();
    PlannedModel {
        spec: entry.spec(),
        dimensions: entry.dimensions(),
        dtypes: entry.dtypes.clone(),
        tolerance_class: entry.tolerance_class,
        rule: entry.rule,
        popularity: entry.popularity.as_ref().and_then(|popularity| popularity.count),
        graph: entry.signature.clone().filter(|_| graph_is_known),
        skip: skip.map(|skip| Skip { reason: skip.reason, message: skip.detail.clone() }),
    }
}

/// A list that names no model is a selection that holds no case.
fn as_error(error: ModelListError) -> Error {
    let (message, hint) = (error.to_string(), error.hint());
    match error {
        ModelListError::Empty { .. } => Error::NothingSelected { message, hint },
        ModelListError::Unreadable { .. }
        | ModelListError::UnknownFormat { .. }
        | ModelListError::Invalid { .. }
        | ModelListError::Conflict { .. } => Error::Input { message, hint },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_in_the_cache_is_found_where_the_hub_keeps_it() {
        let cache = tempfile::tempdir().unwrap();
        let revision = "c1899de289a04d12100db370d81485cdf75e47ca";
        let snapshot = cache.path().join("models--Qwen--Qwen3-0.6B/snapshots").join(revision);
        std::fs::create_dir_all(&snapshot).unwrap();
        let list =
            format!(r#"models = [{{ id = "hub:Qwen/Qwen3-0.6B", revision = "{revision}" }}]"#);
        let entry = model_list::parse("mine.toml".as_ref(), &list).unwrap().remove(0);
        assert!(!has_configuration_of_its_own(&entry, cache.path()));
        std::fs::write(snapshot.join("config.json"), "{}").unwrap();
        assert!(has_configuration_of_its_own(&entry, cache.path()));
    }
}
