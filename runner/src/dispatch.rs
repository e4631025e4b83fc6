//! The one loop that owns the state of a run.
//!
//! It gives cases to slots, turns what they report, signals and timers into events, decides on
//! retries, and ends the run. Nothing else knows what is still to be done. Executing a case is
//! [`crate::slot`]'s, what an attempt means is [`crate::outcome`]'s.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use protocol::CaseKey;
use protocol::ingest_api::Attempt;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::cross_mode;
use crate::event::{AttemptFinished, CaseResult, Ending, Event, PeakMemory, RunEnded, RunStarted};
use crate::event_sink::EventSink;
use crate::outcome::is_worth_another;
use crate::plan::PlannedCase;
use crate::share::Shares;
use crate::slot::{Assignment, Earlier, Report, SlotRunner};
use crate::worker::process;

/// How long cases in flight may go on after SIGTERM.
const TERM_GRACE: Duration = Duration::from_secs(10);
/// Reports that may wait; slots pause beyond it.
const REPORT_QUEUE: usize = 256;

/// What the outside asks of a run.
#[derive(Debug)]
pub enum Request {
    /// Start no new case; a second one abandons those in flight.
    Stop {
        /// `SIGINT`, `SIGTERM`.
        by: &'static str,
    },
    /// Tell everyone of this.
    Tell(Event),
}

/// What is to be run.
#[derive(Debug)]
pub struct RunInput {
    /// Cases of this process, in the order of execution.
    pub cases: Vec<PlannedCase>,
    /// Attempts that an earlier process made, in journal order.
    pub earlier: Vec<Attempt>,
    /// More attempts after an unexpected outcome.
    pub retries: u32,
    /// For the first event; its `already_done` is filled in here.
    pub started: RunStarted,
}

/// How a run came out.
#[derive(Debug)]
pub struct RunOutcome {
    /// How it ended.
    pub ending: Ending,
    /// Result of every case that has one.
    pub results: HashMap<CaseKey, CaseResult>,
    /// Cases without any attempt.
    pub not_run: u64,
}

/// A slot as the loop sees it.
struct SlotHandle {
    assign: mpsc::Sender<Assignment>,
    state: SlotState,
}

#[derive(PartialEq, Eq)]
enum SlotState {
    Idle,
    Busy,
    Drained,
}

struct Dispatcher {
    queue: VecDeque<Assignment>,
    shares: Shares,
    slots: HashMap<u32, SlotHandle>,
    retries: u32,
    results: HashMap<CaseKey, CaseResult>,
    planned: usize,
    sink: EventSink,
    abandon: watch::Sender<bool>,
    stopping: Option<Ending>,
    abandon_at: Option<tokio::time::Instant>,
    drain_reason: String,
    worker_peak_bytes: u64,
}

/// Executes a plan on the given slots and says how it came out. `slots` makes the runners of the
/// slots, given where they report; `abandon` is what they watch.
pub async fn run(
    input: RunInput,
    slots: impl FnOnce(mpsc::Sender<Report>) -> Vec<(u32, SlotRunner)>,
    sink: EventSink,
    abandon: watch::Sender<bool>,
    mut requests: mpsc::Receiver<Request>,
) -> (RunOutcome, EventSink) {
    let (report_sender, mut reports) = mpsc::channel(REPORT_QUEUE);
    let mut tasks = JoinSet::new();
    let mut handles = HashMap::new();
    for (number, runner) in slots(report_sender) {
        let (assign, assignments) = mpsc::channel(1);
        handles.insert(number, SlotHandle { assign, state: SlotState::Idle });
        tasks.spawn(runner.run(assignments));
    }
    let mut dispatcher = Dispatcher::new(input.cases.len(), input.retries, handles, sink, abandon);
    dispatcher.begin(input);
    while dispatcher.assign() {
        let abandon_at = dispatcher.abandon_at;
        tokio::select! {
            Some(report) = reports.recv() => dispatcher.take(report),
            Some(request) = requests.recv() => dispatcher.heed(request),
            () = sleep_until(abandon_at), if abandon_at.is_some() => dispatcher.abandon(),
        }
    }
    dispatcher.slots.clear();
    // The workers leave now; how they leave is still news. A second signal cuts that short.
    while !tasks.is_empty() || !reports.is_empty() {
        tokio::select! {
            Some(report) = reports.recv() => dispatcher.take(report),
            _ = tasks.join_next(), if !tasks.is_empty() => {}
            Some(request) = requests.recv() => dispatcher.heed(request),
        }
    }
    dispatcher.end()
}

async fn sleep_until(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

impl Dispatcher {
    fn new(
        planned: usize,
        retries: u32,
        slots: HashMap<u32, SlotHandle>,
        sink: EventSink,
        abandon: watch::Sender<bool>,
    ) -> Self {
        Self {
            queue: VecDeque::new(),
            shares: Shares::default(),
            slots,
            retries,
            results: HashMap::new(),
            planned,
            sink,
            abandon,
            stopping: None,
            abandon_at: None,
            drain_reason: String::new(),
            worker_peak_bytes: 0,
        }
    }

    /// Fills the queue with what has no final attempt yet, and tells of the rest.
    fn begin(&mut self, input: RunInput) {
        let mut earlier: HashMap<CaseKey, Vec<Arc<Attempt>>> = HashMap::new();
        for attempt in input.earlier {
            earlier.entry(attempt.case.clone()).or_default().push(Arc::new(attempt));
        }
        let mut done = Vec::new();
        let mut open = Vec::new();
        for (index, case) in input.cases.into_iter().enumerate() {
            let attempts = earlier.remove(&case.key).unwrap_or_default();
            let retrying = attempts.last().is_none_or(|last| self.wants_retry(last));
            let made = u32::try_from(attempts.len()).unwrap_or(u32::MAX);
            let case = Arc::new(case);
            if !retrying && attempts.iter().all(|attempt| attempt.evidence.executed_as.is_none()) {
                self.shares.executes(&case);
            }
            done.extend(attempts.into_iter().map(|attempt| (attempt, retrying)));
            if retrying {
                let (attempt, fresh) = (made + 1, made > 0);
                open.push(Assignment { index, case, attempt, fresh, earlier: None });
            }
        }
        let already_done = self.planned - open.len();
        for assignment in open {
            self.enqueue(assignment);
        }
        let started = RunStarted { already_done, ..input.started };
        self.emit(Event::RunStarted(Arc::new(started)));
        for (attempt, retrying) in &done {
            self.note_result(attempt);
            let told = AttemptFinished { attempt: Arc::clone(attempt), retrying: *retrying };
            self.sink.show(&Event::AttemptFinished(told));
        }
        // An earlier process may have ended between an execution and those that share it.
        for (at, (attempt, retrying)) in done.iter().enumerate() {
            let follows = done.get(at + 1).is_some_and(|(next, _)| next.case == attempt.case);
            self.settle(attempt, !follows && !retrying);
        }
    }

    /// Queues the case, or lets it wait for one that is executed for it too. One of which attempts
    /// were made already goes its own way.
    fn enqueue(&mut self, assignment: Assignment) {
        let is_first = assignment.attempt == 1;
        let open = if is_first { self.shares.wait(assignment) } else { Some(assignment) };
        if let Some(assignment) = open {
            self.shares.executes(&assignment.case);
            self.queue.push_back(assignment);
        }
    }

    /// Gives those that waited for this case what they waited for.
    fn settle(&mut self, attempt: &Arc<Attempt>, last: bool) {
        let settled = self.shares.settle(attempt, last);
        self.queue.extend(settled.to_execute);
        for (attempt, retrying) in settled.attempts {
            self.note_result(&attempt);
            self.emit(Event::AttemptFinished(AttemptFinished { attempt, retrying }));
        }
    }

    /// Gives cases to idle slots. False when the run is over.
    fn assign(&mut self) -> bool {
        if self.stopping.is_none() {
            for slot in self.slots.values_mut().filter(|slot| slot.state == SlotState::Idle) {
                let Some(assignment) = self.queue.pop_front() else { break };
                match slot.assign.try_send(assignment) {
                    Ok(()) => slot.state = SlotState::Busy,
                    // A slot whose task has ended takes nothing more; that is a bug of ours, and
                    // the case is not to suffer from it.
                    Err(error) => {
                        slot.state = SlotState::Drained;
                        self.queue.push_front(error.into_inner());
                    }
                }
            }
        }
        let busy = self.slots.values().any(|slot| slot.state == SlotState::Busy);
        let usable = self.slots.values().any(|slot| slot.state != SlotState::Drained);
        if !busy && !usable && !self.queue.is_empty() && self.stopping.is_none() {
            let reason = format!("no device is left: {}", self.drain_reason);
            self.stopping = Some(Ending::Aborted { reason });
        }
        busy || (self.stopping.is_none() && !self.queue.is_empty())
    }

    fn take(&mut self, report: Report) {
        match report {
            Report::Event(event) => {
                if let Event::WorkerEnded { peak_bytes, .. } = &event {
                    self.worker_peak_bytes = self.worker_peak_bytes.max(*peak_bytes);
                }
                self.emit(event);
            }
            Report::Finished { slot, assignment, attempt, earlier } => {
                self.set_idle(slot);
                self.finish_attempt(assignment, *attempt, earlier);
            }
            Report::Abandoned { slot } => self.set_idle(slot),
            Report::Drained { slot, assignment, reason } => {
                if let Some(slot) = self.slots.get_mut(&slot) {
                    slot.state = SlotState::Drained;
                }
                self.queue.push_front(assignment);
                self.drain_reason.clone_from(&reason);
                self.emit(Event::SlotDrained { slot, reason });
            }
        }
    }

    fn finish_attempt(&mut self, assignment: Assignment, attempt: Attempt, earlier: Box<Earlier>) {
        let retrying = self.wants_retry(&attempt);
        self.note_result(&attempt);
        let attempt = Arc::new(attempt);
        let told = AttemptFinished { attempt: Arc::clone(&attempt), retrying };
        self.emit(Event::AttemptFinished(told));
        self.settle(&attempt, !retrying);
        if retrying {
            self.queue.push_front(Assignment {
                attempt: assignment.attempt + 1,
                fresh: true,
                earlier: Some(earlier),
                ..assignment
            });
        }
    }

    fn wants_retry(&self, attempt: &Attempt) -> bool {
        is_worth_another(attempt) && attempt.attempt <= self.retries
    }

    fn note_result(&mut self, attempt: &Attempt) {
        let before = self.results.get(&attempt.case).copied();
        let result = before
            .map_or(CaseResult::Steady(attempt.outcome), |before| before.and(attempt.outcome));
        self.results.insert(attempt.case.clone(), result);
    }

    fn set_idle(&mut self, slot: u32) {
        if let Some(slot) = self.slots.get_mut(&slot) {
            slot.state = SlotState::Idle;
        }
    }

    fn heed(&mut self, request: Request) {
        match request {
            Request::Tell(event) => self.emit(event),
            Request::Stop { .. } if self.stopping.is_some() => self.abandon(),
            Request::Stop { by } => {
                if by == "SIGTERM" {
                    self.abandon_at = Some(tokio::time::Instant::now() + TERM_GRACE);
                }
                self.stopping = Some(Ending::Stopped { by: by.to_owned() });
                self.emit(Event::StopRequested { by: by.to_owned() });
            }
        }
    }

    fn abandon(&mut self) {
        self.abandon_at = None;
        self.abandon.send_replace(true);
    }

    /// Journals and shows an event. Without a journal there is no run: it is aborted.
    fn emit(&mut self, event: Event) {
        let Err(error) = self.sink.emit(&event) else { return };
        let aborted = matches!(self.stopping, Some(Ending::Aborted { .. }));
        if !aborted {
            let hint = error.hint();
            let hint = if hint.is_empty() { String::new() } else { format!("; {hint}") };
            self.stopping = Some(Ending::Aborted { reason: format!("{error}{hint}") });
            self.abandon();
        }
    }

    fn end(mut self) -> (RunOutcome, EventSink) {
        for text in cross_mode::findings(&self.results) {
            self.emit(Event::Finding { text });
        }
        let not_run = self.planned.saturating_sub(self.results.len()) as u64;
        let ending = self.stopping.take().unwrap_or(Ending::Finished);
        let finished_at = Utc::now();
        let runner_bytes = process::peak_resident_bytes(std::process::id());
        let peak_memory = runner_bytes
            .map(|runner_bytes| PeakMemory { runner_bytes, worker_bytes: self.worker_peak_bytes });
        let ended = RunEnded { finished_at, ending: ending.clone(), not_run, peak_memory };
        let event = Event::RunEnded(ended);
        self.stopping = Some(ending);
        self.emit(event);
        let ending = self.stopping.unwrap_or(Ending::Finished);
        (RunOutcome { ending, results: self.results, not_run }, self.sink)
    }
}
