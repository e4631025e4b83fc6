//! The folder of goldens: finding, keeping, verifying. What is in it is not trusted: every file is
//! hashed before it is used.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use chrono::Utc;
use protocol::worker_link::Golden;
use protocol::{CaseKey, Comparison};
use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;

use super::entry::{Closeness, Entry, FORMAT, Made, Object, Origin};
use super::remote::{Cache, Remote};
use crate::Error;

mod verify;

pub use verify::Verified;

/// Longest entry that is read.
const MAX_ENTRY_BYTES: u64 = 1 << 20;
/// Hexadecimal digits by which results name a golden.
const ID_DIGITS: usize = 12;

/// Why a case has no golden that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// There is none.
    #[error("no golden was recorded for `{case}`: `runner record` does")]
    Missing {
        /// The case.
        case: CaseKey,
    },
    /// It was made from something else.
    #[error("the golden is stale: {}; record it again", differences.join("; "))]
    Stale {
        /// What differs.
        differences: Vec<String>,
    },
    /// It may be there, and cannot be had.
    #[error("the golden cannot be fetched: {problem}")]
    Unreachable {
        /// What went wrong.
        problem: String,
    },
    /// It is damaged.
    #[error("the golden is corrupt: {problem}; record it again")]
    Corrupt {
        /// What is wrong, with the file.
        problem: String,
    },
}

impl Unusable {
    /// Class of the error in a result.
    #[must_use]
    pub const fn class(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "golden-missing",
            Self::Stale { .. } => "golden-stale",
            Self::Unreachable { .. } => "golden-unreachable",
            Self::Corrupt { .. } => "golden-corrupt",
        }
    }
}

/// What a recorded case left.
#[derive(Debug, Clone, Copy)]
pub struct ToKeep<'a> {
    /// File of the device's outputs.
    pub outputs: &'a Path,
    /// File of the same in float64.
    pub wide: Option<&'a Path>,
    /// Of its weights and inputs.
    pub fingerprint: &'a str,
    /// With the host's reference.
    pub comparison: &'a Comparison,
}

/// A folder of goldens.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
    /// Where what is missing in the folder comes from.
    remote: Option<Remote>,
}

impl Store {
    /// A folder that exists, by its path or `file:` URL; or a place in an object store, of which
    /// nothing is asked yet.
    pub fn open(location: &str, cache: &Cache) -> Result<Self, Error> {
        if location.split_once("://").is_some_and(|(scheme, _)| scheme != "file") {
            let remote = Some(Remote::open(location, cache)?);
            return Ok(Self { root: Remote::folder(location, cache), remote });
        }
        let root = folder_of(location)?;
        if !root.join("cases").is_dir() {
            return Err(Error::Input {
                message: format!("`{location}` is no folder of goldens"),
                hint: "`runner record --model-list FILE --out DIR` makes one".to_owned(),
            });
        }
        Ok(Self { root, remote: None })
    }

    /// A folder to record into, made where it is missing.
    pub fn create(root: &Path) -> Result<Self, Error> {
        for folder in ["cases", "objects"] {
            let path = root.join(folder);
            std::fs::create_dir_all(&path).map_err(Error::file("create", &path))?;
        }
        // A worker reads these files too, and has another working directory.
        let root = std::fs::canonicalize(root).map_err(Error::file("read", root))?;
        Ok(Self { root, remote: None })
    }

    /// The folder.
    #[must_use]
    pub fn into_root(self) -> PathBuf {
        self.root
    }

    fn entry(&self, case: &CaseKey) -> PathBuf {
        let hash = hex::encode(Sha256::digest(case.as_str()));
        self.root.join("cases").join(format!("{}.json", &hash[..32]))
    }

    fn object(&self, object: &Object) -> PathBuf {
        let name = format!("{}.safetensors", object.sha256);
        self.root.join("objects").join(&object.sha256[..2]).join(name)
    }

    /// Gets what the folder lacks from where it comes from; nothing for a folder alone. False where
    /// it is not there either.
    fn fetch(&self, path: &Path, most_bytes: u64) -> Result<bool, Unusable> {
        let Some(remote) = &self.remote else { return Ok(false) };
        let name = path.strip_prefix(&self.root).expect("it is below the folder");
        let name = name.display().to_string();
        remote.fetch(&name, path, most_bytes).map_err(|problem| Unusable::Unreachable { problem })
    }

    /// The file of an object, whole.
    fn whole(&self, object: &Object) -> Result<String, Unusable> {
        let path = self.object(object);
        let mut sound = check(&path, object);
        if sound.is_err() && self.fetch(&path, object.bytes)? {
            self.remote.iter().for_each(Remote::make_room);
            sound = check(&path, object);
        }
        sound.map_err(|problem| corrupt(&path, &problem))?;
        self.remote.iter().for_each(|remote| remote.used(&path));
        Ok(path.display().to_string())
    }

    /// The golden of the case, proved whole, if it was made from the same as it would be now.
    ///
    /// May ask an object store, and must not be called on a thread that drives the runtime.
    pub fn find(&self, case: &CaseKey, now: &Made) -> Result<Golden, Unusable> {
        let path = self.entry(case);
        if self.remote.is_some() && !self.fetch(&path, MAX_ENTRY_BYTES)? {
            return Err(Unusable::Missing { case: case.clone() });
        }
        let bytes = match read_capped(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Unusable::Missing { case: case.clone() });
            }
            Err(error) => return Err(corrupt(&path, &error.to_string())),
        };
        let entry = parse(&bytes).map_err(|problem| corrupt(&path, &problem))?;
        if entry.case != *case {
            return Err(corrupt(&path, &format!("it is of `{}`", entry.case)));
        }
        let differences = entry.made.differences(now);
        if !differences.is_empty() {
            return Err(Unusable::Stale { differences });
        }
        let whole = |object: &Object| self.whole(object);
        let id = hex::encode(Sha256::digest(&bytes));
        Ok(Golden {
            id: format!("golden {} {}", entry.origin.device, &id[..ID_DIGITS]),
            outputs: whole(&entry.outputs)?,
            wide: entry.wide.as_ref().map(whole).transpose()?,
            fingerprint: entry.fingerprint,
        })
    }

    /// Keeps what a case left: first its files, then the entry that names them.
    pub(super) fn keep(
        &self,
        case: &CaseKey,
        made: Made,
        origin: Origin,
        kept: ToKeep<'_>,
    ) -> Result<(), String> {
        let failed = |path: &Path, error: std::io::Error| {
            format!("`{}` cannot be kept as a golden: {error}", path.display())
        };
        let take = |path: &Path| self.take(path).map_err(|error| failed(path, error));
        let entry = Entry {
            format: FORMAT,
            case: case.clone(),
            made,
            fingerprint: kept.fingerprint.to_owned(),
            origin,
            recorded_at: Utc::now(),
            close_to: Closeness {
                held: kept.comparison.held,
                reference: kept.comparison.reference.clone(),
                findings: kept.comparison.findings.clone(),
            },
            outputs: take(kept.outputs)?,
            wide: kept.wide.map(take).transpose()?,
        };
        let path = self.entry(case);
        let text = serde_json::to_vec_pretty(&entry).expect("an entry has text keys only");
        replace(&path, |file| file.write_all(&text)).map_err(|error| failed(&path, error))
    }

    /// Copies a file under the name of its hash.
    fn take(&self, from: &Path) -> Result<Object, std::io::Error> {
        let (sha256, bytes) = hash(from)?;
        let object = Object { sha256, bytes };
        let path = self.object(&object);
        if check(&path, &object).is_ok() {
            return Ok(object);
        }
        std::fs::create_dir_all(path.parent().expect("it is below the folder"))?;
        replace(&path, |file| std::io::copy(&mut File::open(from)?, file).map(drop))?;
        Ok(object)
    }
}

/// The folder that a location means.
fn folder_of(location: &str) -> Result<PathBuf, Error> {
    let refused = |why: &str| Error::Usage {
        message: format!("goldens cannot be read from `{location}`: {why}"),
        hint: "give a folder, or a `file:///…`, `s3://…` or `gs://…` URL".to_owned(),
    };
    let path = match location.split_once("://") {
        None => PathBuf::from(location),
        Some(("file", path)) if path.starts_with('/') => {
            let decoded = percent_encoding::percent_decode_str(path).decode_utf8();
            PathBuf::from(decoded.map_err(|_| refused("it is not UTF-8"))?.as_ref())
        }
        Some(("file", _)) => return Err(refused("a file URL names no host")),
        Some(_) => return Err(refused("it is in an object store")),
    };
    std::fs::canonicalize(&path).map_err(|error| Error::Input {
        message: format!("goldens cannot be read from `{location}`: {error}"),
        hint: "`runner record --model-list FILE --out DIR` records some".to_owned(),
    })
}

fn corrupt(path: &Path, problem: &str) -> Unusable {
    Unusable::Corrupt { problem: format!("`{}`: {problem}", path.display()) }
}

fn read_capped(path: &Path) -> Result<Vec<u8>, std::io::Error> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_ENTRY_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn parse(bytes: &[u8]) -> Result<Entry, String> {
    let entry: Entry = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if entry.format != FORMAT {
        return Err(format!("its format is {} and not {FORMAT}", entry.format));
    }
    if !std::iter::once(&entry.outputs).chain(&entry.wide).all(Object::is_sane) {
        return Err("a hash in it is no SHA-256".to_owned());
    }
    Ok(entry)
}

/// Whether the file is the one that was recorded.
fn check(path: &Path, object: &Object) -> Result<(), String> {
    let length = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if length != object.bytes {
        return Err(format!("it has {length} bytes where {} were recorded", object.bytes));
    }
    let (sha256, _) = hash(path).map_err(|error| error.to_string())?;
    if sha256 == object.sha256 { Ok(()) } else { Err(format!("its SHA-256 is {sha256}")) }
}

fn hash(path: &Path) -> Result<(String, u64), std::io::Error> {
    let (mut file, mut digest) = (File::open(path)?, Sha256::new());
    let (mut buffer, mut bytes) = (vec![0; 1 << 16], 0);
    loop {
        let length = file.read(&mut buffer)?;
        if length == 0 {
            return Ok((hex::encode(digest.finalize()), bytes));
        }
        digest.update(&buffer[..length]);
        bytes += length as u64;
    }
}

/// Writes a file so that it is there whole or not at all.
fn replace(
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<(), std::io::Error>,
) -> Result<(), std::io::Error> {
    let mut new = begin(path)?;
    write(new.as_file_mut())?;
    settle(new, path)
}

/// A file beside `path`, which is to take its place.
pub(super) fn begin(path: &Path) -> Result<NamedTempFile, std::io::Error> {
    let folder = path.parent().expect("it is below the folder of goldens");
    tempfile::Builder::new().prefix(".new-").tempfile_in(folder)
}

/// Puts what was written in its place.
pub(super) fn settle(new: NamedTempFile, path: &Path) -> Result<(), std::io::Error> {
    new.as_file().sync_all()?;
    // A temporary file is private; goldens are as readable as the user's other files.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    new.as_file().set_permissions(mode)?;
    new.persist(path).map(drop).map_err(|error| error.error)
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
