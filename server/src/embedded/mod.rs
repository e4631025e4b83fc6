//! The private PostgreSQL that the server uses when it is given no `DATABASE_URL`.
//!
//! A real PostgreSQL over a Unix socket in a directory that only its owner can enter; it listens
//! on no network. `programs` finds or installs it, `owner` is the user it runs as (PostgreSQL
//! refuses root), `cluster` makes, starts, adopts and stops it.
//!
//! It outlives a server that is killed, and the next one adopts it: nothing that was committed
//! depends on how the server ended. It is stopped by whoever leaves it last.

mod cluster;
mod owner;
mod programs;

use std::fs::{File, Permissions, TryLockError};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;

use crate::args::DatabaseArgs;
use crate::trouble::{OrTrouble as _, Trouble};

use cluster::Cluster;
use owner::Owner;
use programs::Programs;

/// A running private database, and this process's use of it.
#[derive(Debug)]
pub struct Embedded {
    cluster: Mutex<Cluster>,
    base: PathBuf,
    args: DatabaseArgs,
    /// Held shared while in use; whoever gets it exclusively is the last one.
    users: File,
    /// Kept so that the directory of a temporary database goes away after it has stopped.
    temporary: Option<tempfile::TempDir>,
    /// Held exclusively by the one server of the directory.
    _server: Option<File>,
}

/// What the database is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// By the server; a data directory has one.
    Server,
    /// By a short command beside it.
    Command,
}

impl Embedded {
    /// Opens the database of the data directory: adopts a running one, or starts it, after making
    /// it if need be. Blocks for seconds.
    pub fn open(args: &DatabaseArgs, purpose: Use) -> anyhow::Result<Self> {
        let owner = Owner::choose()?;
        let base = args.data_dir.clone().map_or_else(default_data_dir, Ok)?;
        create_dir(&base)?;
        // The database changes its own directory, so a relative path would lose its meaning.
        let base = base.canonicalize().with_context(|| format!("`{}`", base.display()))?;
        owner.check_reach(&base)?;
        let server = match purpose {
            Use::Server => Some(lock_server(&base)?),
            Use::Command => None,
        };
        let users = open_lock(&base.join("users.lock"))?;
        users.lock_shared().context("locking the data directory")?;
        let starting = open_lock(&base.join("start.lock"))?;
        starting.lock().context("locking the data directory")?;
        let mut cluster = Cluster::at(&base, owner, cluster::Durability::Full)?;
        cluster.open(|major| Programs::find(args, major))?;
        drop(starting);
        let (cluster, args) = (Mutex::new(cluster), args.clone());
        Ok(Self { cluster, base, args, users, temporary: None, _server: server })
    }

    /// A fresh database in a temporary directory, fast because it does not care for a power cut.
    pub fn temporary(args: &DatabaseArgs) -> anyhow::Result<Self> {
        let owner = Owner::choose()?;
        // Root's own temporary directory may be closed to the user that PostgreSQL runs as.
        let places = [std::env::temp_dir(), PathBuf::from("/tmp"), PathBuf::from("/var/tmp")];
        let place = places.iter().find(|place| place.is_dir() && owner.can_reach(place));
        let directory = tempfile::Builder::new()
            .prefix("ttc-")
            .tempdir_in(place.unwrap_or(&places[0]))
            .or_trouble("no temporary directory can be made", "set `TMPDIR` to one with room")?;
        owner.give(directory.path())?;
        owner.check_reach(directory.path())?;
        let users = open_lock(&directory.path().join("users.lock"))?;
        users.lock_shared().context("locking the data directory")?;
        let mut cluster = Cluster::at(directory.path(), owner, cluster::Durability::None)?;
        cluster.open(|major| Programs::find(args, major))?;
        let (cluster, args, base) =
            (Mutex::new(cluster), args.clone(), directory.path().to_owned());
        Ok(Self { cluster, base, args, users, temporary: Some(directory), _server: None })
    }

    /// Address for `DATABASE_URL`.
    #[must_use]
    pub fn url(&self) -> String {
        self.cluster().url()
    }

    fn cluster(&self) -> MutexGuard<'_, Cluster> {
        self.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the database again when it has ended without being told to; answers whether it had
    /// to. Blocks for seconds then.
    pub fn revive(&self) -> anyhow::Result<bool> {
        let mut cluster = self.cluster();
        if !cluster.has_ended() {
            return Ok(false);
        }
        tracing::error!("the private database has ended; starting it again");
        let starting = open_lock(&self.base.join("start.lock"))?;
        starting.lock().context("locking the data directory")?;
        cluster.open(|major| Programs::find(&self.args, major))?;
        Ok(true)
    }

    /// Stops the database when nobody else uses it, and waits for that.
    pub fn close(self) -> anyhow::Result<()> {
        // Turning a shared lock into an exclusive one works only for the last user.
        if self.users.try_lock().is_ok() {
            self.cluster().stop()?;
        } else {
            tracing::info!("the private database stays up for its other users");
        }
        if let Some(directory) = self.temporary {
            directory.close().context("removing the temporary database")?;
        }
        Ok(())
    }
}

/// Where data goes when nothing is said: root's home is closed to the user that PostgreSQL runs
/// as, so root uses `/var/lib`.
pub(crate) fn default_data_dir() -> anyhow::Result<PathBuf> {
    if nix::unistd::geteuid().is_root() {
        return Ok(PathBuf::from("/var/lib/torchtpu-conformance"));
    }
    let home = crate::args::user_data_dir().ok_or_else(|| {
        Trouble::error(
            "there is no place for data: neither `XDG_DATA_HOME` nor `HOME` is set",
            "say `--data-dir DIR`",
        )
    })?;
    Ok(home.join("torchtpu-conformance"))
}

/// Makes a directory and those above it. What root makes must let the database's user through,
/// whatever the umask says.
fn create_dir(path: &Path) -> anyhow::Result<()> {
    let new: Vec<&Path> = path.ancestors().take_while(|directory| !directory.exists()).collect();
    std::fs::create_dir_all(path).or_trouble(
        format!("the data directory `{}` cannot be made", path.display()),
        "choose another one with `--data-dir`",
    )?;
    if nix::unistd::geteuid().is_root() {
        for directory in new.into_iter().filter(|directory| directory.is_dir()) {
            std::fs::set_permissions(directory, Permissions::from_mode(0o755))?;
        }
    }
    Ok(())
}

fn open_lock(path: &Path) -> anyhow::Result<File> {
    File::options().create(true).truncate(false).write(true).open(path).or_trouble(
        format!("`{}` cannot be written", path.display()),
        "the data directory belongs to another user; choose another one with `--data-dir`",
    )
}

fn lock_server(base: &Path) -> anyhow::Result<File> {
    let file = open_lock(&base.join("server.lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Trouble::error(
            format!("another server uses the data directory `{}`", base.display()),
            "stop it, or choose another one with `--data-dir`",
        )),
        Err(TryLockError::Error(error)) => Err(error).context("locking the data directory"),
    }
}
