//! Ending processes: politely, then not, and everything that they started.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

/// How long a process may take to leave after SIGTERM.
pub const GRACE: Duration = Duration::from_millis(1500);
/// How long the Python side may take to write its stack.
const DUMP_TIME: Duration = Duration::from_millis(250);
/// How often a leaving process is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// The kill ladder over a process that leads its group: ask it for its Python stack, SIGTERM to
/// the group, a grace, SIGKILL to the group and to every descendant, also to those in a session of
/// their own. Returns when none of them is left, or after a last wait for one stuck in the kernel.
pub async fn end_tree(pid: u32, polite: bool) {
    // Descendants are found by their parents, so this must come before any of those dies.
    let mut victims: HashSet<u32> = descendants(pid).into_iter().collect();
    if polite {
        signal_one(pid, Signal::SIGUSR1);
        wait_until_gone(pid, DUMP_TIME).await;
        victims.extend(descendants(pid));
        signal_group(pid, Signal::SIGTERM);
        wait_until_gone(pid, GRACE).await;
        victims.extend(descendants(pid));
    }
    signal_group(pid, Signal::SIGKILL);
    signal_one(pid, Signal::SIGKILL);
    for victim in victims {
        signal_group(victim, Signal::SIGKILL);
        signal_one(victim, Signal::SIGKILL);
    }
    wait_until_gone(pid, Duration::from_secs(5)).await;
}

/// Waits until a process has ended (a zombie counts as ended), at most for `limit`.
pub async fn wait_until_gone(pid: u32, limit: Duration) {
    let deadline = tokio::time::Instant::now() + limit;
    while is_running(pid) && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// Whether a process exists and is no zombie.
#[must_use]
pub fn is_running(pid: u32) -> bool {
    stat(pid).is_some_and(|stat| stat.state != 'Z' && stat.state != 'X')
}

/// Resident memory of a process in bytes; `None` once it is gone.
#[must_use]
pub fn resident_bytes(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * 4096)
}

/// Most memory that a process has held so far, in bytes; nothing once it is gone.
#[must_use]
pub fn peak_resident_bytes(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kibibytes << 10)
}

/// All processes below `pid`, by the parents that the kernel reports.
#[must_use]
pub fn descendants(pid: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        if let Some(stat) = stat(process) {
            children.entry(stat.parent).or_default().push(process);
        }
    }
    let mut found = Vec::new();
    let mut next = vec![pid];
    while let Some(parent) = next.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            found.push(child);
            next.push(child);
        }
    }
    found
}

/// Processes whose parent is `pid`, the ended ones too.
#[must_use]
pub fn children(pid: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    processes.filter(|child| stat(*child).is_some_and(|stat| stat.parent == pid)).collect()
}

/// When a process began, in clock ticks since the machine did: with it, a process id means one
/// process only.
#[must_use]
pub fn start_time(pid: u32) -> Option<u64> {
    stat(pid).map(|stat| stat.start_time)
}

struct Stat {
    state: char,
    parent: u32,
    start_time: u64,
}

/// Reads `/proc/PID/stat`; the name in it may hold anything, so it is read from the last `)`.
fn stat(pid: u32) -> Option<Stat> {
    let bytes = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let (_, rest) = text.rsplit_once(") ")?;
    let mut words = rest.split(' ');
    let (state, parent) = (words.next()?.chars().next()?, words.next()?.parse().ok()?);
    Some(Stat { state, parent, start_time: words.nth(17)?.parse().ok()? })
}

fn signal_one(pid: u32, signal: Signal) {
    if let Ok(pid) = i32::try_from(pid)
        && pid > 1
    {
        // Gone already is what we want.
        let _ = kill(Pid::from_raw(pid), signal);
    }
}

fn signal_group(leader: u32, signal: Signal) {
    if let Ok(leader) = i32::try_from(leader)
        && leader > 1
    {
        // Fails where the process leads no group, which is fine.
        let _ = killpg(Pid::from_raw(leader), signal);
    }
}

/// The name of a signal: `SIGABRT`, or `signal 40` where it has none.
#[must_use]
pub fn signal_name(signal: i32) -> String {
    Signal::try_from(signal).map_or_else(|_| format!("signal {signal}"), |s| s.as_str().to_owned())
}

/// Times the kernel has killed something of this host's control group for lack of memory.
#[must_use]
pub fn memory_kills() -> u64 {
    static FILE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let file = FILE.get_or_init(|| {
        let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let path = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
        let files = [
            format!("/sys/fs/cgroup{}/memory.events", path.trim_end_matches('/')),
            "/sys/fs/cgroup/memory.events".to_owned(),
            "/sys/fs/cgroup/memory/memory.oom_control".to_owned(),
        ];
        files.into_iter().map(PathBuf::from).find(|file| std::fs::read(file).is_ok())
    });
    let text = file.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
    let count = |text: &str| {
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
    };
    // A host without control groups still counts its kills in /proc/vmstat.
    text.as_deref()
        .and_then(count)
        .or_else(|| count(&std::fs::read_to_string("/proc/vmstat").ok()?))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[tokio::test]
    async fn the_ladder_ends_a_deaf_process_and_what_it_hid_in_another_session() {
        let mut child = Command::new("sh")
            .args(["-c", "trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 600' & sleep 600"])
            .process_group(0)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while descendants(child.id()).len() < 3 {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        let hidden = descendants(child.id());
        end_tree(child.id(), true).await;
        for pid in hidden {
            wait_until_gone(pid, GRACE).await;
            assert!(!is_running(pid), "{pid} survived");
        }
        assert!(!is_running(child.id()));
        child.wait().unwrap();
    }

    #[test]
    fn signals_have_names() {
        assert_eq!(signal_name(6), "SIGABRT");
        assert_eq!(signal_name(40), "signal 40");
    }
}
