//! Starts workers that have proved themselves, with bounded restarts.
//!
//! Owns the fork server and replaces it when it dies. A process that dies at every start must not
//! be started for ever: after a few tries, each later than the one before, the answer is no.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use protocol::worker_link::Probed;
use tokio::sync::Mutex;

use crate::worker::worker::ProbeError;
use crate::worker::{ForkServer, Launch, StartError, Worker};

/// Times that a fork server is started before the backend counts as unusable.
const MAX_STARTS: u32 = 3;
/// Pause before the second start; doubled each time. A driver needs a moment after a kill.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// A backend that has been imported.
#[derive(Debug)]
pub struct Backend {
    launch: Launch,
    limits: Limits,
    fork_server: Mutex<Arc<ForkServer>>,
}

/// What workers are held to.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most bytes of address space.
    pub address_space_bytes: Option<u64>,
    /// Times that a worker is started before its device counts as unusable; each start waits
    /// longer than the one before.
    pub starts: u32,
}

impl Backend {
    /// Imports it.
    pub async fn start(launch: Launch, limits: Limits) -> Result<Self, StartError> {
        let mut tries = 0;
        let fork_server = loop {
            tries += 1;
            match ForkServer::start(&launch).await {
                Ok(fork_server) => break fork_server,
                Err(error) if error.may_pass && tries < MAX_STARTS => pause(tries).await,
                Err(error) => return Err(error),
            }
        };
        Ok(Self { launch, limits, fork_server: Mutex::new(fork_server) })
    }

    /// Versions of what was imported, by name.
    pub async fn versions(&self) -> BTreeMap<String, String> {
        self.fork_server.lock().await.versions.clone()
    }

    /// Starts a worker without asking anything of the device.
    pub async fn worker(
        &self,
        environment: BTreeMap<String, String>,
    ) -> Result<Worker, StartError> {
        let fork_server = self.living_fork_server().await?;
        Worker::start(&fork_server, environment, self.limits.address_space_bytes).await
    }

    /// Starts a worker and has it execute a known-good operation; tries a few times.
    pub async fn proven_worker(
        &self,
        environment: BTreeMap<String, String>,
    ) -> Result<(Worker, Probed), StartError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let error = match self.worker(environment.clone()).await {
                Ok(mut worker) => match worker.probe().await {
                    Ok(probed) => return Ok((worker, probed)),
                    Err(error) => {
                        worker.kill(false).await;
                        let log = worker.log.path().display().to_string();
                        let died = matches!(error, ProbeError::Died(_));
                        let mut error = StartError::from(error);
                        if died {
                            error.hint = format!("the worker's log is `{log}`");
                        }
                        error
                    }
                },
                Err(error) => error,
            };
            if !error.may_pass || tries >= self.limits.starts {
                return Err(error);
            }
            pause(tries).await;
        }
    }

    /// Ends the fork server and every worker.
    pub async fn stop(&self) {
        self.fork_server.lock().await.stop().await;
    }

    async fn living_fork_server(&self) -> Result<Arc<ForkServer>, StartError> {
        let mut current = self.fork_server.lock().await;
        if current.has_ended() {
            let next = current.next_number();
            let fork_server = ForkServer::start(&self.launch).await?;
            fork_server.number_from(next);
            *current = fork_server;
        }
        Ok(Arc::clone(&current))
    }
}

async fn pause(tries: u32) {
    tokio::time::sleep(FIRST_PAUSE * 2_u32.saturating_pow(tries - 1)).await;
}
