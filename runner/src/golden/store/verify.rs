//! Whether goldens are there and whole: every file that is named is fetched and hashed.

use std::path::PathBuf;

use super::{MAX_ENTRY_BYTES, Remote, Store, Unusable, check, parse, read_capped};
use crate::Error;

/// What verifying found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Entries looked at.
    pub entries: u64,
    /// Entries whose outputs were not close to the host's when they were recorded.
    pub not_close: u64,
    /// Bytes hashed.
    pub bytes: u64,
    /// Name of an entry or file, and what is wrong with it.
    pub problems: Vec<(String, String)>,
}

impl Store {
    /// Whether there is anything to compare with: an object store is asked for its entries. Must not
    /// be called on a thread that drives the runtime.
    pub fn is_there(&self) -> Result<(), Error> {
        self.remote.as_ref().map_or(Ok(()), |remote| self.list(remote).map(drop))
    }

    /// Names of the entries in the object store, of which there is at least one.
    fn list(&self, remote: &Remote) -> Result<Vec<String>, Error> {
        let names = remote.entries().map_err(|problem| unreachable(&problem))?;
        if names.is_empty() { Err(unreachable("there is no golden")) } else { Ok(names) }
    }

    /// Fetches every entry, and what it names, that is in the object store and not here; forgets
    /// the entries that are not there any more.
    fn fetch_all(&self, remote: &Remote) -> Result<(), Error> {
        let folder = self.root.join("cases");
        let names = self.list(remote)?;
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
        for name in names {
            let path = folder.join(name);
            self.fetch(&path, MAX_ENTRY_BYTES).map_err(|error| unreachable(&error.to_string()))?;
            // What is wrong with it is found below.
            let Ok(entry) = read_capped(&path).map_err(drop).and_then(|b| parse(&b).map_err(drop))
            else {
                continue;
            };
            for object in std::iter::once(&entry.outputs).chain(&entry.wide) {
                if let Err(Unusable::Unreachable { problem }) = self.whole(object) {
                    return Err(unreachable(&problem));
                }
            }
        }
        Ok(())
    }

    /// Looks at every entry and every file that it names, after fetching them where they are in an
    /// object store. Must not be called on a thread that drives the runtime.
    pub fn verify(&self) -> Result<Verified, Error> {
        if let Some(remote) = &self.remote {
            self.fetch_all(remote)?;
        }
        let folder = self.root.join("cases");
        let entries = std::fs::read_dir(&folder).map_err(Error::file("read", &folder))?;
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        let mut found = Verified::default();
        // What is left of a write that was cut off begins with a dot, and no case is found by it.
        for path in paths.iter().filter(|path| path.extension().is_some_and(|e| e == "json")) {
            found.entries += 1;
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let read = read_capped(path).map_err(|error| error.to_string());
            let entry = match read.and_then(|bytes| parse(&bytes)) {
                Ok(entry) => entry,
                Err(problem) => {
                    found.problems.push((format!("cases/{name}"), problem));
                    continue;
                }
            };
            if *path != self.entry(&entry.case) {
                let problem = format!("it is of `{}`, which has another name", entry.case);
                found.problems.push((format!("cases/{name}"), problem));
            }
            found.not_close += u64::from(!entry.close_to.held);
            for object in std::iter::once(&entry.outputs).chain(&entry.wide) {
                found.bytes += object.bytes;
                let path = self.object(object);
                let sound = check(&path, object).and_then(|()| {
                    crate::compare::check_file(&path).map_err(|error| error.to_string())
                });
                if let Err(problem) = sound {
                    let file = path.strip_prefix(&self.root).unwrap_or(&path).display();
                    found.problems.push((entry.case.to_string(), format!("{file}: {problem}")));
                }
            }
        }
        Ok(found)
    }
}

fn unreachable(problem: &str) -> Error {
    Error::Input {
        message: format!("goldens cannot be had from the object store: {problem}"),
        hint: "look at the URL, and at what `AWS_*` or `GOOGLE_*` variables say of region and \
               credentials"
            .to_owned(),
    }
}
