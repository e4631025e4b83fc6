//! The folder in which worker and runner hand each other the tensors of one case.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

/// Longest repro that is kept.
const MAX_REPRO_BYTES: u64 = 64 * 1024;
/// What must fit into a folder for tensors after a case that found no room.
const ROOM_BYTES: usize = 256 * 1024;

/// A folder for the tensor files of one case, on tmpfs where there is one; removed on drop.
#[derive(Debug)]
pub struct Exchange {
    folder: tempfile::TempDir,
}

impl Exchange {
    /// Makes one below `parent`.
    pub fn create(parent: &Path) -> Result<Self, std::io::Error> {
        let folder = tempfile::Builder::new().prefix("case-").tempdir_in(parent)?;
        Ok(Self { folder })
    }

    /// Whether one below `parent` could hold anything: writes a little there, and removes it.
    pub fn try_room(parent: &Path) -> Result<(), std::io::Error> {
        let mut file = tempfile::tempfile_in(parent)?;
        file.write_all(&vec![0; ROOM_BYTES])
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The folder as text.
    #[must_use]
    pub fn path(&self) -> String {
        self.folder.path().display().to_string()
    }

    /// The Python that a worker left beside the tensors; empty without.
    #[must_use]
    pub fn repro(&self) -> String {
        let mut text = String::new();
        if let Ok(file) = std::fs::File::open(self.folder.path().join("repro.py")) {
            // What is not text, or longer than any script of ours, is no repro.
            let read = file.take(MAX_REPRO_BYTES).read_to_string(&mut text);
            if read.is_err() {
                text.clear();
            }
        }
        text
    }

    /// Where a rerun leaves the operator that it is about to enter, beside the tensors.
    #[must_use]
    pub fn breadcrumb(&self) -> PathBuf {
        self.folder.path().join("breadcrumb")
    }

    /// The operator that a rerun left there: text, then zero bytes.
    #[must_use]
    pub fn last_entered(&self) -> Option<String> {
        let bytes = std::fs::read(self.breadcrumb()).ok()?;
        let text = bytes.split(|byte| *byte == 0).next()?;
        let name = String::from_utf8_lossy(text).trim().to_owned();
        (!name.is_empty()).then_some(name)
    }
}
