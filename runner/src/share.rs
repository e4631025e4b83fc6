//! Cases whose models have one graph: one of them is executed, the others take its attempts.
//!
//! A model list names the graph of an entry, as it was measured when the list was made. That claim
//! is not evidence: attempts are shared only when the worker saw the claimed graph in the case
//! that it executed. Each case keeps its own attempts, which say whose execution they are.

use std::collections::HashMap;
use std::sync::Arc;

use protocol::ingest_api::Attempt;
use protocol::worker_link::{ModelSpec, Task};
use protocol::{CaseKey, Outcome};

use crate::plan::PlannedCase;
use crate::slot::Assignment;

/// What cases must have in common to need one execution: everything but the name of the model.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ShareKey(String);

impl ShareKey {
    /// Of a case with a graph of its own or a reason to be skipped: nothing.
    #[must_use]
    pub fn of(case: &PlannedCase) -> Option<Self> {
        let graph = case.graph.as_ref().filter(|_| case.skip.is_none())?;
        let mut task = case.task.clone();
        let (Task::Model { model, .. } | Task::Dynamism { model, .. }) = &mut task else {
            return None;
        };
        let class = class_of(model);
        // What these say of the graph is in its signature.
        for text in [&mut model.source, &mut model.id] {
            text.clear();
        }
        model.revision = None;
        model.overrides.clear();
        let (suite, variant) = (case.key.suite(), case.key.planned_variant());
        let judging = (case.tolerance_class, case.rule);
        let common = (graph, class, suite, variant.to_string(), &task, judging);
        Some(Self(serde_json::to_string(&common).expect("a task has text keys only")))
    }
}

/// The class of a model of transformers, wherever its weights come from; else what names it, so
/// that models of other sources share only with themselves.
fn class_of(model: &ModelSpec) -> String {
    let recorded = model.overrides.get("architectures").and_then(|names| names.get(0)?.as_str());
    match (model.source.as_str(), recorded) {
        ("hub", Some(class)) => class.to_owned(),
        ("transformers", _) => model.id.clone(),
        (source, _) => format!("{source}:{}", model.id),
    }
}

/// Cases that wait for the execution of another one.
#[derive(Debug, Default)]
pub struct Shares {
    executed: HashMap<ShareKey, CaseKey>,
    waiting: HashMap<CaseKey, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    graph: String,
    attempts: Vec<Arc<Attempt>>,
    assignments: Vec<Assignment>,
}

/// What becomes of the cases that waited.
#[derive(Debug, Default)]
pub struct Settled {
    /// Attempts of theirs, in order, with whether another one follows.
    pub attempts: Vec<(Arc<Attempt>, bool)>,
    /// Those that must be executed themselves.
    pub to_execute: Vec<Assignment>,
}

impl Shares {
    /// Notes that the case is executed, for whoever has the same key and comes after it.
    pub fn executes(&mut self, case: &PlannedCase) {
        if let Some(key) = ShareKey::of(case) {
            self.executed.entry(key).or_insert_with(|| case.key.clone());
        }
    }

    /// Lets the case wait if another one is executed for it, else gives it back.
    pub fn wait(&mut self, assignment: Assignment) -> Option<Assignment> {
        let case = &assignment.case;
        let executed = ShareKey::of(case).and_then(|key| self.executed.get(&key));
        let (Some(executed), Some(graph)) = (executed, &case.graph) else {
            return Some(assignment);
        };
        let none = || Waiting { graph: graph.clone(), attempts: vec![], assignments: vec![] };
        self.waiting.entry(executed.clone()).or_insert_with(none).assignments.push(assignment);
        None
    }

    /// Takes in an attempt of a case that was executed. After its last one, says what becomes of
    /// those that waited for it.
    pub fn settle(&mut self, attempt: &Arc<Attempt>, last: bool) -> Settled {
        let Some(waiting) = self.waiting.get_mut(&attempt.case) else { return Settled::default() };
        waiting.attempts.push(Arc::clone(attempt));
        if !last {
            return Settled::default();
        }
        let waiting = self.waiting.remove(&attempt.case).expect("it was just there");
        if !waiting.attempts.iter().all(|attempt| holds_for_graph(attempt, &waiting.graph)) {
            return Settled { to_execute: waiting.assignments, ..Settled::default() };
        }
        let end = waiting.attempts.len() - 1;
        let attempts = waiting.assignments.iter().flat_map(|assignment| {
            let mine = |(at, attempt): (usize, &Arc<Attempt>)| {
                (Arc::new(shared(attempt, &assignment.case.key)), at != end)
            };
            waiting.attempts.iter().enumerate().map(mine)
        });
        Settled { attempts: attempts.collect(), ..Settled::default() }
    }
}

/// Whether what was learnt holds for every model of that graph. Trouble of the host and skips say
/// nothing of another model.
fn holds_for_graph(attempt: &Attempt, graph: &str) -> bool {
    !matches!(attempt.outcome, Outcome::Infra | Outcome::Skipped)
        && attempt.evidence.graph_signature.as_deref() == Some(graph)
}

/// The attempt as that of another case. What belongs to the one process that executed it stays
/// with the case that was executed.
fn shared(attempt: &Attempt, case: &CaseKey) -> Attempt {
    let mut shared = attempt.clone();
    shared.seconds = 0.0;
    shared.evidence.executed_as = Some(std::mem::replace(&mut shared.case, case.clone()));
    shared.evidence.stage_seconds.clear();
    shared.evidence.log = protocol::evidence::LogExcerpt::default();
    shared
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::Evidence;

    const GRAPH: &str = "0123456789abcdef";

    fn case(id: &str, change: impl FnOnce(&mut PlannedCase, &mut ModelSpec)) -> Assignment {
        let mut model = ModelSpec {
            source: "hub".to_owned(),
            id: id.to_owned(),
            revision: Some("facts-2026-10".to_owned()),
            checkpoint: None,
            size: "tiny".to_owned(),
            overrides: serde_json::Map::from_iter([(
                "architectures".to_owned(),
                serde_json::json!(["LlamaForCausalLM"]),
            )]),
            batch: 2,
            sequence: 16,
        };
        let key = format!("tier1/hub:{id}#tiny/float32.eager.forward").parse().unwrap();
        let mut case = PlannedCase {
            graph: Some(GRAPH.to_owned()),
            ..PlannedCase::new(key, Task::Model { model: model.clone(), compare: false })
        };
        change(&mut case, &mut model);
        case.task = Task::Model { model, compare: false };
        Assignment { index: 0, case: Arc::new(case), attempt: 1, fresh: false, earlier: None }
    }

    fn attempt(
        of: &Assignment,
        number: u32,
        outcome: Outcome,
        graph: Option<&str>,
    ) -> Arc<Attempt> {
        let graph_signature = graph.map(str::to_owned);
        Arc::new(Attempt {
            case: of.case.key.clone(),
            attempt: number,
            outcome,
            stage: Some(protocol::Stage::Execute),
            error_class: String::new(),
            message: String::new(),
            operator: None,
            started_at: chrono::DateTime::UNIX_EPOCH,
            seconds: 2.0,
            evidence: Evidence { graph_signature, seed: 3, ..Evidence::default() },
        })
    }

    #[test]
    fn only_what_differs_in_name_alone_waits_for_another() {
        let one = case("a/one", |_, _| {});
        let mut shares = Shares::default();
        shares.executes(&one.case);
        assert!(shares.wait(case("b/two", |_, _| {})).is_none());
        let geometry = |_: &mut PlannedCase, model: &mut ModelSpec| {
            model.overrides.insert("hidden_size".to_owned(), 64.into());
        };
        assert!(shares.wait(case("b/same-graph", geometry)).is_none());
        let class = |_: &mut PlannedCase, model: &mut ModelSpec| {
            (model.source, model.id) = ("transformers".to_owned(), "LlamaForCausalLM".to_owned());
        };
        assert!(shares.wait(case("LlamaForCausalLM", class)).is_none());
        for different in [
            case("b/class", |_, model| {
                model.overrides["architectures"] = serde_json::json!(["GPT2LMHeadModel"]);
            }),
            case("b/source", |_, model| model.source = "timm".to_owned()),
            case("b/graph", |case, _| case.graph = Some("ffffffffffffffff".to_owned())),
            case("b/unknown", |case, _| case.graph = None),
            case("b/batch", |_, model| model.batch = 3),
            case("b/sequence", |_, model| model.sequence = 3),
            case("b/full", |_, model| model.size = "full".to_owned()),
            case("b/tolerance", |case, _| {
                case.tolerance_class = Some(crate::compare::ToleranceClass::Matmul);
            }),
            case("b/rule", |case, _| case.rule = Some(crate::compare::Rule::Exact)),
            case("b/dtype", |case, _| {
                case.key = "tier1/hub:b/dtype#tiny/bfloat16.eager.forward".parse().unwrap();
            }),
            case("b/suite", |case, _| {
                case.key = "tier2/hub:b/suite#tiny/float32.eager.forward".parse().unwrap();
            }),
        ] {
            assert!(shares.wait(different.clone()).is_some(), "{}", different.case.key);
        }
    }

    #[test]
    fn those_that_wait_get_every_attempt_and_say_whose_it_is() {
        let (one, two) = (case("a/one", |_, _| {}), case("b/two", |_, _| {}));
        let mut shares = Shares::default();
        shares.executes(&one.case);
        shares.wait(two.clone());
        let first = attempt(&one, 1, Outcome::Crash, Some(GRAPH));
        assert!(shares.settle(&first, false).attempts.is_empty());
        let settled = shares.settle(&attempt(&one, 2, Outcome::Pass, Some(GRAPH)), true);
        assert!(settled.to_execute.is_empty());
        let got: Vec<_> = settled
            .attempts
            .iter()
            .map(|(attempt, more)| (attempt.attempt, attempt.outcome, *more))
            .collect();
        assert_eq!(got, [(1, Outcome::Crash, true), (2, Outcome::Pass, false)]);
        for (attempt, _) in &settled.attempts {
            assert_eq!(attempt.case, two.case.key);
            assert_eq!(attempt.evidence.executed_as.as_ref(), Some(&one.case.key));
            assert!(attempt.seconds == 0.0 && attempt.evidence.seed == 3);
        }
        assert!(shares.settle(&first, true).attempts.is_empty(), "nobody waits any more");
    }

    #[test]
    fn without_proof_of_the_graph_each_is_executed_itself() {
        for (outcome, graph) in [
            (Outcome::Pass, None),
            (Outcome::Pass, Some("ffffffffffffffff")),
            (Outcome::Infra, Some(GRAPH)),
            (Outcome::Skipped, Some(GRAPH)),
        ] {
            let (one, two) = (case("a/one", |_, _| {}), case("b/two", |_, _| {}));
            let mut shares = Shares::default();
            shares.executes(&one.case);
            shares.wait(two.clone());
            let settled = shares.settle(&attempt(&one, 1, outcome, graph), true);
            assert!(settled.attempts.is_empty(), "{outcome} {graph:?}");
            assert_eq!(settled.to_execute[0].case.key, two.case.key);
        }
    }
}
