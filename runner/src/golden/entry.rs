//! What is written down of one golden, and what must be the same for it to be used.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use protocol::ingest_api::create_run;
use protocol::worker_link::{ModelSpec, Task};
use protocol::{CaseKey, Dtype, Mode, Suite, Variant};
use serde::{Deserialize, Serialize};

use crate::plan::PlannedCase;

/// Version of the entries.
pub const FORMAT: u32 = 1;

/// Libraries that decide what a model computes.
const LIBRARIES: [&str; 4] = ["torch", "transformers", "timm", "torchvision"];

/// One golden.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Must equal [`FORMAT`].
    pub format: u32,
    /// The case, in eager mode: what another mode gives is compared with the same outputs.
    pub case: CaseKey,
    /// What must be the same.
    pub made: Made,
    /// Of its weights and inputs.
    pub fingerprint: String,
    /// When, and on what.
    pub origin: Origin,
    /// When.
    pub recorded_at: DateTime<Utc>,
    /// Whether the outputs were close to the host's own reference, and what was found.
    pub close_to: Closeness,
    /// What the device gave.
    pub outputs: Object,
    /// The same in float64, computed on the host; nothing for a model that cannot be.
    pub wide: Option<Object>,
}

/// What a golden is made from: it is stale when any of it differs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Made {
    /// The entry of the model list.
    pub model: ModelSpec,
    /// Element type.
    pub dtype: Dtype,
    /// Seed of every generator.
    pub seed: u64,
    /// Of the libraries that decide what a model computes.
    pub versions: BTreeMap<String, String>,
}

/// Who recorded it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The run.
    pub run: String,
    /// Device profile.
    pub device: String,
    /// The device's model as it names itself.
    pub device_kind: String,
    /// Whether its results are simulated.
    pub simulated: bool,
    /// Every version of the run: driver, runner, Python and libraries.
    pub versions: BTreeMap<String, String>,
}

/// How the outputs compared with the host's when they were recorded, by the rule `close`. A golden
/// need not be close: it is what the device gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Closeness {
    /// Whether they were close.
    pub held: bool,
    /// To what: `cpu float64`.
    pub reference: String,
    /// What was found.
    pub findings: Vec<String>,
}

/// One file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Object {
    /// SHA-256 of its bytes, which also names it.
    pub sha256: String,
    /// Its length.
    pub bytes: u64,
}

impl Object {
    /// Whether the hash can be one, and so be part of a path.
    #[must_use]
    pub fn is_sane(&self) -> bool {
        let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        self.sha256.len() == 64 && self.sha256.bytes().all(digit)
    }
}

impl Origin {
    /// The run as it was announced.
    #[must_use]
    pub fn of(run: &create_run::Request) -> Self {
        Self {
            run: run.run_key.to_string(),
            device: run.device_profile.clone(),
            device_kind: run.device_kind.clone(),
            simulated: run.simulated,
            versions: run.versions.clone(),
        }
    }
}

impl Made {
    /// Of a Tier 2 case; nothing for any other.
    #[must_use]
    pub fn of(case: &PlannedCase, seed: u64, versions: &BTreeMap<String, String>) -> Option<Self> {
        let Task::Model { model, .. } = &case.task else { return None };
        let dtype = case.key.planned_variant().dtype;
        let versions = versions.clone();
        let tier2 = case.key.suite() == Suite::Tier2;
        tier2.then(|| Self { model: model.clone(), dtype, seed, versions })
    }

    /// What differs, one line each; nothing for the same.
    #[must_use]
    pub fn differences(&self, now: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.model != now.model {
            lines.push("the entry of the model list is another one".to_owned());
        }
        if self.dtype != now.dtype {
            lines.push(format!("dtype {} and now {}", self.dtype, now.dtype));
        }
        if self.seed != now.seed {
            lines.push(format!("seed {} and now {}", self.seed, now.seed));
        }
        let names: std::collections::BTreeSet<_> =
            self.versions.keys().chain(now.versions.keys()).collect();
        for name in names {
            let of =
                |made: &Self| made.versions.get(name).map_or("none", String::as_str).to_owned();
            if of(self) != of(now) {
                lines.push(format!("{name} {} and now {}", of(self), of(now)));
            }
        }
        lines
    }
}

/// The versions that must be the same. What follows a `+` names a build, as `+cpu` and `+cu128` do:
/// a golden of a GPU is compared with another device's build of the same release.
#[must_use]
pub fn versions_that_count(all: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let release = |version: &String| version.split('+').next().unwrap_or_default().to_owned();
    let of = |name: &str| Some((name.to_owned(), release(all.get(name)?)));
    LIBRARIES.into_iter().filter_map(of).collect()
}

/// The key that a case's golden is kept under: that of eager mode.
#[must_use]
pub fn key_of(case: &CaseKey) -> CaseKey {
    let variant = Variant { mode: Mode::Eager, ..case.planned_variant() };
    CaseKey::new(case.suite(), case.subject(), &variant).expect("its subject was in a key already")
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn versions(torch: &str) -> BTreeMap<String, String> {
        let of = |(name, version): (&str, &str)| (name.to_owned(), version.to_owned());
        let all = [("torch", torch), ("timm", "1.0.1"), ("numpy", "2.1"), ("runner", "0.1.0")];
        all.into_iter().map(of).collect()
    }

    fn made() -> Made {
        let model = ModelSpec {
            source: "timm".to_owned(),
            id: "resnet18".to_owned(),
            revision: None,
            checkpoint: None,
            size: "tiny".to_owned(),
            overrides: serde_json::Map::new(),
            batch: 2,
            sequence: 16,
        };
        let versions = versions_that_count(&versions("2.9.0"));
        Made { model, dtype: Dtype::Float32, seed: 7, versions }
    }

    #[test]
    fn builds_of_one_release_are_the_same_and_other_libraries_do_not_count() {
        let of = |torch: &str| versions_that_count(&versions(torch));
        assert_eq!(of("2.9.0+cu128"), of("2.9.0+cpu"));
        assert_ne!(of("2.9.0"), of("2.9.1"));
        assert_eq!(of("2.9.0").keys().collect::<Vec<_>>(), ["timm", "torch"]);
    }

    #[test]
    fn whatever_differs_makes_it_stale_by_name() {
        let now = made();
        assert!(made().differences(&now).is_empty());
        for (change, word) in [
            ((|m: &mut Made| m.seed = 8) as fn(&mut Made), "seed 8 and now 7"),
            (|m| m.dtype = Dtype::Bfloat16, "dtype bfloat16 and now float32"),
            (|m| m.model.batch = 3, "model list"),
            (|m| m.model.overrides.clear(), ""),
            (|m| drop(m.versions.insert("torch".to_owned(), "2.8.0".to_owned())), "torch 2.8.0"),
            (|m| drop(m.versions.remove("timm")), "timm none and now 1.0.1"),
        ] {
            let mut then = made();
            change(&mut then);
            let lines = then.differences(&now).join("; ");
            assert!(lines.contains(word) && lines.is_empty() == word.is_empty(), "{lines}");
        }
    }

    #[test]
    fn every_mode_is_compared_with_the_same_golden() {
        let key = |mode: &str| format!("tier2/timm:a#tiny/float32.{mode}.forward").parse().unwrap();
        for mode in ["eager", "strict", "compile"] {
            assert_eq!(key_of(&key(mode)), key("eager"));
        }
    }
}
