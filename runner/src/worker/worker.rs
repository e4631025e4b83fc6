//! One forked Python process with a link of its own.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use protocol::inventory::Inventory;
use protocol::worker_link::{FromWorker, LINK_VERSION, Probed, ToWorker};
use tokio::sync::watch;
use tokio::time::Instant;

use super::breadcrumb::BreadcrumbFile;
use super::fork_server::{Exit, ForkServer, StartError, WorkerLog};
use super::link::{self, ReceiveError};
use super::process;

/// How long a forked process may take to say hello.
const HELLO_LIMIT: Duration = Duration::from_secs(60);
/// How long the known-good operation may take; a TPU host compiles its first program in it.
const PROBE_LIMIT: Duration = Duration::from_secs(180);
/// How long a worker may take to leave when it is asked to.
const LEAVE_LIMIT: Duration = Duration::from_secs(10);
/// How long a message of a process that has ended may take to come out of its socket.
const LAST_WORDS_LIMIT: Duration = Duration::from_millis(200);
/// How long the news of a death may take after the link has closed.
const REAP_LIMIT: Duration = Duration::from_secs(5);

/// Class of the worker's own error for a device that is not there.
const DEVICE_ABSENT: &str = "DeviceUnavailableError";

/// A worker process.
#[derive(Debug)]
pub struct Worker {
    /// Number, unique in the run.
    pub number: u32,
    /// Process id, also its process group.
    pub pid: u32,
    /// File with its stdout and stderr.
    pub log: WorkerLog,
    /// The operators that it is inside of, where they are kept.
    pub breadcrumb: Option<BreadcrumbFile>,
    sender: link::Sender,
    receiver: link::Receiver,
    exit: watch::Receiver<Option<Exit>>,
    /// Set once its end is known: until when what it sent before may still come out.
    last_words_until: Option<Instant>,
}

/// Why a probe did not succeed.
#[derive(Debug, Clone)]
pub enum ProbeError {
    /// The worker answered that the device does not work.
    Failed {
        /// What to show.
        message: String,
        /// What to do next, may be empty.
        hint: String,
        /// Whether the device is not there at all, which trying again does not change.
        absent: bool,
    },
    /// It died, hung, or talked rubbish.
    Died(String),
}

impl std::fmt::Display for ProbeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Failed { message, .. } | Self::Died(message) => f.write_str(message),
        }
    }
}

impl Worker {
    /// Forks one and waits for its hello.
    pub async fn start(
        fork_server: &ForkServer,
        environment: BTreeMap<String, String>,
        address_space_bytes: Option<u64>,
    ) -> Result<Self, StartError> {
        let forked = fork_server.fork(environment, address_space_bytes).await?;
        let mut exit = forked.exit.clone();
        let hello = async {
            let (stream, _) =
                forked.listener.accept().await.map_err(|e| StartError::passing(e.to_string()))?;
            let (sender, mut receiver) = link::split(stream);
            match receiver.receive::<FromWorker>().await {
                Ok(FromWorker::Hello { link_version: LINK_VERSION, .. }) => Ok((sender, receiver)),
                Ok(other) => Err(StartError::passing(format!("no hello but {other:?}"))),
                Err(error) => Err(StartError::passing(error.to_string())),
            }
        };
        let result = tokio::select! {
            hello = tokio::time::timeout(HELLO_LIMIT, hello) => hello
                .unwrap_or_else(|_| Err(StartError::passing("it did not say hello".to_owned()))),
            _ = exit.wait_for(Option::is_some) => {
                Err(StartError::passing("it ended before it said hello".to_owned()))
            }
        };
        match result {
            Ok((sender, receiver)) => {
                // It has opened the file by now, or never will.
                forked.breadcrumb.iter().for_each(BreadcrumbFile::hide);
                Ok(Self {
                    number: forked.number,
                    pid: forked.pid,
                    log: forked.log,
                    breadcrumb: forked.breadcrumb.filter(BreadcrumbFile::is_in_use),
                    sender,
                    receiver,
                    exit: forked.exit,
                    last_words_until: None,
                })
            }
            Err(mut error) => {
                process::end_tree(forked.pid, false).await;
                error.message = format!("worker {} did not start: {error}", forked.number);
                error.hint = format!("its log is `{}`", forked.log.path().display());
                Err(error)
            }
        }
    }

    /// Sends one message; an error means that the process is gone or going.
    pub async fn send(&mut self, message: &ToWorker) -> Result<(), std::io::Error> {
        self.sender.send(message).await
    }

    /// Waits for its next message, or for its end. Cancelling loses nothing.
    ///
    /// The end of the link is no sure sign of that: a child that the worker left may hold the
    /// socket open. So the fork server's word counts too.
    pub async fn receive(&mut self) -> Result<FromWorker, ReceiveError> {
        let until = match self.last_words_until {
            Some(until) => until,
            None => {
                tokio::select! {
                    biased;
                    message = self.receiver.receive() => return message,
                    _ = self.exit.wait_for(Option::is_some) => {}
                }
                // Kept beyond this call: callers cancel it to look at other things, and a wait that
                // began anew each time would never end.
                *self.last_words_until.insert(Instant::now() + LAST_WORDS_LIMIT)
            }
        };
        // What it sent before it ended is still in the socket.
        let rest = tokio::time::timeout_at(until, self.receiver.receive()).await;
        rest.unwrap_or(Err(ReceiveError::Closed))
    }

    /// Opens the device and executes one known-good operation.
    pub async fn probe(&mut self) -> Result<Probed, ProbeError> {
        if self.send(&ToWorker::Probe).await.is_err() {
            return Err(ProbeError::Died(self.describe_death().await));
        }
        match tokio::time::timeout(PROBE_LIMIT, self.receive()).await {
            Ok(Ok(FromWorker::Probed(probed))) => Ok(probed),
            Ok(Ok(FromWorker::ProbeFailed { error_class, message, hint })) => {
                let absent = error_class == DEVICE_ABSENT;
                let message = if absent { message } else { format!("{error_class}: {message}") };
                Err(ProbeError::Failed { message, hint, absent })
            }
            Ok(Ok(other)) => Err(ProbeError::Died(format!("the probe was answered by {other:?}"))),
            Ok(Err(ReceiveError::Closed)) => Err(ProbeError::Died(self.describe_death().await)),
            Ok(Err(ReceiveError::Garbage(error))) => Err(ProbeError::Died(error.to_string())),
            Err(_) => Err(ProbeError::Died(format!(
                "the known-good operation took longer than {} s",
                PROBE_LIMIT.as_secs()
            ))),
        }
    }

    /// Opens the device and asks which overloads have which kernels.
    pub async fn inventory(&mut self) -> Result<Inventory, String> {
        if self.send(&ToWorker::TakeInventory).await.is_err() {
            return Err(self.describe_death().await);
        }
        match tokio::time::timeout(PROBE_LIMIT, self.receive()).await {
            Ok(Ok(FromWorker::Inventory(inventory))) => Ok(inventory),
            Ok(Ok(FromWorker::ProbeFailed { error_class, message, .. })) => {
                Err(format!("{error_class}: {message}"))
            }
            Ok(Ok(_)) => Err("the worker gave another answer".to_owned()),
            Ok(Err(ReceiveError::Closed)) => Err(self.describe_death().await),
            Ok(Err(ReceiveError::Garbage(error))) => Err(error.to_string()),
            Err(_) => Err(format!("no answer within {} s", PROBE_LIMIT.as_secs())),
        }
    }

    /// How it ended, once its link has closed. Ends it first where only the link closed.
    pub async fn exit(&mut self) -> Exit {
        let wait = |exit: &watch::Receiver<Option<Exit>>| {
            let mut exit = exit.clone();
            async move { exit.wait_for(Option::is_some).await.ok().and_then(|exit| *exit) }
        };
        if let Ok(Some(exit)) = tokio::time::timeout(REAP_LIMIT, wait(&self.exit)).await {
            return exit;
        }
        process::end_tree(self.pid, false).await;
        let exit = tokio::time::timeout(REAP_LIMIT, wait(&self.exit)).await;
        exit.ok().flatten().unwrap_or_default()
    }

    /// Ends it by the kill ladder: politely (stack dump, SIGTERM) first, or at once.
    pub async fn kill(&mut self, polite: bool) -> Exit {
        // Once it has been reaped its number may be someone else's.
        let reaped = *self.exit.borrow();
        if let Some(exit) = reaped {
            return exit;
        }
        process::end_tree(self.pid, polite).await;
        self.exit().await
    }

    /// Asks it to leave. `Some` names what went wrong while it left: a crash in teardown.
    pub async fn leave(mut self) -> Option<String> {
        let asked = self.send(&ToWorker::Stop).await;
        let mut exit = self.exit.clone();
        let left = async { exit.wait_for(Option::is_some).await.map(|exit| *exit) };
        let left = tokio::time::timeout(LEAVE_LIMIT, left).await;
        match left {
            Ok(Ok(exit)) => {
                let exit = exit.unwrap_or_default();
                match (exit.signal, exit.exit_code) {
                    (Some(signal), _) => Some(format!("ended by {}", process::signal_name(signal))),
                    (None, Some(0) | None) => None,
                    (None, Some(code)) => Some(format!("exited with code {code}")),
                }
            }
            Ok(Err(_)) => None,
            Err(_) => {
                self.kill(true).await;
                let what = if asked.is_ok() { "did not leave" } else { "did not listen" };
                Some(format!("{what} within {} s and was killed", LEAVE_LIMIT.as_secs()))
            }
        }
    }

    /// Last lines of its log, for a message.
    #[must_use]
    pub fn last_words(&self) -> String {
        last_words(&self.log.path())
    }

    /// How it ended, with its last words, for a message.
    pub async fn describe_death(&mut self) -> String {
        let exit = self.exit().await;
        let how = match (exit.signal, exit.exit_code) {
            (Some(signal), _) => {
                format!("the worker was ended by {}", process::signal_name(signal))
            }
            (None, Some(code)) => format!("the worker exited with code {code}"),
            (None, None) => "the worker is gone".to_owned(),
        };
        let words = self.last_words();
        if words.is_empty() { how } else { format!("{how}; its last words: {words}") }
    }
}

fn last_words(log: &Path) -> String {
    let Ok(text) = std::fs::read(log) else { return String::new() };
    let text = String::from_utf8_lossy(&text[text.len().saturating_sub(2000)..]).into_owned();
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines.drain(..lines.len().saturating_sub(2));
    lines.join(" | ")
}
