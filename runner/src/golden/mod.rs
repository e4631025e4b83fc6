//! Goldens: outputs that a device gave once, kept to compare others with.
//!
//! ```text
//! cases/<hash of the case key>.json    what was recorded, on what, from which weights and inputs
//! objects/<ab>/<sha256>.safetensors    the outputs of the device, and the same in float64
//! ```
//!
//! A golden is used only where it is proved to be the right one: its entry names the same model of
//! the list, dtype, seed and library versions, its files have the bytes that they were recorded
//! with, and the worker makes the same weights and inputs (their fingerprint). Anything else is
//! `infra` with the reason, never a pass.
//!
//! Read [`entry`] for what must be the same, [`store`] for the folder, `remote` for object stores. Executing is
//! [`crate::slot`]'s, comparing [`crate::compare`]'s.

pub mod entry;
mod remote;
pub mod store;

use std::collections::BTreeMap;
use std::path::PathBuf;

use protocol::ingest_api::create_run;
use protocol::worker_link::Golden;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::plan::PlannedCase;
use entry::{Made, Origin};
pub use remote::Cache;
use store::{Store, Unusable};

/// What a run does with goldens; kept with it, so that it can be resumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "goldens", rename_all = "kebab-case")]
pub enum GoldenUse {
    /// Outputs are kept in this folder.
    Record {
        /// The folder.
        folder: PathBuf,
    },
    /// Outputs of Tier 2 are compared with what is kept there.
    Compare {
        /// Folder or URL, as it was given.
        location: String,
        /// Where what a URL names is kept.
        #[serde(default)]
        cache: Cache,
    },
}

/// The same, opened for one run.
#[derive(Debug)]
pub struct Goldens {
    store: Store,
    seed: u64,
    versions: BTreeMap<String, String>,
    /// Who records; nothing where goldens are read.
    recorder: Option<Origin>,
}

impl Goldens {
    /// Opens what the run uses.
    pub fn open(usage: &GoldenUse, run: &create_run::Request, seed: u64) -> Result<Self, Error> {
        let versions = entry::versions_that_count(&run.versions);
        let (store, recorder) = match usage {
            GoldenUse::Compare { location, cache } => (Store::open(location, cache)?, None),
            GoldenUse::Record { folder } => (Store::create(folder)?, Some(Origin::of(run))),
        };
        Ok(Self { store, seed, versions, recorder })
    }

    /// Whether outputs are kept, and nothing is compared with them.
    #[must_use]
    pub const fn records(&self) -> bool {
        self.recorder.is_some()
    }

    /// Whether the case has a golden here that can be used now.
    pub fn find(&self, case: &PlannedCase) -> Result<Golden, Unusable> {
        let made = Made::of(case, self.seed, &self.versions);
        let made = made.ok_or(Unusable::Missing { case: case.key.clone() })?;
        self.store.find(&entry::key_of(&case.key), &made)
    }

    /// Keeps the outputs of the case.
    pub(crate) fn keep(&self, case: &PlannedCase, kept: store::ToKeep<'_>) -> Result<(), String> {
        let made = Made::of(case, self.seed, &self.versions);
        let (Some(made), Some(origin)) = (made, &self.recorder) else { return Ok(()) };
        self.store.keep(&entry::key_of(&case.key), made, origin.clone(), kept)
    }
}
