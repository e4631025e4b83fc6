//! From a plan and an open device to the end of a run; what `run` and `resume` share.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use protocol::ingest_api::{Attempt, create_run, put_manifest};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::say;
use super::session::Ready;
use crate::Error;
use crate::client::{Client, SendError};
use crate::compare::{ToleranceTable, compare_outputs};
use crate::device::{Profile, Slot};
use crate::dispatch::{self, Request, RunInput, RunOutcome};
use crate::event::{Ending, RunStarted};
use crate::event_sink::EventSink;
use crate::execute::{Comparer, Deadlines};
use crate::exit::Exit;
use crate::golden::Goldens;
use crate::journal::Journal;
use crate::plan::{self, PlannedCase};
use crate::report::console::{Console, Form};
use crate::report::file::{Closing, Reports};
use crate::run_dir::{Plan, RunDir};
use crate::slot::{Report, Shared, SlotRunner};
use crate::upload::{Delivery, RunState};
use crate::waivers::Waivers;

/// Requests that may wait.
const REQUEST_QUEUE: usize = 16;

/// A run that is about to be executed.
#[derive(Debug)]
pub(super) struct Start {
    /// Its folder, written.
    pub(super) run_dir: RunDir,
    /// What it is.
    pub(super) run: create_run::Request,
    /// Its plan.
    pub(super) plan: Plan,
    /// Its manifest.
    pub(super) manifest: put_manifest::Request,
    /// Attempts of an earlier process.
    pub(super) earlier: Vec<Attempt>,
    /// The open device.
    pub(super) ready: Ready,
    /// Where to send results.
    pub(super) client: Option<Client>,
    /// How its end is told.
    pub(super) form: Form,
}

impl Start {
    /// Executes it to its end.
    pub(super) async fn execute(self) -> Result<Exit, Error> {
        let _lock = self.run_dir.lock()?;
        let journal = Journal::open(&self.run_dir.journal())?;
        let exchange = Exchanges::create()?;
        let (request_sender, requests) = mpsc::channel(REQUEST_QUEUE);
        let signals = watch_signals(request_sender.clone())?;
        let upload = match self.client {
            None => None,
            Some(client) => {
                Some(Upload::begin(&self.run_dir, client, request_sender.clone()).await?)
            }
        };
        let (abandon_sender, abandon) = watch::channel(false);
        let settings = &self.plan.settings;
        let goldens = match &settings.goldens {
            Some(usage) => Some(Arc::new(Goldens::open(usage, &self.run, settings.seed)?)),
            None => None,
        };
        let shared = Shared {
            backend: Arc::new(self.ready.backend),
            deadlines: Deadlines {
                compile: Duration::from_secs(settings.compile_timeout),
                execute: Duration::from_secs(settings.execute_timeout),
            },
            comparer: comparer(),
            goldens,
            exchange: exchange.path().to_owned(),
            repros: self.run_dir.repros(),
            tensors: self.run_dir.tensors(),
            recycle_after: settings.recycle_after,
            recycle_growth_bytes: settings.recycle_growth_mib << 20,
            order_replays: settings.order_replays,
            seed: settings.seed,
            host_limited: self.ready.profile == Profile::TpuSim,
            abandon,
        };
        let backend = Arc::clone(&shared.backend);
        let slots = self.ready.slots;
        let mut first = Some((self.ready.worker, self.ready.probed));
        let waivers = Arc::new(self.run_dir.waivers()?);
        let input = input(&self.run_dir, self.run, self.plan, self.manifest, self.earlier, waivers);
        let make_slots = move |reports: mpsc::Sender<Report>| {
            let runner = |slot: Slot| {
                (slot.number, SlotRunner::new(slot, shared.clone(), reports.clone(), first.take()))
            };
            slots.into_iter().map(runner).collect()
        };
        let reports = Reports::all(Console::new(self.form));
        let closing = reports.closing();
        let sink = EventSink::new(journal, vec![Box::new(reports)]);
        let (outcome, sink) =
            dispatch::run(input, make_slots, sink, abandon_sender, requests).await;
        backend.stop().await;
        signals.abort();
        let problems = sink.finish();
        for problem in &problems {
            say(&format!("error: a report could not be written: {problem}"));
        }
        let delivered = match upload {
            None => true,
            Some(upload) => upload.finish(&self.run_dir).await,
        };
        Ok(exit_of(&outcome, closing.get(), delivered && problems.is_empty()))
    }
}

/// The cases of this process, and the first event.
fn input(
    run_dir: &RunDir,
    run: create_run::Request,
    plan: Plan,
    manifest: put_manifest::Request,
    earlier: Vec<Attempt>,
    waivers: Arc<Waivers>,
) -> RunInput {
    let mut cases: Vec<PlannedCase> =
        plan.cases.iter().filter(|case| plan.holds(&case.key)).cloned().collect();
    let settings = plan.settings;
    let planned = cases.iter().map(|case| case.key.clone()).collect();
    if let Some(seed) = settings.shuffle {
        plan::shuffle(&mut cases, seed);
    }
    let started = RunStarted {
        run,
        manifest: Arc::new(manifest),
        planned: Arc::new(planned),
        already_done: 0,
        run_dir: run_dir.path().to_owned(),
        device_reason: settings.device_reason,
        repro_command: format!("runner repro {}", run_dir.name()),
        waivers,
    };
    RunInput { cases, earlier, retries: settings.retries, started }
}

/// Trouble wins over failures: it means that evidence is lacking.
fn exit_of(outcome: &RunOutcome, closing: Option<&Closing>, delivered: bool) -> Exit {
    let whole = match &outcome.ending {
        Ending::Finished => outcome.not_run == 0,
        Ending::Stopped { .. } | Ending::Aborted { .. } => false,
    };
    if !whole || !delivered {
        Exit::Trouble
    } else if closing.is_some_and(|closing| closing.failures == 0) {
        Exit::Success
    } else {
        Exit::SomeFailed
    }
}

fn comparer() -> Comparer {
    let table = ToleranceTable::embedded();
    Arc::new(move |set| compare_outputs(set, &table).map_err(|error| error.to_string()))
}

/// Turns SIGINT and SIGTERM into requests.
fn watch_signals(requests: mpsc::Sender<Request>) -> Result<JoinHandle<()>, Error> {
    let failed = |error| Error::file("watch", Path::new("signals"))(error);
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    Ok(tokio::spawn(async move {
        loop {
            let by = tokio::select! {
                _ = interrupt.recv() => "SIGINT",
                _ = terminate.recv() => "SIGTERM",
            };
            if requests.send(Request::Stop { by }).await.is_err() {
                return;
            }
        }
    }))
}

/// The delivery that goes on beside the run.
struct Upload {
    server: String,
    state: watch::Sender<RunState>,
    task: JoinHandle<(Delivery, Result<(), SendError>)>,
}

impl Upload {
    /// Announces the run and begins to follow its journal. A server that refuses or is away does
    /// not stop the run: results are on disk. It is said at once, and again at the end.
    async fn begin(
        run_dir: &RunDir,
        client: Client,
        notices: mpsc::Sender<Request>,
    ) -> Result<Self, Error> {
        let server = client.base().to_owned();
        let mut delivery = Delivery::open(run_dir, client, Some(notices))?;
        let announced = delivery.announce().await;
        let (state, following) = watch::channel(RunState::Going);
        if let Err(error) = &announced {
            let error = error.clone().into_error(&server);
            say(&format!("warning: {error}\n\nhint: {}\n", error.hint()));
        }
        let task = tokio::spawn(async move {
            if let Err(refused @ SendError::Refused { .. }) = announced {
                return (delivery, Err(refused));
            }
            let result = delivery.deliver(following).await;
            (delivery, result)
        });
        Ok(Self { server, state, task })
    }

    /// The run has ended: sends the rest. Says where the results are, and whether all of them were
    /// delivered.
    async fn finish(self, run_dir: &RunDir) -> bool {
        self.state.send_replace(RunState::Ended);
        let ended = tokio::select! {
            ended = self.task => ended,
            // Ctrl-C while the server is waited for: the results are on disk.
            _ = tokio::signal::ctrl_c() => return Self::not_delivered(run_dir, "interrupted"),
        };
        match ended {
            Ok((delivery, Ok(()))) => {
                if let Some(text) = delivery.files_not_sent() {
                    say(&text);
                }
                say(&format!("server  {}{}", self.server, delivery.progress().page));
                true
            }
            Ok((_, Err(error))) => {
                Self::not_delivered(run_dir, &error.into_error(&self.server).to_string())
            }
            Err(panic) => Self::not_delivered(run_dir, &panic.to_string()),
        }
    }

    fn not_delivered(run_dir: &RunDir, why: &str) -> bool {
        say(&format!(
            "error: results were not all delivered: {why}\n\nhint: they are on disk; `runner push \
             {}` sends them",
            run_dir.name()
        ));
        false
    }
}

/// The folder below which each case gets its folder for tensors; on tmpfs where there is one.
struct Exchanges(tempfile::TempDir);

impl Exchanges {
    const PREFIX: &'static str = "conformance-exchange-";

    fn create() -> Result<Self, Error> {
        let parent = Some(PathBuf::from("/dev/shm")).filter(|path| path.is_dir());
        let parent = parent.unwrap_or_else(std::env::temp_dir);
        Self::remove_stale(&parent);
        let prefix = format!("{}{}-", Self::PREFIX, std::process::id());
        let folder = tempfile::Builder::new()
            .prefix(&prefix)
            .tempdir_in(&parent)
            .map_err(Error::file("write", &parent))?;
        Ok(Self(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// A runner that was killed could not remove its own; memory would stay taken for ever.
    fn remove_stale(parent: &Path) {
        let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            let owner = name
                .strip_prefix(Self::PREFIX)
                .and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
            if owner.is_some_and(|pid| !crate::worker::process::is_running(pid)) {
                // Another user's cannot be removed, and is not ours to.
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }
}
