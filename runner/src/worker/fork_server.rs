//! The Python process that has imported torch and the backend once and forks workers on demand.
//!
//! Owns its start, its death and the conversation with it. Several slots share one.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use protocol::worker_link::{FromForkServer, LINK_VERSION, ToForkServer};
use tokio::net::UnixListener;
use tokio::process::{Child, Command};
use tokio::sync::{oneshot, watch};

use super::breadcrumb::{self, BreadcrumbFile};
use super::link::{self, ReceiveError};
use super::process;
use super::stray::{self, Token};

/// How long importing may take. A cold page cache and a shared disk make minutes of it.
const IMPORT_LIMIT: Duration = Duration::from_secs(300);
/// How long a fork may take.
const FORK_LIMIT: Duration = Duration::from_secs(60);

/// What is started, and how.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The Python program.
    pub python: PathBuf,
    /// Folder that holds the worker package; becomes `PYTHONPATH`.
    pub package: PathBuf,
    /// Device profile, as the worker package knows it.
    pub profile: String,
    /// Environment that must be there before anything is imported.
    pub environment: BTreeMap<String, String>,
    /// Folder for logs.
    pub logs: LogFolder,
    /// Folder below which the private folder with the sockets is made.
    pub socket_directory: PathBuf,
}

/// The folder for logs, which moves once: when the run that it belongs to has got its name.
#[derive(Debug, Clone)]
pub struct LogFolder(Arc<Mutex<PathBuf>>);

impl LogFolder {
    /// A folder.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self(Arc::new(Mutex::new(folder)))
    }

    /// Where it is now.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.0.lock().expect("no holder panics").clone()
    }

    /// It has been moved.
    pub fn moved_to(&self, folder: PathBuf) {
        *self.0.lock().expect("no holder panics") = folder;
    }
}

/// Why there is no fork server, or no worker.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct StartError {
    /// What happened, naming the thing.
    pub message: String,
    /// What to do next, may be empty.
    pub hint: String,
    /// Whether trying again can help: a process that died may live the next time, a module that
    /// is missing stays missing.
    pub may_pass: bool,
}

impl StartError {
    fn final_(message: String, hint: String) -> Self {
        Self { message, hint, may_pass: false }
    }

    pub(super) fn passing(message: String) -> Self {
        Self { message, hint: String::new(), may_pass: true }
    }
}

/// How a worker ended, as the fork server that reaped it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Exit {
    /// Exit code, when it exited by itself.
    pub exit_code: Option<i32>,
    /// Signal, when one ended it.
    pub signal: Option<i32>,
}

/// A running fork server.
#[derive(Debug)]
pub struct ForkServer {
    /// What was imported, by name.
    pub versions: BTreeMap<String, String>,
    pid: u32,
    sender: tokio::sync::Mutex<link::Sender>,
    workers: Arc<Mutex<Workers>>,
    ended: watch::Receiver<bool>,
    sockets: tempfile::TempDir,
    logs: LogFolder,
}

#[derive(Debug, Default)]
struct Workers {
    next: u32,
    starting: HashMap<u32, oneshot::Sender<u32>>,
    living: HashMap<u32, watch::Sender<Option<Exit>>>,
}

/// File with the output of one worker.
#[derive(Debug, Clone)]
pub struct WorkerLog {
    folder: LogFolder,
    name: String,
}

impl WorkerLog {
    /// Where it is now.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.folder.path().join(&self.name)
    }
}

/// What is needed to make a [`super::Worker`] of a forked process.
#[derive(Debug)]
pub(super) struct Forked {
    pub(super) number: u32,
    pub(super) pid: u32,
    pub(super) listener: UnixListener,
    pub(super) log: WorkerLog,
    pub(super) breadcrumb: Option<BreadcrumbFile>,
    pub(super) exit: watch::Receiver<Option<Exit>>,
}

impl ForkServer {
    /// Starts it and waits until everything is imported.
    pub async fn start(launch: &Launch) -> Result<Arc<Self>, StartError> {
        let sockets = private_folder(&launch.socket_directory)?;
        let socket = sockets.path().join("f");
        let listener = UnixListener::bind(&socket).map_err(|error| {
            StartError::final_(
                format!("cannot listen on `{}`: {error}", socket.display()),
                String::new(),
            )
        })?;
        let log = launch.logs.path().join("fork-server.log");
        let token = Token::new();
        let mut child = spawn(launch, &socket, &log, &token)?;
        let pid = child.id().unwrap_or(0);
        stray::note_fork_server(pid, true);
        let greeting = tokio::time::timeout(IMPORT_LIMIT, greet(&listener, &mut child)).await;
        let result = match greeting {
            Err(_) => Err(StartError::passing(format!(
                "importing took longer than {} s",
                IMPORT_LIMIT.as_secs()
            ))),
            Ok(greeting) => greeting,
        };
        let (sender, receiver, versions) = match result {
            Ok(parts) => parts,
            Err(error) => {
                process::end_tree(pid, false).await;
                let _ = child.wait().await;
                stray::note_fork_server(pid, false);
                stray::end_strays(&token).await;
                return Err(with_log(error, &log));
            }
        };
        let workers = Arc::new(Mutex::new(Workers { next: 1, ..Workers::default() }));
        let (ended_sender, ended) = watch::channel(false);
        tokio::spawn(listen(receiver, child, token, Arc::clone(&workers), ended_sender));
        Ok(Arc::new(Self {
            versions,
            pid,
            sender: tokio::sync::Mutex::new(sender),
            workers,
            ended,
            sockets,
            logs: launch.logs.clone(),
        }))
    }

    /// Its process id.
    #[must_use]
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it has ended, and every worker with it.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }

    /// Forks a worker and waits for its process id.
    pub(super) async fn fork(
        &self,
        mut environment: BTreeMap<String, String>,
        address_space_bytes: Option<u64>,
    ) -> Result<Forked, StartError> {
        let (number, spawned, exit) = self.register();
        let socket = self.sockets.path().join(format!("w{number}"));
        let listener = UnixListener::bind(&socket).map_err(|error| {
            StartError::passing(format!("cannot listen on `{}`: {error}", socket.display()))
        })?;
        let log_name = format!("worker-{number}.log");
        let log = self.logs.path().join(&log_name);
        // Without room for it there is none; a rerun names the operator of a crash then.
        let breadcrumb =
            BreadcrumbFile::create(self.sockets.path().join(format!("w{number}.crumbs"))).ok();
        if let Some(file) = &breadcrumb {
            let path = file.path().display().to_string();
            environment.insert(breadcrumb::FILE_VARIABLE.to_owned(), path);
        }
        let message = ToForkServer::Spawn {
            worker: number,
            link: socket.display().to_string(),
            log: log.display().to_string(),
            environment,
            address_space_bytes,
        };
        let gone = || StartError::passing("the fork server has ended".to_owned());
        self.sender.lock().await.send(&message).await.map_err(|_| gone())?;
        match tokio::time::timeout(FORK_LIMIT, spawned).await {
            Ok(Ok(pid)) => {
                let log = WorkerLog { folder: self.logs.clone(), name: log_name };
                Ok(Forked { number, pid, listener, log, breadcrumb, exit })
            }
            Ok(Err(_)) => Err(gone()),
            Err(_) => Err(StartError::passing("the fork server does not answer".to_owned())),
        }
    }

    fn register(&self) -> (u32, oneshot::Receiver<u32>, watch::Receiver<Option<Exit>>) {
        let mut workers = self.workers.lock().expect("no holder panics");
        let number = workers.next;
        workers.next += 1;
        let (spawned_sender, spawned) = oneshot::channel();
        let (exit_sender, exit) = watch::channel(None);
        if !self.has_ended() {
            workers.starting.insert(number, spawned_sender);
            workers.living.insert(number, exit_sender);
        }
        (number, spawned, exit)
    }

    /// Numbers its workers from `next` on, so that a replacement continues its predecessor's.
    pub fn number_from(&self, next: u32) {
        self.workers.lock().expect("no holder panics").next = next;
    }

    /// The number that the next worker will have.
    #[must_use]
    pub fn next_number(&self) -> u32 {
        self.workers.lock().expect("no holder panics").next
    }

    /// Ends it and its workers, and waits for that.
    pub async fn stop(&self) {
        let _ = self.sender.lock().await.send(&ToForkServer::Stop).await;
        let mut ended = self.ended.clone();
        let wait = ended.wait_for(|ended| *ended);
        if tokio::time::timeout(Duration::from_secs(10), wait).await.is_err() {
            process::end_tree(self.pid, false).await;
        }
    }
}

impl Drop for ForkServer {
    fn drop(&mut self) {
        // It ends by itself when its link closes; this is for one that hangs.
        if !self.has_ended()
            && let Ok(pid) = i32::try_from(self.pid)
            && pid > 1
        {
            let group = nix::unistd::Pid::from_raw(pid);
            let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
        }
    }
}

fn private_folder(below: &Path) -> Result<tempfile::TempDir, StartError> {
    tempfile::Builder::new()
        .prefix("conformance-")
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir_in(below)
        .map_err(|error| {
            StartError::final_(
                format!("cannot make a folder for sockets in `{}`: {error}", below.display()),
                "free some disk space, or set `XDG_RUNTIME_DIR`".to_owned(),
            )
        })
}

fn spawn(launch: &Launch, socket: &Path, log: &Path, token: &Token) -> Result<Child, StartError> {
    let log_file = || {
        std::fs::OpenOptions::new().append(true).create(true).open(log).map_err(|error| {
            StartError::final_(format!("cannot write `{}`: {error}", log.display()), String::new())
        })
    };
    Command::new(&launch.python)
        .args(["-m", "conformance_worker", "fork-server", "--device", &launch.profile, "--link"])
        .arg(socket)
        .envs(&launch.environment)
        .env(stray::TOKEN_VARIABLE, token.as_str())
        .env("PYTHONPATH", &launch.package)
        .env("PYTHONUNBUFFERED", "1")
        // A package in the user's home must not stand in for one of the environment under test.
        .env("PYTHONNOUSERSITE", "1")
        .stdin(std::process::Stdio::null())
        .stdout(log_file()?)
        .stderr(log_file()?)
        .process_group(0)
        .kill_on_drop(false)
        .spawn()
        .map_err(|error| {
            StartError::final_(
                format!("cannot start `{}`: {error}", launch.python.display()),
                "name a Python 3.11 or newer with `--python`, or run `runner setup`".to_owned(),
            )
        })
}

type Greeting = (link::Sender, link::Receiver, BTreeMap<String, String>);

/// Waits for the connection and the first message, or for the death of the process.
async fn greet(listener: &UnixListener, child: &mut Child) -> Result<Greeting, StartError> {
    let stream = tokio::select! {
        accepted = listener.accept() => accepted.map_err(|e| StartError::passing(e.to_string()))?.0,
        status = child.wait() => {
            let status = status.map_or_else(|e| e.to_string(), |status| status.to_string());
            return Err(StartError::passing(format!("the fork server ended before it was ready ({status})")));
        }
    };
    let (sender, mut receiver) = link::split(stream);
    match receiver.receive::<FromForkServer>().await {
        Ok(FromForkServer::Ready { link_version, versions, .. }) => {
            if link_version != LINK_VERSION {
                return Err(StartError::final_(
                    format!("the worker package speaks version {link_version}, not {LINK_VERSION}"),
                    "the worker package and the runner must come from the same build".to_owned(),
                ));
            }
            Ok((sender, receiver, versions))
        }
        Ok(FromForkServer::Failed { error_class, message, hint }) => {
            Err(StartError::final_(format!("{error_class}: {message}"), hint))
        }
        Ok(FromForkServer::Spawned { .. } | FromForkServer::Exited { .. }) => {
            Err(StartError::passing("the fork server spoke before it was ready".to_owned()))
        }
        Err(ReceiveError::Closed) => {
            let status = tokio::time::timeout(Duration::from_secs(5), child.wait()).await;
            let status = status.map_or_else(
                |_| "still running".to_owned(),
                |status| status.map_or_else(|e| e.to_string(), |status| status.to_string()),
            );
            Err(StartError::passing(format!(
                "the fork server ended before it was ready ({status})"
            )))
        }
        Err(ReceiveError::Garbage(error)) => Err(StartError::passing(error.to_string())),
    }
}

/// Reads the fork server's messages until it ends, then tells everyone who waits.
async fn listen(
    mut receiver: link::Receiver,
    mut child: Child,
    token: Token,
    workers: Arc<Mutex<Workers>>,
    ended: watch::Sender<bool>,
) {
    let own = child.id();
    loop {
        match receiver.receive::<FromForkServer>().await {
            Ok(FromForkServer::Spawned { worker, pid }) => {
                let waiting = workers.lock().expect("no holder panics").starting.remove(&worker);
                if let Some(waiting) = waiting {
                    let _ = waiting.send(pid);
                }
            }
            Ok(FromForkServer::Exited { worker, exit_code, signal, .. }) => {
                let mut workers = workers.lock().expect("no holder panics");
                workers.starting.remove(&worker);
                if let Some(exit) = workers.living.remove(&worker) {
                    let _ = exit.send(Some(Exit { exit_code, signal }));
                }
            }
            Ok(FromForkServer::Ready { .. } | FromForkServer::Failed { .. }) => {}
            Err(ReceiveError::Closed | ReceiveError::Garbage(_)) => break,
        }
    }
    // It has closed its link, mostly because it is leaving. One that stays, or that talked rubbish,
    // is of no use: it is ended, and its workers with it.
    let left = tokio::time::timeout(Duration::from_secs(2), child.wait()).await.is_ok();
    if !left && let Some(pid) = child.id() {
        process::end_tree(pid, false).await;
    }
    let _ = child.wait().await;
    own.into_iter().for_each(|pid| stray::note_fork_server(pid, false));
    stray::end_strays(&token).await;
    let _ = ended.send(true);
    let mut workers = workers.lock().expect("no holder panics");
    workers.starting.clear();
    workers.living.clear();
}

/// Adds the last lines of the log to a message that says nothing by itself.
fn with_log(mut error: StartError, log: &Path) -> StartError {
    if error.may_pass {
        let bytes = std::fs::read(log).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> =
            text.lines().rev().filter(|line| !line.trim().is_empty()).take(3).collect();
        if !lines.is_empty() {
            let last: Vec<&str> = lines.into_iter().rev().collect();
            error.message = format!("{}; its last words: {}", error.message, last.join(" | "));
        }
        error.hint = format!("the whole log is `{}`", log.display());
    }
    error
}
