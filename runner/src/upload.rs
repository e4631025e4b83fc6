//! Delivers a run to a server from its journal, while the run goes on or any time later.
//!
//! The journal is the spool: what was acknowledged is a place in it, kept in `upload.json`. Sending
//! a record twice changes nothing, so the place may lag behind and never lies ahead. The files of
//! failing attempts follow the results, with a place of their own.

mod files;

use std::fs::File;
use std::time::Duration;

use chrono::{DateTime, Utc};
use protocol::ingest_api::{
    Attempt, MAX_BATCH_RESULTS, MAX_BODY_BYTES, Source, create_run, post_results, seal_run,
};
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, watch};

use crate::Error;
use crate::client::{Client, SendError, pause_before};
use crate::dispatch::Request;
use crate::event::Event;
use crate::journal::{Reader, Record};
use crate::run_dir::RunDir;
use files::Files;

/// How often the journal is looked at while the run goes on.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(300);
/// How long sending is tried again once the run is over.
const PATIENCE: Duration = Duration::from_secs(20);

/// How far a run has been delivered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Address of the server.
    pub server: String,
    /// Random name of the journal, by which servers tell two runners of one run apart.
    #[serde(default)]
    pub journal: String,
    /// Whether it knows the run and its plan.
    pub announced: bool,
    /// Path of the run's page there.
    pub page: String,
    /// End of the last acknowledged record in the journal.
    pub acknowledged_bytes: u64,
    /// Attempts acknowledged.
    pub attempts: u64,
    /// End of the last record in the journal whose files were sent.
    #[serde(default)]
    pub files_bytes: u64,
    /// Whether it was told that nothing more comes.
    pub sealed: bool,
}

/// What a delivery is told of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// More records will come.
    Going,
    /// The journal is whole; seal.
    Ended,
}

/// A delivery of one run to one server.
#[derive(Debug)]
pub struct Delivery {
    client: Client,
    run_dir: RunDir,
    run: create_run::Request,
    source: Source,
    progress: Progress,
    files: Files,
    notices: Option<mpsc::Sender<Request>>,
}

const FILE: &str = "upload.json";

impl Delivery {
    /// Goes on where an earlier delivery to the same server stopped. `notices` takes what a person
    /// should hear while a run goes on.
    pub fn open(
        run_dir: &RunDir,
        client: Client,
        notices: Option<mpsc::Sender<Request>>,
    ) -> Result<Self, Error> {
        let kept: Option<Progress> = progress(run_dir);
        let server = client.base().to_owned();
        // The name stays with the journal, whatever server it is sent to.
        let journal = kept
            .as_ref()
            .map(|progress| progress.journal.clone())
            .filter(|journal| !journal.is_empty())
            .unwrap_or_else(|| format!("{:016x}", rand::random::<u64>()));
        let progress = kept
            .filter(|progress| progress.server == server)
            .unwrap_or_else(|| Progress { server, ..Progress::default() });
        let progress = Progress { journal, ..progress };
        let shard = run_dir.plan()?.settings.shard;
        let source = Source {
            journal: progress.journal.clone(),
            shard: shard.map_or(1, |shard| shard.index),
            shards: shard.map_or(1, |shard| shard.total),
        };
        let run = run_dir.run()?;
        let (run_dir, files) = (run_dir.clone(), Files::default());
        Ok(Self { client, run, source, run_dir, progress, files, notices })
    }

    /// How far it is.
    #[must_use]
    pub const fn progress(&self) -> &Progress {
        &self.progress
    }

    /// What a person should hear of files that the server does not have.
    #[must_use]
    pub fn files_not_sent(&self) -> Option<String> {
        self.files.tell(self.run_dir.path())
    }

    /// Announces the run and its plan; one try, so that a wrong address or token is known before
    /// the first case.
    pub async fn announce(&mut self) -> Result<(), SendError> {
        if self.progress.announced {
            return Ok(());
        }
        let created = self.client.create_run(&self.run).await?;
        let manifest = self.run_dir.manifest().map_err(local)?;
        self.client.put_manifest(&self.run.run_key, &manifest).await?;
        if let Some(inventory) = self.run_dir.inventory().map_err(local)? {
            match self.client.put_inventory(&self.run.run_key, &inventory).await {
                // A server without a place for it takes the results all the same.
                Ok(_) | Err(SendError::Refused { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.progress.page = created.page;
        self.progress.announced = true;
        self.keep_progress()
    }

    /// Sends what the journal holds, and what it will hold until the run has ended, then seals.
    /// While the run goes on, lack of a server is waited out; afterwards only for a while.
    pub async fn deliver(&mut self, mut state: watch::Receiver<RunState>) -> Result<(), SendError> {
        let mut failing_since = None;
        let mut tries = 0;
        loop {
            // Read the state first: a record appended before the end is then surely seen.
            let ended = *state.borrow_and_update() == RunState::Ended;
            match self.send_next().await {
                Ok(true) => {
                    if failing_since.take().is_some() {
                        self.notice("the server takes results again").await;
                    }
                    tries = 0;
                }
                Ok(false) if ended => return self.seal().await,
                Ok(false) => {
                    let _ = tokio::time::timeout(FOLLOW_INTERVAL, state.changed()).await;
                }
                Err(SendError::Transient { message, retry_after }) => {
                    let now = tokio::time::Instant::now();
                    if failing_since.is_none() {
                        failing_since = Some(now);
                        let text = format!("sending results waits: {message}; they stay on disk");
                        self.notice(&text).await;
                    }
                    let patience_over = failing_since.is_some_and(|since| now > since + PATIENCE);
                    if ended && (patience_over || tries > 3) {
                        return Err(SendError::Transient { message, retry_after });
                    }
                    let pause = tokio::time::sleep(pause_before(tries, retry_after));
                    tokio::select! {
                        () = pause => {}
                        _ = state.changed(), if !ended => {}
                    }
                    tries += 1;
                }
                Err(refused @ SendError::Refused { .. }) => return Err(refused),
            }
        }
    }

    /// Sends one batch, or the files of one. False when there is nothing to send at present.
    async fn send_next(&mut self) -> Result<bool, SendError> {
        self.announce().await?;
        let (results, offset) = self.next_batch(self.progress.acknowledged_bytes, u64::MAX)?;
        if results.is_empty() {
            self.progress.acknowledged_bytes = offset;
            return self.send_files().await;
        }
        let count = results.len() as u64;
        let batch = post_results::Request { source: Some(self.source.clone()), results };
        self.client.post_results(&self.run.run_key, &batch).await?;
        self.progress.acknowledged_bytes = offset;
        self.progress.attempts += count;
        self.keep_progress()?;
        Ok(true)
    }

    /// Sends the files of attempts that the server has.
    async fn send_files(&mut self) -> Result<bool, SendError> {
        let place = self.progress.files_bytes;
        if place >= self.progress.acknowledged_bytes {
            return Ok(false);
        }
        let (attempts, offset) = self.next_batch(place, self.progress.acknowledged_bytes)?;
        let (run, journal) = (&self.run.run_key, &self.source.journal);
        self.files.send(&self.client, &self.run_dir, run, journal, &attempts).await?;
        self.progress.files_bytes = offset;
        self.keep_progress()?;
        Ok(!attempts.is_empty())
    }

    /// Attempts in the journal between two places, as many as fit one batch, and where they end.
    fn next_batch(&self, place: u64, end: u64) -> Result<(Vec<Attempt>, u64), SendError> {
        let path = self.run_dir.journal();
        let file = File::open(&path).map_err(|error| local(Error::file("read", &path)(error)))?;
        let mut reader = Reader::new(file, place);
        let mut results = Vec::new();
        let (mut offset, mut bytes) = (reader.offset, 0);
        while results.len() < MAX_BATCH_RESULTS && offset < end {
            let record = reader.next_record();
            let record = record.map_err(|error| local(Error::file("read", &path)(error)))?;
            let Some(record) = record else { break };
            let length = reader.offset - offset;
            if let Record::Attempt(attempt) = record {
                bytes += length;
                // Room for the frame of the message.
                if bytes > MAX_BODY_BYTES as u64 - 1024 && !results.is_empty() {
                    break;
                }
                results.push(*attempt);
            }
            offset = reader.offset;
        }
        Ok((results, offset))
    }

    async fn seal(&mut self) -> Result<(), SendError> {
        if self.progress.sealed {
            return Ok(());
        }
        let mut tries = 0;
        loop {
            let finished_at = self.finished_at()?;
            let source = Some(self.source.clone());
            let attempts = self.progress.attempts;
            let request = seal_run::Request { source, attempts, finished_at };
            match self.client.seal_run(&self.run.run_key, &request).await {
                Ok(_) => {
                    self.progress.sealed = true;
                    return self.keep_progress();
                }
                // The server has fewer than we believe to have sent: send all of it again.
                Err(SendError::Refused { status: 409, .. }) if tries == 0 => {
                    self.progress.acknowledged_bytes = 0;
                    self.progress.attempts = 0;
                    self.progress.files_bytes = 0;
                    while self.send_next().await? {}
                }
                Err(SendError::Transient { retry_after, .. }) if tries < 4 => {
                    tokio::time::sleep(pause_before(tries, retry_after)).await;
                }
                Err(error) => return Err(error),
            }
            tries += 1;
        }
    }

    /// When the last attempt ended, by the journal: the same every time it is asked.
    fn finished_at(&self) -> Result<DateTime<Utc>, SendError> {
        let mut last = self.run.started_at;
        let see = |record| match record {
            Record::Ended { at, .. } => last = at,
            Record::Attempt(attempt) => {
                let length = Duration::try_from_secs_f64(attempt.seconds).unwrap_or_default();
                last = attempt.started_at + length;
            }
            Record::Started { .. } | Record::Finding { .. } => {}
        };
        crate::journal::scan(&self.run_dir.journal(), see).map_err(local)?;
        Ok(last)
    }

    fn keep_progress(&self) -> Result<(), SendError> {
        self.run_dir.write(FILE, &self.progress).map_err(local)
    }

    async fn notice(&self, text: &str) {
        if let Some(notices) = &self.notices {
            let event = Event::Finding { text: text.to_owned() };
            let _ = notices.send(Request::Tell(event)).await;
        }
    }
}

/// How far a run has been delivered, if any delivery was begun.
#[must_use]
pub fn progress(run_dir: &RunDir) -> Option<Progress> {
    run_dir.read(FILE).ok()
}

/// Trouble on our own side ends a delivery like a refusal.
fn local(error: Error) -> SendError {
    SendError::Refused { status: 0, message: error.to_string(), hint: error.hint() }
}
