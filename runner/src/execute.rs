//! One case on one worker: hands it over, keeps its deadlines, captures its log, compares its
//! outputs. Owns nothing of the run's state; whether to retry is the dispatcher's.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use protocol::evidence::LogExcerpt;
use protocol::worker_link::{Execute, FromWorker, Observed, ToCompare, ToWorker};
use protocol::{Comparison, Stage};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::compare::{Rule, ToleranceClass};
use crate::outcome::{Budget, Ending};
use crate::worker::Worker;
use crate::worker::breadcrumb::{BreadcrumbFile, Crumb};
use crate::worker::link::ReceiveError;
use crate::worker::log::LogCapture;
use crate::worker::process;

/// Compares one output set; the runner's is [`crate::compare`], tests may bring their own.
pub type Comparer = Arc<dyn Fn(&ToCompare) -> Result<Comparison, String> + Send + Sync>;

/// How often log and deadlines are looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// After how long in one stage a case is called slow.
pub const SLOW_AFTER: Duration = Duration::from_secs(30);

/// Time that a case may spend, kept outside the worker because a hung one keeps no time.
#[derive(Debug, Clone, Copy)]
pub struct Deadlines {
    /// For compiling and what leads to it.
    pub compile: Duration,
    /// For transferring and executing.
    pub execute: Duration,
}

impl Deadlines {
    fn of(self, budget: Budget) -> Duration {
        match budget {
            Budget::Compile => self.compile,
            Budget::Execute => self.execute,
        }
    }
}

/// What came of one case.
#[derive(Debug)]
pub struct Executed {
    /// How it ended; nothing when it was abandoned.
    pub ending: Option<Ending>,
    /// Overloads counted in the separate recording execution.
    pub operators: Option<BTreeMap<String, u64>>,
    /// Dtypes and shapes of what each was given.
    pub operator_inputs: Option<BTreeMap<String, Vec<String>>>,
    /// What the process wrote meanwhile.
    pub log: LogExcerpt,
    /// When it was handed over.
    pub started_at: DateTime<Utc>,
    /// Wall seconds until it was decided.
    pub seconds: f64,
    /// Whether the process lives and its device can be trusted.
    pub worker_usable: bool,
    /// Findings that belong into the evidence.
    pub notes: Vec<String>,
    /// The operator that the process was inside of when it ended, or that the exception of a
    /// failure left through.
    pub crumb: Option<Crumb>,
    /// Stand-alone Python that the worker left before it executed the case; for one that ended
    /// the worker, nothing else says how to execute it.
    pub repro: String,
    /// The graph of its model, once that was built.
    pub graph_signature: Option<String>,
}

impl Executed {
    /// Of a case that was not handed to a worker.
    #[must_use]
    pub fn nothing() -> Self {
        Self {
            ending: None,
            operators: None,
            operator_inputs: None,
            log: LogExcerpt::default(),
            started_at: Utc::now(),
            seconds: 0.0,
            worker_usable: true,
            notes: Vec::new(),
            crumb: None,
            repro: String::new(),
            graph_signature: None,
        }
    }
}

/// Tells of a case that is slow: stage, and seconds since it was handed over.
pub type SlowReport = Box<dyn Fn(Stage, u64) + Send>;

/// Executes cases on a worker.
pub struct Execution<'a> {
    /// The process.
    pub worker: &'a mut Worker,
    /// Its time.
    pub deadlines: Deadlines,
    /// How outputs are compared.
    pub comparer: Comparer,
    /// Tolerance class in place of the worker's choice.
    pub tolerance_class: Option<ToleranceClass>,
    /// Rule in place of the worker's choice.
    pub rule: Option<Rule>,
    /// Whom to tell of slowness.
    pub slow: SlowReport,
    /// Becomes true when cases in flight are to be abandoned.
    pub abandon: watch::Receiver<bool>,
}

impl std::fmt::Debug for Execution<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Execution").field("worker", &self.worker).finish_non_exhaustive()
    }
}

/// Where a case is, and what it has used of its time.
struct Clock {
    begun: Instant,
    stage: Stage,
    stage_begun: Instant,
    used: [Duration; 2],
    told_slow: bool,
    graph_signature: Option<String>,
}

impl Clock {
    fn start() -> Self {
        let now = Instant::now();
        let stage = Stage::Build;
        Self {
            begun: now,
            stage,
            stage_begun: now,
            used: [Duration::ZERO; 2],
            told_slow: false,
            graph_signature: None,
        }
    }

    fn enter(&mut self, stage: Stage) {
        self.used[Budget::of(self.stage) as usize] += self.stage_begun.elapsed();
        self.stage = stage;
        self.stage_begun = Instant::now();
        self.told_slow = false;
    }

    /// The budget that has run out, if one has.
    fn expired(&self, deadlines: Deadlines) -> Option<Budget> {
        let budget = Budget::of(self.stage);
        let used = self.used[budget as usize] + self.stage_begun.elapsed();
        (used >= deadlines.of(budget)).then_some(budget)
    }
}

/// What ended the first part of a case.
enum Decided {
    Observed(Box<Observed>),
    Ended(Ending),
    Abandoned,
}

impl Execution<'_> {
    /// Executes one case. On return the worker is idle, or ended where `worker_usable` is false.
    pub async fn execute(&mut self, request: Execute) -> Executed {
        let case = request.case.clone();
        let records = request.record_operators;
        let started_at = Utc::now();
        let memory_kills = process::memory_kills();
        let mut log = LogCapture::begin(&self.worker.log.path());
        let mut clock = Clock::start();
        let message = ToWorker::Execute(Box::new(request));
        let decided = if self.worker.send(&message).await.is_err() {
            Decided::Ended(self.death(clock.stage, memory_kills).await)
        } else {
            self.await_decision(&case, &mut clock, &mut log, memory_kills).await
        };
        let seconds = clock.begun.elapsed().as_secs_f64();
        let mut executed =
            Executed { started_at, seconds, worker_usable: false, ..Executed::nothing() };
        executed.graph_signature = clock.graph_signature;
        match decided {
            Decided::Abandoned => {
                self.worker.kill(false).await;
            }
            Decided::Ended(ending) => {
                executed.ending = Some(ending);
                executed.crumb = self.breadcrumb().and_then(BreadcrumbFile::in_flight);
            }
            Decided::Observed(observed) => {
                if observed.failure.is_some() {
                    executed.crumb = self.breadcrumb().and_then(BreadcrumbFile::raised);
                }
                let comparing = self.compare(&observed);
                executed.worker_usable = true;
                if records {
                    self.await_recording(&case, &mut executed, &mut log).await;
                }
                executed.worker_usable &= !observed.poisoned;
                let comparisons = comparing
                    .await
                    .unwrap_or_else(|panic| vec![Err(format!("comparing failed: {panic}"))]);
                executed.ending = Some(Ending::Observed { observed, comparisons });
            }
        }
        executed.log = log.finish();
        executed
    }

    async fn await_decision(
        &mut self,
        case: &str,
        clock: &mut Clock,
        log: &mut LogCapture,
        memory_kills: u64,
    ) -> Decided {
        let mut look = tokio::time::interval(LOOK_INTERVAL);
        let garbage = |stage, problem: String| Decided::Ended(Ending::Garbage { stage, problem });
        loop {
            tokio::select! {
                biased;
                message = self.worker.receive() => match message {
                    Ok(FromWorker::Entered { stage }) => clock.enter(stage),
                    Ok(FromWorker::Built { graph_signature }) => {
                        clock.graph_signature = Some(graph_signature);
                    }
                    Ok(FromWorker::Observed(observed)) if observed.case == case => {
                        return Decided::Observed(observed);
                    }
                    Ok(other) => {
                        let problem = format!("an answer to another question: {other:?}");
                        self.worker.kill(false).await;
                        return garbage(clock.stage, problem);
                    }
                    Err(ReceiveError::Closed) => {
                        return Decided::Ended(self.death(clock.stage, memory_kills).await);
                    }
                    Err(ReceiveError::Garbage(error)) => {
                        self.worker.kill(false).await;
                        return garbage(clock.stage, error.to_string());
                    }
                },
                _ = look.tick() => {
                    log.look();
                    if *self.abandon.borrow() {
                        return Decided::Abandoned;
                    }
                    if let Some(budget) = clock.expired(self.deadlines) {
                        self.worker.kill(true).await;
                        let limit_secs = self.deadlines.of(budget).as_secs();
                        let ending = Ending::TimedOut { stage: clock.stage, budget, limit_secs };
                        return Decided::Ended(ending);
                    }
                    if !clock.told_slow && clock.stage_begun.elapsed() >= SLOW_AFTER {
                        clock.told_slow = true;
                        (self.slow)(clock.stage, clock.begun.elapsed().as_secs());
                    }
                }
            }
        }
    }

    /// Waits for the recording execution. Whatever happens in it, the outcome stands.
    async fn await_recording(&mut self, case: &str, executed: &mut Executed, log: &mut LogCapture) {
        executed.worker_usable = false;
        let deadline = Instant::now() + self.deadlines.compile.min(Duration::from_secs(120));
        let mut look = tokio::time::interval(LOOK_INTERVAL);
        loop {
            tokio::select! {
                biased;
                message = self.worker.receive() => match message {
                    Ok(FromWorker::Recorded { case: echoed, operators, inputs })
                        if echoed == case =>
                    {
                        executed.operator_inputs = operators.is_some().then_some(inputs);
                        executed.operators = operators;
                        executed.worker_usable = true;
                        return;
                    }
                    Ok(FromWorker::Entered { .. }) => {}
                    Ok(_) | Err(ReceiveError::Garbage(_)) => {
                        self.worker.kill(false).await;
                        executed.notes.push("recording operators broke the link".to_owned());
                        return;
                    }
                    Err(ReceiveError::Closed) => {
                        let exit = self.worker.exit().await;
                        let how = exit.signal.map_or_else(
                            || "an exit".to_owned(),
                            process::signal_name,
                        );
                        let note = format!("recording operators ended the process by {how}");
                        executed.notes.push(note);
                        return;
                    }
                },
                _ = look.tick() => {
                    log.look();
                    if *self.abandon.borrow() || Instant::now() >= deadline {
                        self.worker.kill(false).await;
                        executed.notes.push("recording operators took too long".to_owned());
                        return;
                    }
                }
            }
        }
    }

    fn compare(&self, observed: &Observed) -> JoinHandle<Vec<Result<Comparison, String>>> {
        let comparer = Arc::clone(&self.comparer);
        let mut sets = observed.to_compare.clone();
        if let Some(class) = self.tolerance_class {
            sets.iter_mut().for_each(|set| set.tolerance_class = class.to_string());
        }
        if let Some(rule) = self.rule {
            // Without outputs in float64, nothing can be as near to them as something else; what is
            // left of that rule is the worker's own, which is stricter.
            sets.iter_mut()
                .filter(|set| rule != Rule::GpuRelative || set.wide.is_some())
                .for_each(|set| set.rule = rule.to_string());
        }
        tokio::task::spawn_blocking(move || sets.iter().map(|set| comparer(set)).collect())
    }

    fn breadcrumb(&self) -> Option<&BreadcrumbFile> {
        self.worker.breadcrumb.as_ref()
    }

    async fn death(&mut self, stage: Stage, memory_kills_before: u64) -> Ending {
        let exit = self.worker.exit().await;
        let memory_killed = process::memory_kills() > memory_kills_before;
        Ending::Died { stage, exit, memory_killed }
    }
}
