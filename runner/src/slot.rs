//! One device slot: keeps a healthy worker on it and executes the cases it is given, one after the
//! other.
//!
//! It decides about processes (start, probe, replace, drain) and about nothing of the run: what to
//! execute next, and whether again, is [`crate::dispatch`]'s.

mod blockers;
mod divergence;
mod goldens;
pub(crate) mod kept;
mod operator;
mod order;
mod request;
mod worker;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use protocol::Outcome;
use protocol::evidence::{Blocker, FirstDivergence, LastOperator};
use protocol::ingest_api::Attempt;
use protocol::worker_link::{Golden, Probed, Task};
use tokio::sync::{mpsc, watch};

use self::request::Purpose;
use self::worker::Current;
use crate::backend::Backend;
use crate::device::Slot;
use crate::dynamic_form::DynamicForm;
use crate::event::Event;
use crate::exchange::Exchange;
use crate::execute::{Comparer, Deadlines, Executed, Execution};
use crate::golden::Goldens;
use crate::outcome::{Asked, Ending, Judged, apply_crumb, judge, wants_breadcrumb};
use crate::plan::PlannedCase;
use crate::worker::Worker;

/// Longest time of a rerun that only names the operator of a timeout.
const BREADCRUMB_LIMIT: Duration = Duration::from_secs(60);

/// What all slots of a run share.
#[derive(Clone)]
pub struct Shared {
    /// Starts workers.
    pub backend: Arc<Backend>,
    /// Time that a case may spend.
    pub deadlines: Deadlines,
    /// How outputs are compared.
    pub comparer: Comparer,
    /// Where outputs of Tier 2 are kept, or what they are compared with; nothing for a reference
    /// that is computed with each case.
    pub goldens: Option<Arc<Goldens>>,
    /// Where folders for tensors are made.
    pub exchange: PathBuf,
    /// Where scripts of operators that differ are kept, with their tensors.
    pub repros: PathBuf,
    /// Where both sides of what does not hold are kept.
    pub tensors: PathBuf,
    /// Cases after which a worker is replaced.
    pub recycle_after: u32,
    /// Growth in bytes after which a worker is replaced.
    pub recycle_growth_bytes: u64,
    /// Most executions to find the case that another one depends on.
    pub order_replays: u32,
    /// Seed of every generator.
    pub seed: u64,
    /// Whether the backend executes on the simulating host.
    pub host_limited: bool,
    /// Becomes true when cases in flight are to be abandoned.
    pub abandon: watch::Receiver<bool>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("exchange", &self.exchange).finish_non_exhaustive()
    }
}

/// A case to execute.
#[derive(Debug, Clone)]
pub struct Assignment {
    /// Place in the order of execution.
    pub index: usize,
    /// The case.
    pub case: Arc<PlannedCase>,
    /// From 1.
    pub attempt: u32,
    /// Whether it needs a process that has executed nothing yet.
    pub fresh: bool,
    /// What an earlier attempt found out about the operator to blame.
    pub earlier: Option<Box<Earlier>>,
}

impl Assignment {
    /// The earlier attempt, where it ended as this one did: what it found out still holds.
    fn earlier_alike(&self, judged: &Judged) -> Option<&Earlier> {
        self.earlier.as_deref().filter(|earlier| {
            earlier.outcome == judged.outcome && earlier.error_class == judged.error_class
        })
    }
}

/// How an earlier attempt ended, the operator that a rerun named, and what else a model needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Earlier {
    outcome: Outcome,
    error_class: String,
    last_operator: Option<LastOperator>,
    blockers: Option<Vec<Blocker>>,
    first_divergence: Option<FirstDivergence>,
    /// The cases before it in its process, in order.
    predecessors: Vec<Arc<PlannedCase>>,
}

/// What a slot tells the dispatcher.
#[derive(Debug)]
pub enum Report {
    /// Something happened.
    Event(Event),
    /// A case is over.
    Finished {
        /// The slot.
        slot: u32,
        /// What it was given.
        assignment: Assignment,
        /// The attempt.
        attempt: Box<Attempt>,
        /// For the next attempt of this case.
        earlier: Box<Earlier>,
    },
    /// The case in flight was abandoned as asked; it has no attempt.
    Abandoned {
        /// The slot.
        slot: u32,
    },
    /// The device cannot be used any more. The case was not executed and is not to blame.
    Drained {
        /// The slot.
        slot: u32,
        /// What it was given.
        assignment: Assignment,
        /// Why, for people.
        reason: String,
    },
}

/// A slot with its worker.
pub struct SlotRunner {
    slot: Slot,
    shared: Shared,
    reports: mpsc::Sender<Report>,
    current: Option<Current>,
    /// That of the case in flight.
    golden: Option<Golden>,
    /// Whether the last case may have found the folder for tensors full.
    doubts_room: bool,
}

impl std::fmt::Debug for SlotRunner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SlotRunner").field("slot", &self.slot).finish_non_exhaustive()
    }
}

impl SlotRunner {
    /// A slot; `first` is a worker that has proved itself already.
    #[must_use]
    pub fn new(
        slot: Slot,
        shared: Shared,
        reports: mpsc::Sender<Report>,
        first: Option<(Worker, Probed)>,
    ) -> Self {
        let current = first.map(|(worker, probed)| Current::new(worker, &probed));
        Self { slot, shared, reports, current, golden: None, doubts_room: false }
    }

    /// Executes what it is given until there is nothing more, then lets its worker leave.
    pub async fn run(mut self, mut assignments: mpsc::Receiver<Assignment>) {
        if let Some(current) = &self.current {
            let (worker, pid) = (current.worker.number, current.worker.pid);
            self.tell(Report::Event(Event::WorkerStarted { worker, pid })).await;
        }
        while let Some(assignment) = assignments.recv().await {
            let report = self.handle(assignment).await;
            self.tell(report).await;
        }
        self.retire("the run is over").await;
    }

    async fn handle(&mut self, assignment: Assignment) -> Report {
        let slot = self.slot.number;
        if let Some(skip) = &assignment.case.skip {
            let ending = Ending::Skipped { reason: skip.reason, message: skip.message.clone() };
            return self.finish(assignment, ending, None).await;
        }
        match self.find_golden(&assignment.case).await {
            Ok(golden) => self.golden = golden,
            Err(ending) => return self.finish(assignment, ending, None).await,
        }
        if assignment.fresh && self.current.as_ref().is_some_and(|c| c.executed > 0) {
            self.retire("replaced: the next attempt needs a fresh process").await;
        }
        if let Err(reason) = self.ensure_room() {
            return Report::Drained { slot, assignment, reason };
        }
        if let Err(error) = self.ensure_worker().await {
            let reason = error.to_string();
            return Report::Drained { slot, assignment, reason };
        }
        let Some(executed) = self.execute(&assignment, &Purpose::Decide).await else {
            let reason = format!(
                "no folder for tensors can be made in `{}`",
                self.shared.exchange.display()
            );
            return Report::Drained { slot, assignment, reason };
        };
        match executed.0.ending.clone() {
            None => {
                self.drop_worker("abandoned").await;
                Report::Abandoned { slot }
            }
            Some(ending) => self.finish(assignment, ending, Some(executed.0)).await,
        }
    }

    /// Judges, looks after the worker, names the operator where that takes a rerun, and writes the
    /// attempt.
    async fn finish(
        &mut self,
        assignment: Assignment,
        ending: Ending,
        executed: Option<Executed>,
    ) -> Report {
        let asked = self.asked(&assignment.case);
        let executed = executed.unwrap_or_else(Executed::nothing);
        let (started_at, seconds) = (executed.started_at, executed.seconds);
        let log_text = format!("{}\n{}", executed.log.head, executed.log.tail);
        let (mut judged, mut evidence) = judge(&asked, &ending, &log_text);
        evidence.log = executed.log;
        evidence.operators = executed.operators;
        evidence.operator_inputs = executed.operator_inputs;
        evidence.graph_signature = executed.graph_signature;
        evidence.notes.extend(executed.notes);
        if evidence.repro.is_empty() {
            evidence.repro = executed.repro;
        }
        let usable = executed.worker_usable;
        let crumb = executed.crumb;
        let predecessors = self.predecessors(judged.outcome);
        self.doubts_room = judged.outcome == Outcome::Infra;
        if let Some(note) = self.look_after_worker(&judged, usable).await {
            let before = predecessors.last().map_or_else(String::new, |case| {
                format!("; the case before it was `{}`", case.key)
            });
            evidence.notes.push(format!("{note}{before}"));
        }
        let wants_rerun = wants_breadcrumb(&judged);
        if let Some(crumb) = crumb {
            apply_crumb(&crumb, &mut judged, &mut evidence);
        }
        if wants_rerun {
            self.name_operator(&assignment, &mut judged, &mut evidence).await;
        }
        self.find_blockers(&assignment, &judged, &mut evidence).await;
        self.find_divergence(&assignment, &judged, &mut evidence).await;
        let earlier = Box::new(Earlier {
            outcome: judged.outcome,
            error_class: judged.error_class.clone(),
            last_operator: evidence.last_operator.clone(),
            blockers: evidence.blockers.clone(),
            first_divergence: evidence.first_divergence.clone(),
            predecessors,
        });
        self.explain_order(&assignment, &judged, &mut evidence).await;
        let attempt = Box::new(Attempt {
            case: assignment.case.key.clone(),
            attempt: assignment.attempt,
            outcome: judged.outcome,
            stage: judged.stage,
            error_class: judged.error_class,
            message: judged.message,
            operator: judged.operator,
            started_at,
            seconds,
            evidence,
        });
        Report::Finished { slot: self.slot.number, assignment, attempt, earlier }
    }

    /// Executes on the current worker; `None` when no folder for tensors can be made.
    async fn execute(
        &mut self,
        assignment: &Assignment,
        purpose: &Purpose,
    ) -> Option<(Executed, Option<String>)> {
        let exchange = Exchange::create(&self.shared.exchange).ok()?;
        let current = self.current.as_ref()?;
        let case = assignment.case.key.clone();
        let (worker, attempt) = (current.worker.number, assignment.attempt);
        let event = Event::CaseStarted { case: case.clone(), attempt, worker };
        let with_breadcrumb = !matches!(purpose, Purpose::Decide | Purpose::Replay);
        if matches!(purpose, Purpose::Decide) {
            let _ = self.reports.send(Report::Event(event)).await;
        }
        let reports = self.reports.clone();
        let slow = Box::new(move |stage, seconds| {
            let event = Event::CaseSlow { case: case.clone(), stage, seconds };
            // A full queue means that there is more important news.
            let _ = reports.try_send(Report::Event(event));
        });
        let mut deadlines = self.shared.deadlines;
        if with_breadcrumb {
            deadlines.compile = deadlines.compile.min(BREADCRUMB_LIMIT);
            deadlines.execute = deadlines.execute.min(BREADCRUMB_LIMIT);
        }
        let mut request = self.shared.request(&assignment.case, &exchange, purpose);
        self.add_golden(&mut request, &assignment.case, purpose).await;
        let current = self.current.as_mut()?;
        current.executed += 1;
        current.cases.push(Arc::clone(&assignment.case));
        let mut execution = Execution {
            worker: &mut current.worker,
            deadlines,
            comparer: Arc::clone(&self.shared.comparer),
            tolerance_class: assignment.case.tolerance_class,
            rule: assignment.case.rule,
            slow,
            abandon: self.shared.abandon.clone(),
        };
        let mut executed = execution.execute(request).await;
        if matches!(purpose, Purpose::Decide) {
            self.keep_golden(&assignment.case, &mut executed).await;
        }
        let note = match purpose {
            Purpose::Decide => {
                kept::tensors(&executed, &assignment.case.key, attempt, &self.shared.tensors)
            }
            Purpose::FindDivergence(_) => kept::scripts(&exchange, &self.shared.repros),
            Purpose::Replay | Purpose::NameOperator | Purpose::FindBlockers(_) => None,
        };
        executed.notes.extend(note);
        let crumb = with_breadcrumb.then(|| exchange.last_entered()).flatten();
        if !matches!(executed.ending, Some(Ending::Observed { .. })) {
            executed.repro = exchange.repro();
        }
        Some((executed, crumb))
    }

    /// That what one case could not write does not fail every other one after it, too.
    fn ensure_room(&self) -> Result<(), String> {
        if !self.doubts_room {
            return Ok(());
        }
        let folder = &self.shared.exchange;
        Exchange::try_room(folder).map_err(|error| {
            format!("tensors cannot be written in `{}`: {error}", folder.display())
        })
    }

    fn asked(&self, case: &PlannedCase) -> Asked {
        let sweep_sizes = match &case.task {
            Task::Dynamism { sweep, .. } => sweep.len(),
            Task::Operator { .. } | Task::Model { .. } => 0,
        };
        let form = DynamicForm::of(case.key.planned_variant().layout.as_deref());
        let device_type = self.current.as_ref().map(|c| c.device_type.clone()).unwrap_or_default();
        Asked {
            suite: case.key.suite(),
            mode: case.key.planned_variant().mode,
            device_type,
            host_limited: self.shared.host_limited,
            sweep_sizes,
            graph_budget: form.graphs(),
            seed: self.shared.seed,
        }
    }

    async fn tell(&self, report: Report) {
        // Without a dispatcher there is nobody left to tell.
        let _ = self.reports.send(report).await;
    }
}
