//! Suites, lists, filters and shards become an ordered set of cases with a manifest.
//!
//! Pure: what the worker and the list files said comes in, the plan comes out.

use protocol::ingest_api::put_manifest;
use protocol::worker_link::{DynamicDimension, ModelSpec, OperatorCase, Task};
use protocol::{CaseKey, Direction, Dtype, Mode, SkipReason, Suite, Variant};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::Error;
use crate::compare::{Rule, ToleranceClass};
use crate::dynamic_form::DynamicForm;
use crate::filter::Filter;
use crate::operator_key::{direction_of, operator_key};

/// Layout of a case that loads a model's weights from a file.
pub const CHECKPOINT: &str = "checkpoint";

/// One case with everything a worker needs to execute it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedCase {
    /// Its key.
    pub key: CaseKey,
    /// What to execute.
    pub task: Task,
    /// Tolerance class that its list asks for, in place of the worker's choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerance_class: Option<ToleranceClass>,
    /// Rule that its list asks for, in place of its suite's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
    /// Names the graph of its model, where the list knows it: see [`crate::share`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<String>,
    /// How popular its model is, where the list says so, for ranking what hinders most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub popularity: Option<u64>,
    /// Why it is not executed, if so: it stays in the plan and gets its attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<Skip>,
}

impl PlannedCase {
    /// One of which no list says anything more.
    #[must_use]
    pub fn new(key: CaseKey, task: Task) -> Self {
        Self {
            key,
            task,
            tolerance_class: None,
            rule: None,
            graph: None,
            popularity: None,
            skip: None,
        }
    }
}

/// Why a planned case is not executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skip {
    /// From the closed list.
    pub reason: SkipReason,
    /// In words, with a link where there is one.
    pub message: String,
}

/// A model as the planner needs it.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedModel {
    /// What to build.
    pub spec: ModelSpec,
    /// Named dimensions with bounds; empty when the model is not for the dynamism suite.
    pub dimensions: Vec<DynamicDimension>,
    /// Dtypes that it is meant for; empty means every one asked for.
    pub dtypes: Vec<Dtype>,
    /// Tolerance class in place of that of models.
    pub tolerance_class: Option<ToleranceClass>,
    /// Rule in place of its suite's.
    pub rule: Option<Rule>,
    /// The number that its list ranks it by.
    pub popularity: Option<u64>,
    /// Names its graph; nothing when it is to be executed whatever others have the same.
    pub graph: Option<String>,
    /// Why it is not executed, if so.
    pub skip: Option<Skip>,
}

impl PlannedModel {
    fn takes(&self, dtype: Dtype) -> bool {
        self.dtypes.is_empty() || self.dtypes.contains(&dtype)
    }

    fn case(&self, key: CaseKey, task: Task) -> PlannedCase {
        PlannedCase {
            tolerance_class: self.tolerance_class,
            rule: self.rule,
            graph: self.graph.clone(),
            popularity: self.popularity,
            skip: self.skip.clone(),
            ..PlannedCase::new(key, task)
        }
    }
}

/// What is common to all cases of a plan.
#[derive(Debug, Clone)]
pub struct Axes {
    /// Suites, in order.
    pub suites: Vec<Suite>,
    /// Modes, in order; dynamism is always compiled.
    pub modes: Vec<Mode>,
    /// Element types, in order.
    pub dtypes: Vec<Dtype>,
    /// Directions, in order; dynamism and Tier 2 are forward only.
    pub directions: Vec<Direction>,
    /// What dynamism cases are given, in order.
    pub dynamic_forms: Vec<DynamicForm>,
    /// Whether Tier 1 also loads a checkpoint of every model, not only of those with one.
    pub checkpoints: bool,
}

/// Lists every case: operators in the worker's order, then models in the order of their lists.
/// Each key appears once.
pub fn plan_cases(
    axes: &Axes,
    operators: &[OperatorCase],
    models: &[PlannedModel],
) -> Result<Vec<PlannedCase>, Error> {
    let mut cases = Vec::new();
    for suite in &axes.suites {
        match suite {
            Suite::Operators => plan_operators(axes, operators, &mut cases)?,
            Suite::Tier1 => plan_models(axes, *suite, &axes.directions, models, &mut cases)?,
            Suite::Tier2 => {
                plan_models(axes, *suite, &[Direction::Forward], models, &mut cases)?;
            }
            Suite::Dynamism => plan_dynamism(axes, models, &mut cases)?,
            // Somebody else's, and refused where suites are asked for.
            Suite::Imported(_) => {}
        }
    }
    let mut seen = std::collections::HashSet::new();
    cases.retain(|case| seen.insert(case.key.clone()));
    Ok(cases)
}

fn plan_operators(
    axes: &Axes,
    operators: &[OperatorCase],
    cases: &mut Vec<PlannedCase>,
) -> Result<(), Error> {
    for operator in operators {
        if !axes.directions.contains(&direction_of(operator)) {
            continue;
        }
        for mode in &axes.modes {
            let key = operator_key(operator, *mode)?;
            let task = Task::Operator {
                entry: operator.entry.clone(),
                sample: operator.sample,
                error_input: operator.error_input,
            };
            cases.push(PlannedCase::new(key, task));
        }
    }
    Ok(())
}

fn plan_models(
    axes: &Axes,
    suite: Suite,
    directions: &[Direction],
    models: &[PlannedModel],
    cases: &mut Vec<PlannedCase>,
) -> Result<(), Error> {
    for model in models {
        let wanted = combinations(&axes.dtypes, &axes.modes, directions);
        for (dtype, mode, direction) in wanted.filter(|(dtype, _, _)| model.takes(*dtype)) {
            let variant = Variant { dtype, mode, direction, layout: None };
            let key = key(suite, &subject(&model.spec), &variant)?;
            let task = Task::Model { model: model.spec.clone(), compare: suite == Suite::Tier2 };
            cases.push(model.case(key, task));
        }
        let loads = axes.checkpoints || model.spec.checkpoint.is_some();
        if suite == Suite::Tier1 && loads {
            plan_checkpoints(axes, model, cases)?;
        }
    }
    Ok(())
}

/// One case per dtype that loads the model's weights from a file; how it is executed then is what
/// its other cases are about.
fn plan_checkpoints(
    axes: &Axes,
    model: &PlannedModel,
    cases: &mut Vec<PlannedCase>,
) -> Result<(), Error> {
    for dtype in axes.dtypes.iter().copied().filter(|dtype| model.takes(*dtype)) {
        let variant = Variant {
            dtype,
            mode: Mode::Eager,
            direction: Direction::Forward,
            layout: Some(CHECKPOINT.to_owned()),
        };
        let key = key(Suite::Tier1, &subject(&model.spec), &variant)?;
        let task = Task::Model { model: model.spec.clone(), compare: false };
        cases.push(model.case(key, task));
    }
    Ok(())
}

fn plan_dynamism(
    axes: &Axes,
    models: &[PlannedModel],
    cases: &mut Vec<PlannedCase>,
) -> Result<(), Error> {
    for model in models.iter().filter(|model| !model.dimensions.is_empty()) {
        for dtype in axes.dtypes.iter().filter(|dtype| model.takes(**dtype)) {
            for form in &axes.dynamic_forms {
                let Some(sweep) = form.sweep(&model.spec, &model.dimensions) else { continue };
                let variant = Variant {
                    dtype: *dtype,
                    mode: Mode::Compile,
                    direction: Direction::Forward,
                    layout: form.layout(),
                };
                let key = key(Suite::Dynamism, &subject(&model.spec), &variant)?;
                let task = Task::Dynamism {
                    model: model.spec.clone(),
                    dimensions: model.dimensions.clone(),
                    sweep,
                };
                cases.push(model.case(key, task));
            }
        }
    }
    Ok(())
}

fn combinations<'a>(
    dtypes: &'a [Dtype],
    modes: &'a [Mode],
    directions: &'a [Direction],
) -> impl Iterator<Item = (Dtype, Mode, Direction)> + 'a {
    dtypes.iter().flat_map(move |dtype| {
        modes.iter().flat_map(move |mode| {
            directions.iter().map(move |direction| (*dtype, *mode, *direction))
        })
    })
}

/// `source:id@revision#size`.
fn subject(model: &ModelSpec) -> String {
    let revision = model.revision.as_ref().map(|r| format!("@{r}")).unwrap_or_default();
    format!("{}:{}{revision}#{}", model.source, model.id, model.size)
}

pub(crate) fn key(suite: Suite, subject: &str, variant: &Variant) -> Result<CaseKey, Error> {
    CaseKey::new(suite, subject, variant).map_err(|error| Error::Input {
        message: error.to_string(),
        hint: "choose another name for it in the list".to_owned(),
    })
}

/// Keeps the cases that the filter chooses; an empty choice is an error of its own.
pub fn select(cases: Vec<PlannedCase>, filter: &Filter) -> Result<Vec<PlannedCase>, Error> {
    let before = cases.len();
    let chosen: Vec<_> = cases.into_iter().filter(|case| filter.chooses(&case.key)).collect();
    if !chosen.is_empty() {
        return Ok(chosen);
    }
    let (message, hint) = if before == 0 && !filter.queries().is_empty() {
        // What a filter cannot choose by its name alone was not even listed.
        (
            format!("no case matches the filter {}", filter.describe()),
            "`runner list` with the same flags and no `--filter` prints every case key",
        )
    } else if before == 0 {
        (
            "the plan is empty: no entry of the lists yields a case".to_owned(),
            "check the lists, `--dtype` and `--direction`; dynamism needs models with dimensions",
        )
    } else {
        (
            format!("no case matches the filter {}: {before} cases were there", filter.describe()),
            "`runner list` with the same flags and no `--filter` prints every case key",
        )
    };
    Err(Error::NothingSelected { message, hint: hint.to_owned() })
}

/// The manifest of a plan.
#[must_use]
pub fn manifest(cases: &[PlannedCase]) -> put_manifest::Request {
    let keys: Vec<CaseKey> = cases.iter().map(|case| case.key.clone()).collect();
    let hash = hex::encode(Sha256::digest(put_manifest::Request::hash_text(&keys)));
    put_manifest::Request { hash, cases: keys }
}

/// Puts cases into an order of execution that only the seed and their keys decide: the same in
/// every process of a run, and the same among those that stay when others go. The plan and its
/// manifest keep their own order.
pub fn shuffle(cases: &mut [PlannedCase], seed: u64) {
    cases.sort_by_cached_key(|case| {
        let mut hash = Sha256::new();
        hash.update(seed.to_be_bytes());
        hash.update(case.key.as_str());
        <[u8; 32]>::from(hash.finalize())
    });
}

/// A fixed slice of a run: a case belongs to it by the hash of its key, so that adding a case
/// moves no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// From 1.
    pub index: u32,
    /// How many there are.
    pub total: u32,
}

impl Shard {
    /// Whether the case is in this slice.
    #[must_use]
    pub fn holds(self, case: &CaseKey) -> bool {
        let digest = Sha256::digest(case.as_str());
        let (first, _) = digest.split_first_chunk::<8>().expect("a SHA-256 has 32 bytes");
        u64::from_be_bytes(*first) % u64::from(self.total) == u64::from(self.index - 1)
    }
}

impl std::fmt::Display for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.index, self.total)
    }
}

impl std::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('/').and_then(|(index, total)| {
            Some(Self { index: index.parse().ok()?, total: total.parse().ok()? })
        });
        parts
            .filter(|shard| (1..=shard.total).contains(&shard.index))
            .ok_or_else(|| "a shard reads `I/N` with I from 1 to N, for example `2/8`".to_owned())
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
