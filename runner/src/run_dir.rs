//! The folder of one run: which files are in it, and who may write to it.
//!
//! ```text
//! run.json        what the run is, as it is announced to a server
//! inventory.json  which overloads the build has, with their kernels
//! manifest.json   planned case keys and their hash
//! plan.json       planned cases with what a worker needs, and the settings
//! journal.jsonl   every attempt
//! waivers.json    waivers of the run, when it has any
//! upload.json     where it was sent, and how far
//! logs/           output of the Python processes
//! repros/         scripts of operators that a mismatch begins in, with their tensors
//! tensors/        both sides of what was compared and did not hold, within a limit
//! summary.json, report.html, junit.xml
//! ```

mod plan;

use std::fs::{File, TryLockError};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use chrono::{DateTime, Utc};
use protocol::RunKey;
use protocol::ingest_api::{create_run, put_manifest};
use protocol::inventory::Inventory;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Error;
use crate::balance;
use crate::plan::Shard;
use crate::waivers::Waivers;

pub use plan::{Plan, Settings};

/// Name of the file of waivers.
const WAIVERS: &str = "waivers.json";
const INVENTORY: &str = "inventory.json";
/// What the folder of a run without a name begins with.
const STARTING: &str = ".starting-";
/// How long such a folder is kept when its run could not begin.
const KEPT_UNNAMED: Duration = Duration::from_secs(3 * 24 * 3600);

/// A run's folder.
#[derive(Debug, Clone)]
pub struct RunDir {
    path: PathBuf,
}

/// Held by the one process that may write to a run.
#[derive(Debug)]
pub struct RunLock {
    _file: File,
}

/// A run without a name yet.
#[derive(Debug)]
pub struct NewRun {
    run: RunDir,
    folder: Mutex<Option<tempfile::TempDir>>,
}

impl std::ops::Deref for NewRun {
    type Target = RunDir;

    fn deref(&self) -> &RunDir {
        &self.run
    }
}

impl NewRun {
    /// Leaves the folder where it is, for the logs in it.
    pub fn keep(&self) {
        if let Some(folder) = self.folder.lock().expect("no holder panics").take() {
            let _ = folder.keep();
        }
    }

    /// Gives it its name; from here on it is a kept run.
    pub fn name_it(
        self,
        runs_dir: &Path,
        key: &RunKey,
        shard: Option<Shard>,
    ) -> Result<RunDir, Error> {
        RunDir::refuse_existing(runs_dir, key, shard)?;
        let path = runs_dir.join(folder_name(key, shard));
        // A temporary folder is private; a kept run is as readable as the user's other files.
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&self.run.path, mode)
            .and_then(|()| std::fs::rename(&self.run.path, &path))
            .map_err(Error::file("create", &path))?;
        self.keep();
        Ok(RunDir { path })
    }
}

/// Removes what is left of runs that never got a name, some days after they failed: their logs
/// were worth reading until then.
fn remove_stale(runs_dir: &Path) {
    let is_old = |entry: &std::fs::DirEntry| {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let age = modified.ok().and_then(|modified| modified.elapsed().ok());
        age.is_some_and(|age| age > KEPT_UNNAMED)
    };
    for entry in std::fs::read_dir(runs_dir).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(STARTING) && is_old(&entry) {
            // Another runner may be at it too.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn folder_name(key: &RunKey, shard: Option<Shard>) -> String {
    let part = shard.map(|s| format!(".shard-{}-of-{}", s.index, s.total)).unwrap_or_default();
    format!("{key}{part}")
}

impl RunDir {
    /// Begins a run whose name is not known yet, because that takes its device: a hidden folder.
    /// It goes away again unless it is named, or kept for its logs.
    pub fn begin(runs_dir: &Path) -> Result<NewRun, Error> {
        std::fs::create_dir_all(runs_dir).map_err(Error::file("create", runs_dir))?;
        remove_stale(runs_dir);
        let folder = tempfile::Builder::new()
            .prefix(STARTING)
            .tempdir_in(runs_dir)
            .map_err(Error::file("write", runs_dir))?;
        let run = Self { path: folder.path().to_owned() };
        let logs = run.logs();
        std::fs::create_dir_all(&logs).map_err(Error::file("create", &logs))?;
        Ok(NewRun { run, folder: Mutex::new(Some(folder)) })
    }

    /// Refuses a run key that is taken.
    pub fn refuse_existing(
        runs_dir: &Path,
        key: &RunKey,
        shard: Option<Shard>,
    ) -> Result<(), Error> {
        let path = runs_dir.join(folder_name(key, shard));
        if !path.exists() {
            return Ok(());
        }
        Err(Error::Usage {
            message: format!("run `{key}` is already kept in `{}`", path.display()),
            hint: format!("`runner resume {key}` goes on with it; else choose another `--run-key`"),
        })
    }

    /// Refuses a shard whose plan is not that of the shards kept here: a case would be in two of
    /// them, or in none.
    pub fn refuse_other_plan(
        runs_dir: &Path,
        run: &create_run::Request,
        manifest_hash: &str,
        shard: Option<Shard>,
    ) -> Result<(), Error> {
        let Some(shard) = shard else { return Ok(()) };
        for other in Self::list(runs_dir)? {
            let of_run = format!("{}.shard-", run.run_key);
            if !other.name().starts_with(&of_run) {
                continue;
            }
            let balance = |run: &create_run::Request| run.labels.get(balance::LABEL).cloned();
            let total = other.plan()?.settings.shard.map(|shard| shard.total);
            let differs = if other.manifest()?.hash != manifest_hash {
                "another plan"
            } else if total != Some(shard.total) {
                "another number of shards"
            } else if balance(&other.run()?) != balance(run) {
                "another balance"
            } else {
                continue;
            };
            return Err(Error::Usage {
                message: format!(
                    "shard {shard} of run `{}` has {differs} than `{}`",
                    run.run_key,
                    other.path.display()
                ),
                hint: "give every shard of a run the same selection and the same `--balance`, or \
                       choose another `--run-key`"
                    .to_owned(),
            });
        }
        Ok(())
    }

    /// Finds a kept run by its key, or the latest one.
    pub fn find(runs_dir: &Path, key: &str) -> Result<Self, Error> {
        let unknown = || Error::UnknownRun { key: key.to_owned(), runs_dir: runs_dir.to_owned() };
        let kept = Self::list(runs_dir)?;
        if key == "latest" {
            return kept.into_iter().next_back().ok_or_else(unknown);
        }
        kept.into_iter().find(|run| run.name() == key).ok_or_else(unknown)
    }

    /// Finds a kept run by its key, or the latest one; else the run in a folder of that path.
    pub fn find_or_open(runs_dir: &Path, run: &str) -> Result<Self, Error> {
        let found = Self::find(runs_dir, run);
        if !matches!(found, Err(Error::UnknownRun { .. })) {
            return found;
        }
        match std::fs::canonicalize(run) {
            Ok(path) if path.join("run.json").is_file() => Ok(Self { path }),
            Ok(_) | Err(_) => found,
        }
    }

    /// Every kept run, the oldest first.
    pub fn list(runs_dir: &Path) -> Result<Vec<Self>, Error> {
        let entries = match std::fs::read_dir(runs_dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::file("read", runs_dir)(error)),
        };
        let mut runs: Vec<(DateTime<Utc>, Self)> = entries
            .flatten()
            .map(|entry| Self { path: entry.path() })
            .filter(|run| !run.name().starts_with('.'))
            .filter_map(|run| Some((run.run().ok()?.started_at, run)))
            .collect();
        runs.sort_by(|a, b| (a.0, &a.1.path).cmp(&(b.0, &b.1.path)));
        Ok(runs.into_iter().map(|(_, run)| run).collect())
    }

    /// Takes the right to write to it; fails while another process has it.
    pub fn lock(&self) -> Result<RunLock, Error> {
        let path = self.path.join(".lock");
        let file = File::create(&path).map_err(Error::file("create", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(RunLock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(Error::Usage {
                message: format!("another runner is at work on run `{}`", self.name()),
                hint: "wait until it is done".to_owned(),
            }),
            Err(TryLockError::Error(error)) => Err(Error::file("lock", &path)(error)),
        }
    }

    /// Folder name: the run key, and the shard if it is one.
    #[must_use]
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The journal.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.path.join("journal.jsonl")
    }

    /// Scripts of operators that a mismatch begins in, with their tensors.
    #[must_use]
    pub fn repros(&self) -> PathBuf {
        self.path.join("repros")
    }

    /// Both sides of what was compared and did not hold.
    #[must_use]
    pub fn tensors(&self) -> PathBuf {
        self.path.join("tensors")
    }

    /// Logs of the Python processes.
    #[must_use]
    pub fn logs(&self) -> PathBuf {
        self.path.join("logs")
    }

    /// A folder for the logs of one more process of the run.
    pub fn next_logs(&self) -> Result<PathBuf, Error> {
        let folder = |number: u32| self.path.join(format!("logs-{number}"));
        let number = (2..).find(|number| !folder(*number).exists()).unwrap_or(2);
        let logs = folder(number);
        std::fs::create_dir_all(&logs).map_err(Error::file("create", &logs))?;
        Ok(logs)
    }

    /// What the run is.
    pub fn run(&self) -> Result<create_run::Request, Error> {
        self.read("run.json")
    }

    /// Keeps what the run is.
    pub fn write_run(&self, run: &create_run::Request) -> Result<(), Error> {
        self.write("run.json", run)
    }

    /// What the dispatcher of the build knew; absent in runs of before it was kept.
    pub fn inventory(&self) -> Result<Option<Inventory>, Error> {
        if !self.path.join(INVENTORY).is_file() {
            return Ok(None);
        }
        self.read(INVENTORY).map(Some)
    }

    /// Keeps what the dispatcher of the build knows.
    pub fn write_inventory(&self, inventory: &Inventory) -> Result<(), Error> {
        self.write(INVENTORY, inventory)
    }

    /// The manifest.
    pub fn manifest(&self) -> Result<put_manifest::Request, Error> {
        self.read("manifest.json")
    }

    /// Keeps the manifest.
    pub fn write_manifest(&self, manifest: &put_manifest::Request) -> Result<(), Error> {
        self.write("manifest.json", manifest)
    }

    /// The plan.
    pub fn plan(&self) -> Result<Plan, Error> {
        self.read("plan.json")
    }

    /// Keeps the plan.
    pub fn write_plan(&self, plan: &Plan) -> Result<(), Error> {
        self.write("plan.json", plan)
    }

    /// The waivers; none where the run has no file of them.
    pub fn waivers(&self) -> Result<Waivers, Error> {
        if self.path.join(WAIVERS).exists() { self.read(WAIVERS) } else { Ok(Waivers::default()) }
    }

    /// Keeps the waivers.
    pub fn write_waivers(&self, waivers: &Waivers) -> Result<(), Error> {
        self.write(WAIVERS, waivers)
    }

    /// Reads a JSON file of the run.
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> Result<T, Error> {
        let path = self.path.join(name);
        let bytes = std::fs::read(&path).map_err(Error::file("read", &path))?;
        serde_json::from_slice(&bytes).map_err(|error| Error::Input {
            message: format!("`{}` is damaged: {error}", path.display()),
            hint: "the run cannot be used any more; start it again".to_owned(),
        })
    }

    /// Replaces a JSON file of the run; a reader sees the old one or the new one, whole.
    pub fn write<T: Serialize>(&self, name: &str, value: &T) -> Result<(), Error> {
        let path = self.path.join(name);
        let new = self.path.join(format!(".{name}.new"));
        let text = serde_json::to_vec_pretty(value).expect("our files have text keys only");
        let written = std::fs::write(&new, text)
            .and_then(|()| File::open(&new)?.sync_all())
            .and_then(|()| std::fs::rename(&new, &path));
        written.map_err(Error::file("write", &path))
    }
}
