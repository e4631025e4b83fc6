//! Model list files, as the planner needs them.

use std::path::PathBuf;

use super::hub_cache::HubCache;
use crate::Error;
use crate::model_list::{self, ModelEntry, ModelListError};
use crate::plan::{PlannedModel, Skip};

/// Reads every list; the models of all of them in order.
///
/// With `dedupe`, models that have one graph need one execution.
pub(super) fn load_models(files: &[PathBuf], dedupe: bool) -> Result<Vec<PlannedModel>, Error> {
    let entries = model_list::load_all(files).map_err(as_error)?;
    let cache = HubCache::of_environment();
    let is_known = |entry: &ModelEntry| dedupe && !cache.holds_configuration(entry);
    Ok(entries.iter().map(|entry| planned(entry, is_known(entry))).collect())
}

fn planned(entry: &ModelEntry, graph_is_known: bool) -> PlannedModel {
    let skip = entry.skip.as_ref();
    PlannedModel {
        spec: entry.spec(),
        dimensions: entry.dimensions(),
        dtypes: entry.dtypes.clone(),
        tolerance_class: entry.tolerance_class,
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
