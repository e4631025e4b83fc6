//! One entry of a model list, and what the planner makes of it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use protocol::worker_link::{DynamicDimension, ModelSpec};
use protocol::{Dtype, SkipReason};

use crate::compare::{Rule, ToleranceClass};

protocol::words! {
    /// Where a model comes from.
    ModelSource as "source" {
        /// A model class of transformers, from a configuration; the name is the class.
        Transformers = "transformers",
        /// A name of `timm.list_models()`.
        Timm = "timm",
        /// A name of `torchvision.models.list_models()`.
        Torchvision = "torchvision",
        /// A Python package that ships weights; the name is the distribution.
        Package = "package",
        /// The user's own code; the name is `module:function`.
        Python = "python",
        /// A Hugging Face id at a pinned revision.
        Hub = "hub",
    }
}

protocol::words! {
    /// How large the model is built.
    Size as "size" {
        /// Shrunk by the recipe, with random weights.
        Tiny = "tiny",
        /// As its source has it.
        Full = "full",
    }
}

/// One model of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelEntry {
    /// Where it comes from.
    pub source: ModelSource,
    /// Its name within the source.
    pub name: String,
    /// Architecture class, for reports; a hub model is built as this class.
    pub class: Option<String>,
    /// What it is for: `text-generation`, `image-classification`, … .
    pub task: Option<String>,
    /// Pinned revision of a hub model.
    pub revision: Option<String>,
    /// File with weights that were saved elsewhere, relative to the list.
    pub checkpoint: Option<PathBuf>,
    /// Tiny unless the list says full.
    pub size: Size,
    /// Configuration values that are set last and win.
    pub overrides: serde_json::Map<String, serde_json::Value>,
    /// Dtypes it is meant for; empty means whatever the run asks for.
    pub dtypes: Vec<Dtype>,
    /// Batch size of the inputs.
    pub batch: u64,
    /// Sequence length of the inputs, where they have one.
    pub sequence: u64,
    /// Named dimensions that may vary.
    pub dynamic: BTreeMap<String, Dynamic>,
    /// Tolerance class in place of `model`.
    pub tolerance_class: Option<ToleranceClass>,
    /// Rule in place of its suite's.
    pub rule: Option<Rule>,
    /// Names its graph, as it was measured: entries of one signature need one execution.
    pub signature: Option<String>,
    /// Free words to filter by.
    pub tags: Vec<String>,
    /// How popular it is, and by whose count.
    pub popularity: Option<Popularity>,
    /// Why it is not executed. It is still planned and counted.
    pub skip: Option<Skip>,
    /// Line of the file, from 1.
    pub line: usize,
}

/// Bounds of one named dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dynamic {
    /// Smallest size, inclusive.
    pub min: u64,
    /// Largest size, inclusive.
    pub max: u64,
    /// Which dimension of which input it is, from 0.
    pub inputs: BTreeMap<String, u32>,
}

/// A count of how popular a model is, with where and when it was taken: counts of different dates
/// and sources do not make one ranking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Popularity {
    /// Place in the ranking, from 1.
    pub rank: u64,
    /// The number ranked by, such as downloads in 30 days, where it is known.
    pub count: Option<u64>,
    /// When it was taken: `2026-10`.
    pub snapshot: String,
    /// Where it was taken from.
    pub source: String,
}

/// Why an entry is not executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip {
    /// From the closed list.
    pub reason: SkipReason,
    /// In words, with a link where there is one.
    pub detail: String,
}

impl ModelEntry {
    /// `source:name`, as written.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{}:{}", self.source, self.name)
    }

    /// What names the model in case keys: `source:name@revision#size`. Unique in a list.
    #[must_use]
    pub fn subject(&self) -> String {
        let revision = self.revision.as_ref().map(|revision| format!("@{revision}"));
        format!("{}{}#{}", self.id(), revision.unwrap_or_default(), self.size)
    }

    /// What the worker needs to build it. The class of a hub model travels as the configuration's
    /// own word for it, `architectures`.
    #[must_use]
    pub fn spec(&self) -> ModelSpec {
        let mut overrides = self.overrides.clone();
        if let (ModelSource::Hub, Some(class)) = (self.source, &self.class) {
            overrides.insert("architectures".to_owned(), serde_json::json!([class]));
        }
        ModelSpec {
            source: self.source.to_string(),
            id: self.name.clone(),
            revision: self.revision.clone(),
            checkpoint: self.checkpoint.as_ref().map(|path| path.display().to_string()),
            size: self.size.to_string(),
            overrides,
            batch: self.batch,
            sequence: self.sequence,
        }
    }

    /// Its named dimensions with bounds; empty when it is not for the dynamism suite.
    #[must_use]
    pub fn dimensions(&self) -> Vec<DynamicDimension> {
        self.dynamic
            .iter()
            .map(|(name, dynamic)| DynamicDimension {
                name: name.clone(),
                min: dynamic.min,
                max: dynamic.max,
                inputs: dynamic.inputs.clone(),
            })
            .collect()
    }
}
