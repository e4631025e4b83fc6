//! One database cluster: makes it, starts it or adopts a running one, stops it.
//!
//! It is ready when `postmaster.pid` names *our* process and says `ready`: a file left behind by
//! a killed one names another process, and connecting too early is refused.

use std::fs::{File, Permissions};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sha2::{Digest as _, Sha256};

use super::owner::Owner;
use super::programs::Programs;
use crate::trouble::{OrTrouble as _, Trouble};

/// Longest time to become ready: recovery after a crash can take a while.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest time for an orderly stop, before the impatient one.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// Between two looks.
const POLL: Duration = Duration::from_millis(25);
/// Longest path that a Unix socket can have is 107 bytes; `/.s.PGSQL.5432` takes 14.
const LONGEST_SOCKET_DIR: usize = 90;
/// Name of its only user. The database is the one that every cluster is born with.
const USER: &str = "conformance";
const DATABASE: &str = "postgres";

/// Whether a commit must survive a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    Full,
    None,
}

/// Where it is and whose it is.
#[derive(Debug)]
pub(super) struct Cluster {
    data: PathBuf,
    socket_dir: PathBuf,
    log: PathBuf,
    owner: Owner,
    durability: Durability,
    postmaster: Option<Postmaster>,
}

/// The running process.
#[derive(Debug)]
struct Postmaster {
    pid: Pid,
    /// Absent when it was adopted.
    child: Option<Child>,
}

impl Cluster {
    pub(super) fn at(base: &Path, owner: Owner, durability: Durability) -> anyhow::Result<Self> {
        let socket_dir = make_socket_dir(base, &owner)?;
        Ok(Self {
            data: base.join("postgres"),
            socket_dir,
            log: base.join("postgres.log"),
            owner,
            durability,
            postmaster: None,
        })
    }

    /// Makes it run, one way or the other. `find` gives the programs of a major version.
    pub(super) fn open(
        &mut self,
        find: impl Fn(Option<u32>) -> anyhow::Result<Programs>,
    ) -> anyhow::Result<()> {
        if let Some(pid) = self.find_running()? {
            tracing::info!(%pid, "adopting the private database that is running");
            self.wait_until_ready(pid, None)?;
            self.postmaster = Some(Postmaster { pid, child: None });
            return Ok(());
        }
        let major = self.read_major()?;
        let programs = find(major)?;
        if major.is_none() {
            self.make(&programs)?;
        }
        self.start(&programs)
    }

    pub(super) fn has_ended(&mut self) -> bool {
        self.postmaster.as_mut().is_none_or(|postmaster| postmaster.has_ended(&self.data))
    }

    pub(super) fn url(&self) -> String {
        let host = percent_encoding::utf8_percent_encode(
            self.socket_dir.to_str().unwrap_or_default(),
            percent_encoding::NON_ALPHANUMERIC,
        );
        format!("postgres://{USER}@localhost/{DATABASE}?host={host}")
    }

    /// The major version that the data was made with; none when there is no data.
    fn read_major(&self) -> anyhow::Result<Option<u32>> {
        let path = self.data.join("PG_VERSION");
        match std::fs::read_to_string(&path) {
            Ok(text) => text.trim().parse().map(Some).or_trouble(
                format!("`{}` does not hold a major version", path.display()),
                "this is not a data directory of PostgreSQL; choose another `--data-dir`",
            ),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("`{}`", path.display())),
        }
    }

    fn make(&self, programs: &Programs) -> anyhow::Result<()> {
        tracing::info!(directory = %self.data.display(), major = programs.major,
                       "making the private database");
        if self.data.exists() {
            // `PG_VERSION` is written early, so what is here comes from a start that was cut off.
            std::fs::remove_dir(&self.data).or_trouble(
                format!("`{}` holds something that is not a database", self.data.display()),
                "move it away, or choose another `--data-dir`",
            )?;
        }
        // Made under another name, so that a half-made one is never taken for one.
        let new = self.data.with_extension("new");
        if new.exists() {
            std::fs::remove_dir_all(&new)?;
        }
        std::fs::create_dir(&new).with_context(|| format!("making `{}`", new.display()))?;
        std::fs::set_permissions(&new, Permissions::from_mode(0o700))?;
        self.owner.give(&new)?;
        let mut command = self.owner.command(&programs.initdb());
        command.arg("-D").arg(&new).args(["-U", USER, "-E", "UTF8", "--locale=C"]);
        // Whoever can enter the socket's directory is the owner; the network is refused.
        command.args(["--auth-local=trust", "--auth-host=reject"]);
        if self.durability == Durability::None {
            command.arg("--no-sync");
        }
        let output = command.output().context("starting `initdb`")?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(Trouble::error(
                format!("`initdb` failed: {}", text.trim()),
                "is the disk full, or the directory on a file system without owners?",
            ));
        }
        std::fs::rename(&new, &self.data)?;
        Ok(())
    }

    fn start(&mut self, programs: &Programs) -> anyhow::Result<()> {
        let log = self.open_log()?;
        let mut command = self.owner.command(&programs.postgres());
        command.arg("-D").arg(&self.data).arg("-k").arg(&self.socket_dir);
        let settings: &[&str] = match self.durability {
            Durability::Full => &[
                "listen_addresses=",
                "port=5432",
                "unix_socket_permissions=0700",
                // A night fills tables at once; the planner should not wait a minute to know.
                "autovacuum_naptime=15s",
            ],
            Durability::None => &[
                "listen_addresses=",
                "port=5432",
                "unix_socket_permissions=0700",
                "fsync=off",
                "synchronous_commit=off",
                "full_page_writes=off",
                "max_connections=300",
            ],
        };
        for setting in settings {
            command.arg("-c").arg(setting);
        }
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command
            .spawn()
            .with_context(|| format!("starting `{}`", programs.postgres().display()))?;
        let pid = Pid::from_raw(i32::try_from(child.id())?);
        let child = self.wait_until_ready(pid, Some(child))?;
        self.postmaster = Some(Postmaster { pid, child });
        Ok(())
    }

    /// Appends to the log, and starts it anew when it has grown.
    fn open_log(&self) -> anyhow::Result<File> {
        let grown = std::fs::metadata(&self.log).is_ok_and(|m| m.len() > 8 * 1024 * 1024);
        let file = File::options()
            .create(true)
            .append(!grown)
            .write(true)
            .truncate(grown)
            .open(&self.log)
            .with_context(|| format!("opening `{}`", self.log.display()))?;
        Ok(file)
    }

    /// The process that serves this data, if one does. Files of one that is gone are removed: its
    /// number may by now belong to somebody else, or to a process that nobody waited for, and
    /// PostgreSQL would take either for another server.
    fn find_running(&self) -> anyhow::Result<Option<Pid>> {
        let path = self.data.join("postmaster.pid");
        if let Some(file) = PidFile::read(&path)
            && serves(file.pid, &self.data)
        {
            return Ok(Some(file.pid));
        }
        let socket = self.socket_dir.join(".s.PGSQL.5432");
        let lock = self.socket_dir.join(".s.PGSQL.5432.lock");
        for stale in [path, socket, lock] {
            match std::fs::remove_file(&stale) {
                Ok(()) => tracing::warn!("removed `{}`, left by a killed process", stale.display()),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("removing `{}`", stale.display()));
                }
            }
        }
        Ok(None)
    }

    fn wait_until_ready(
        &self,
        pid: Pid,
        mut child: Option<Child>,
    ) -> anyhow::Result<Option<Child>> {
        let path = self.data.join("postmaster.pid");
        let deadline = Instant::now() + START_TIMEOUT;
        while Instant::now() < deadline {
            if PidFile::read(&path).is_some_and(|file| file.pid == pid && file.ready) {
                return Ok(child);
            }
            if let Some(running) = &mut child
                && let Some(status) = running.try_wait()?
            {
                return Err(Trouble::error(
                    format!("the private database ended ({status}): {}", self.last_words()),
                    format!("all it said is in `{}`", self.log.display()),
                ));
            }
            std::thread::sleep(POLL);
        }
        Err(Trouble::error(
            format!("the private database is not ready after {} s", START_TIMEOUT.as_secs()),
            format!("what it said is in `{}`", self.log.display()),
        ))
    }

    /// The last lines of its log.
    fn last_words(&self) -> String {
        let mut text = Vec::new();
        if let Ok(mut file) = File::open(&self.log) {
            let length = file.metadata().map_or(0, |metadata| metadata.len());
            let _ = file.seek(SeekFrom::Start(length.saturating_sub(2_000)));
            let _ = file.read_to_end(&mut text);
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(3)..].join(" / ")
    }

    /// Stops it in order: sessions are ended, everything is written.
    pub(super) fn stop(&mut self) -> anyhow::Result<()> {
        let Some(mut postmaster) = self.postmaster.take() else { return Ok(()) };
        for signal in [Signal::SIGINT, Signal::SIGQUIT] {
            // It may be gone already, which is as good.
            let _ = kill(postmaster.pid, signal);
            let deadline = Instant::now() + STOP_TIMEOUT;
            while Instant::now() < deadline {
                if postmaster.has_ended(&self.data) {
                    return Ok(());
                }
                std::thread::sleep(POLL);
            }
            tracing::warn!(pid = %postmaster.pid, "the private database does not stop");
        }
        Err(Trouble::error(
            format!("the private database (process {}) does not stop", postmaster.pid),
            "nothing is lost: the next server adopts it",
        ))
    }
}

impl Postmaster {
    /// An adopted one is not our child. Asking whether its number exists would not do: nobody may
    /// have waited for it, and then it exists for ever, doing nothing.
    fn has_ended(&mut self, data: &Path) -> bool {
        match &mut self.child {
            Some(child) => matches!(child.try_wait(), Ok(Some(_)) | Err(_)),
            None => !serves(self.pid, data),
        }
    }
}

/// Whether the process is alive and works in the data directory, as every postmaster does.
fn serves(pid: Pid, data: &Path) -> bool {
    std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|directory| directory == data)
}

/// What `postmaster.pid` says.
#[derive(Debug, PartialEq, Eq)]
struct PidFile {
    pid: Pid,
    ready: bool,
}

impl PidFile {
    fn read(path: &Path) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(path).ok()?)
    }

    /// First line the process, eighth line its status.
    fn parse(text: &str) -> Option<Self> {
        let pid = text.lines().next()?.trim().parse().ok().filter(|pid| *pid > 0)?;
        let ready = text.lines().nth(7).is_some_and(|line| line.trim() == "ready");
        Some(Self { pid: Pid::from_raw(pid), ready })
    }
}

/// A directory for the socket that only the owner can enter, with a path that is short enough.
fn make_socket_dir(base: &Path, owner: &Owner) -> anyhow::Result<PathBuf> {
    let beside = base.join("socket");
    let path = if beside.as_os_str().len() <= LONGEST_SOCKET_DIR {
        beside
    } else {
        let hash = hex::encode(Sha256::digest(base.as_os_str().as_encoded_bytes()));
        std::env::temp_dir().join(format!("ttc-{}", &hash[..16]))
    };
    match std::fs::create_dir(&path) {
        Ok(()) => {
            std::fs::set_permissions(&path, Permissions::from_mode(0o700))?;
            owner.give(&path)?;
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error).with_context(|| format!("making `{}`", path.display())),
    }
    let metadata = std::fs::symlink_metadata(&path)?;
    let private = metadata.is_dir() && metadata.permissions().mode() & 0o077 == 0;
    if !private || !owner.owns(&metadata) {
        return Err(Trouble::error(
            format!("`{}` is not a private directory of the database's user", path.display()),
            "remove it, or choose another `--data-dir`",
        ));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_is_the_eighth_line() {
        let starting = "123\n/data\n1700000000\n5432\n/sock\n\n  5 6\nstarting\n";
        let ready = starting.replace("starting", "ready   ");
        let pid = Pid::from_raw(123);
        assert_eq!(PidFile::parse(starting), Some(PidFile { pid, ready: false }));
        assert_eq!(PidFile::parse(&ready), Some(PidFile { pid, ready: true }));
        assert_eq!(PidFile::parse("123\n"), Some(PidFile { pid, ready: false }));
        for broken in ["", "x\n", "-5\n", "0\n"] {
            assert_eq!(PidFile::parse(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn a_long_path_gets_a_short_socket_directory() {
        let owner = Owner::choose().unwrap();
        let base = tempfile::tempdir().unwrap();
        let long = base.path().join("x".repeat(100));
        std::fs::create_dir(&long).unwrap();
        let short = make_socket_dir(&long, &owner).unwrap();
        assert!(short.as_os_str().len() <= LONGEST_SOCKET_DIR);
        assert_eq!(make_socket_dir(&long, &owner).unwrap(), short, "it is found again");
        std::fs::set_permissions(&short, Permissions::from_mode(0o755)).unwrap();
        assert!(make_socket_dir(&long, &owner).is_err(), "one that others can enter is refused");
        std::fs::remove_dir(&short).unwrap();
    }
}
