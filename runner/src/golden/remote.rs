//! Goldens in an object store (`s3:`, `gs:`), fetched once into a folder of this machine.
//!
//! ```text
//! <cache>/goldens/<hash of the URL>/cases/      entries, asked for again in every run
//! <cache>/goldens/<hash of the URL>/objects/    outputs, under their hash: what is there is right
//! ```
//!
//! Credentials and regions are what `AWS_*` and `GOOGLE_*` variables say, as for other programs.
//! What has not been used for longest is removed where the cache would outgrow its limit.

use std::fs::{File, FileTimes};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt as _, parse_url_opts};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::runtime::Handle;

use super::store::{begin, settle};
use crate::Error;
use crate::client::install_tls;

/// What was used within this time may be in use, and is not removed.
const IN_USE: Duration = Duration::from_secs(3600);
/// How long a store may take to list its entries: it is tried again in between.
const LISTING_LIMIT: Duration = Duration::from_secs(60);
/// Variables that say how to reach a store.
const VARIABLES: &[&str] = &["AWS_", "GOOGLE_"];

/// Where fetched goldens are kept, and how much of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// The folder.
    pub folder: PathBuf,
    /// Most bytes of outputs in it.
    pub most_bytes: u64,
}

/// A place in an object store.
#[derive(Debug, Clone)]
pub(super) struct Remote {
    objects: Arc<dyn ObjectStore>,
    prefix: Key,
    cache: Cache,
    runtime: Handle,
}

impl Remote {
    /// The store that a URL names; nothing is asked of it yet. Must be called within a runtime.
    pub(super) fn open(location: &str, cache: &Cache) -> Result<Self, Error> {
        let refused = |why: String| Error::Usage {
            message: format!("goldens cannot be read from `{location}`: {why}"),
            hint: "give a folder, or a URL like `s3://bucket/folder` or `gs://bucket/folder`"
                .to_owned(),
        };
        install_tls();
        let url = reqwest::Url::parse(location).map_err(|error| refused(error.to_string()))?;
        let settings = std::env::vars()
            .filter(|(name, _)| VARIABLES.iter().any(|prefix| name.starts_with(prefix)))
            .map(|(name, value)| (name.to_lowercase(), value));
        let (objects, prefix) =
            parse_url_opts(&url, settings).map_err(|error| refused(error.to_string()))?;
        let runtime = Handle::current();
        Ok(Self { objects: Arc::from(objects), prefix, cache: cache.clone(), runtime })
    }

    /// The folder that what comes from this URL is kept in.
    pub(super) fn folder(location: &str, cache: &Cache) -> PathBuf {
        let hash = hex::encode(Sha256::digest(location.trim_end_matches('/')));
        cache.folder.join(&hash[..16])
    }

    /// Fetches one file, of at most so many bytes. False where there is none.
    ///
    /// Must not be called on a thread that drives the runtime.
    pub(super) fn fetch(&self, name: &str, to: &Path, most_bytes: u64) -> Result<bool, String> {
        self.runtime.block_on(self.fetched(name, to, most_bytes))
    }

    async fn fetched(&self, name: &str, to: &Path, most_bytes: u64) -> Result<bool, String> {
        let told = |error: &dyn std::error::Error| format!("fetching `{name}` failed: {error}");
        let found = match self.objects.get(&self.key(name)).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => return Ok(false),
            Err(error) => return Err(told(&error)),
        };
        if found.meta.size > most_bytes {
            let size = found.meta.size;
            return Err(format!("`{name}` has {size} bytes where at most {most_bytes} can be"));
        }
        let folder = to.parent().expect("it is below the cache");
        std::fs::create_dir_all(folder).map_err(|error| told(&error))?;
        let mut chunks = found.into_stream();
        let (mut new, mut left) = (begin(to).map_err(|error| told(&error))?, most_bytes);
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| told(&error))?;
            left = left
                .checked_sub(chunk.len() as u64)
                .ok_or_else(|| format!("`{name}` is longer than its store says"))?;
            new.write_all(&chunk).map_err(|error| told(&error))?;
        }
        settle(new, to).map_err(|error| told(&error))?;
        Ok(true)
    }

    /// Names of the entries there.
    ///
    /// Must not be called on a thread that drives the runtime.
    pub(super) fn entries(&self) -> Result<Vec<String>, String> {
        let listed = self.objects.list(Some(&self.key("cases")));
        let names = listed.map_ok(|found| found.location.filename().unwrap_or_default().to_owned());
        let listing = tokio::time::timeout(LISTING_LIMIT, names.try_collect());
        match self.runtime.block_on(listing) {
            Ok(Ok(names)) => Ok(names),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no answer within {} s", LISTING_LIMIT.as_secs())),
        }
    }

    /// Notes that a file of the cache was used.
    pub(super) fn used(&self, path: &Path) {
        let now = FileTimes::new().set_modified(SystemTime::now());
        // Only the order of what is removed depends on it.
        let _ = File::options().append(true).open(path).and_then(|file| file.set_times(now));
    }

    /// Removes what was not used for longest where there is more than the cache may hold.
    pub(super) fn make_room(&self) {
        let now = SystemTime::now();
        for unused in excess(files_below(&self.cache.folder), self.cache.most_bytes, now) {
            let _ = std::fs::remove_file(unused);
        }
    }

    fn key(&self, name: &str) -> Key {
        name.split('/').fold(self.prefix.clone(), |key, part| key.join(part))
    }
}

/// A file with its size and when it was used.
type Used = (PathBuf, u64, SystemTime);

/// Outputs in the cache, of every URL.
fn files_below(cache: &Path) -> Vec<Used> {
    let children = |folder: PathBuf| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let stores = children(cache.to_owned()).into_iter();
    let folders = stores.flat_map(|store| children(store.join("objects")));
    folders
        .flat_map(children)
        .filter_map(|path| {
            let about = path.metadata().ok()?;
            Some((path, about.len(), about.modified().ok()?))
        })
        .collect()
}

/// What must go so that no more than so many bytes are left: the longest unused first, and nothing
/// that may be in use.
fn excess(mut files: Vec<Used>, most_bytes: u64, now: SystemTime) -> Vec<PathBuf> {
    files.sort_by_key(|(_, _, used)| *used);
    let mut bytes: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
    let mut gone = Vec::new();
    for (path, size, used) in files {
        let idle = now.duration_since(used).unwrap_or_default();
        if bytes <= most_bytes || idle < IN_USE {
            break;
        }
        bytes -= size;
        gone.push(path);
    }
    gone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_longest_goes_first_and_nothing_that_may_be_in_use() {
        let now = SystemTime::now();
        let file = |name: &str, bytes: u64, hours: u64| {
            (PathBuf::from(name), bytes, now - Duration::from_secs(hours * 3600))
        };
        let files = || vec![file("new", 4, 0), file("old", 4, 9), file("older", 4, 20)];
        for (most_bytes, gone) in
            [(12, vec![]), (11, vec!["older"]), (8, vec!["older"]), (1, vec!["older", "old"])]
        {
            let found = excess(files(), most_bytes, now);
            assert_eq!(found, gone.iter().map(PathBuf::from).collect::<Vec<_>>(), "{most_bytes}");
        }
    }
}
