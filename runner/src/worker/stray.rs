//! Processes that a fork server's tree left behind where the fork server itself was killed, or the
//! runner was: in a session of their own, with another parent. Nobody else knows of them, and they
//! hold devices and memory.
//!
//! They are found in two ways. Every process of a tree carries a token in the environment that it
//! began with. And this process adopts what loses its parent below it, so that one that began with
//! another environment is a child of ours.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use super::process::{children, is_running, start_time};

/// Variable that holds the token.
pub const TOKEN_VARIABLE: &str = "CONFORMANCE_TREE";

/// How often strays are looked for again: a parent that dies hands over its children.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// How long ending them may take.
const LIMIT: Duration = Duration::from_secs(5);

/// Our fork servers, which are children of ours and no strays.
static FORK_SERVERS: Mutex<Option<HashSet<u32>>> = Mutex::new(None);
static NEXT: AtomicU32 = AtomicU32::new(1);

/// What marks the processes of one fork server's tree: namespace of process ids, id and start of
/// the runner, and a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// A new one. From here on this process adopts orphans below it.
    #[must_use]
    pub fn new() -> Self {
        // Where the kernel refuses, the token alone finds them.
        let _ = nix::sys::prctl::set_child_subreaper(true);
        let own = std::process::id();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(format!("{}.{own}.{}.{number}", namespace(), start_time(own).unwrap_or(0)))
    }

    /// For the environment of the fork server.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Token {
    fn default() -> Self {
        Self::new()
    }
}

/// A fork server was started, or has ended and been reaped.
pub fn note_fork_server(pid: u32, living: bool) {
    let mut known = FORK_SERVERS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if living {
        known.insert(pid)
    } else {
        known.remove(&pid)
    };
}

/// Ends what is left of a tree whose fork server has ended, and reaps what came to us.
pub async fn end_strays(token: &Token) {
    let deadline = tokio::time::Instant::now() + LIMIT;
    loop {
        let adopted = adopted();
        let mut strays: HashSet<u32> = carriers(|text| text == token.as_str()).collect();
        strays.extend(&adopted);
        for pid in &strays {
            end(*pid);
        }
        for pid in adopted {
            reap(pid);
        }
        if strays.is_empty() || tokio::time::Instant::now() >= deadline {
            return;
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// Ends what runners left that are not there any more; gives how many there were.
#[must_use]
pub fn end_those_of_dead_runners() -> usize {
    let namespace = namespace();
    let is_orphaned = |text: &str| {
        let mut parts = text.split('.').map(str::parse::<u64>);
        let (Some(Ok(place)), Some(Ok(runner)), Some(Ok(start))) =
            (parts.next(), parts.next(), parts.next())
        else {
            return false;
        };
        // In another namespace the same number is another process.
        let Ok(runner) = u32::try_from(runner) else { return false };
        place == namespace && !(is_running(runner) && start_time(runner) == Some(start))
    };
    let found: Vec<u32> = carriers(is_orphaned).collect();
    found.iter().for_each(|pid| end(*pid));
    found.len()
}

/// Children that we did not start: fork servers are known, and nothing else is started meanwhile.
fn adopted() -> Vec<u32> {
    let known = FORK_SERVERS.lock().unwrap_or_else(PoisonError::into_inner);
    let is_ours = |pid: &u32| known.as_ref().is_some_and(|known| known.contains(pid));
    children(std::process::id()).into_iter().filter(|pid| !is_ours(pid)).collect()
}

/// Running processes, other than this one, whose token is as wanted. Those of other users cannot be
/// read, and are not ours.
fn carriers(wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = u32> {
    let prefix = format!("{TOKEN_VARIABLE}=");
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    processes.filter(move |pid| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        let token = variables.find_map(|variable| variable.strip_prefix(prefix.as_bytes()));
        let token = token.and_then(|token| std::str::from_utf8(token).ok());
        *pid != std::process::id() && token.is_some_and(&wanted) && is_running(*pid)
    })
}

fn end(pid: u32) {
    if let Ok(pid) = i32::try_from(pid)
        && pid > 1
    {
        // Gone already is what we want.
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

fn reap(pid: u32) {
    if let Ok(pid) = i32::try_from(pid) {
        let _ = waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG));
    }
}

/// Number of our namespace of process ids; 0 where the kernel does not tell.
fn namespace() -> u64 {
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |metadata| metadata.ino())
}
