//! The append-only record of a run: JSON lines, one per attempt and a few besides.
//!
//! A record is with the kernel as soon as `append` returns, so that no death of this process loses
//! it. It is on the disk after at most [`SYNC_INTERVAL`] and [`SYNC_RECORDS`] records, whichever
//! comes first: that is what a power cut can cost. Reading stops at the last whole record.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use chrono::{DateTime, Utc};
use protocol::ingest_api::Attempt;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::event::PeakMemory;

/// Longest time that a record may be with the kernel only.
pub const SYNC_INTERVAL: Duration = Duration::from_millis(100);
/// Most records that may be with the kernel only; the next one waits.
pub const SYNC_RECORDS: usize = 64;

/// Longest line that is read: what has no end by then is no record of ours.
const MAX_LINE_BYTES: u64 = 64 * 1024 * 1024;

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// The runner began, or began again, to execute the plan.
    Started {
        /// When.
        at: DateTime<Utc>,
        /// Hash of the manifest.
        manifest_hash: String,
    },
    /// An attempt is over.
    Attempt(Box<Attempt>),
    /// Something that belongs to the run and not to a case.
    Finding {
        /// One line.
        text: String,
    },
    /// The runner left in order.
    Ended {
        /// When.
        at: DateTime<Utc>,
        /// `finished`, `stopped by SIGINT`, `aborted: …`.
        ending: String,
        /// What it held at most.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        peak_memory: Option<PeakMemory>,
    },
}

/// The writing end.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    shared: Arc<Shared>,
    syncer: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<SyncState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SyncState {
    unsynced: usize,
    failed: Option<std::io::ErrorKind>,
    closing: bool,
}

impl Journal {
    /// Opens it for appending, made where it is not there. What follows the last whole record (a
    /// line that was being written when the machine stopped) is cut off.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(Error::file("open", path))?;
        let whole = scan(path, |_| {})?;
        file.set_len(whole).map_err(Error::file("write", path))?;
        file.seek(SeekFrom::Start(whole)).map_err(Error::file("write", path))?;
        Self::on(file, path)
    }

    fn on(file: File, path: &Path) -> Result<Self, Error> {
        let shared = Arc::new(Shared::default());
        let syncing = file.try_clone().map_err(Error::file("open", path))?;
        let for_thread = Arc::clone(&shared);
        let syncer = std::thread::Builder::new()
            .name("journal-sync".to_owned())
            .spawn(move || sync_loop(&syncing, &for_thread))
            .map_err(Error::file("open", path))?;
        Ok(Self { path: path.to_owned(), file, shared, syncer: Some(syncer) })
    }

    /// Adds a record. An error means that it is not, or not wholly, in the journal; what was there
    /// before stays readable.
    pub fn append(&mut self, record: &Record) -> Result<(), Error> {
        let mut line = serde_json::to_vec(record).expect("a record has text keys only");
        line.push(b'\n');
        let failed = Error::file("write", &self.path);
        if let Err(error) = self.file.write_all(&line) {
            return Err(failed(error));
        }
        let mut state = self.shared.state.lock().expect("no holder panics");
        state.unsynced += 1;
        self.shared.changed.notify_all();
        while state.unsynced >= SYNC_RECORDS && state.failed.is_none() {
            state = self.shared.changed.wait(state).expect("no holder panics");
        }
        match state.failed {
            Some(kind) => Err(failed(kind.into())),
            None => Ok(()),
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.shared.state.lock().expect("no holder panics").closing = true;
        self.shared.changed.notify_all();
        if let Some(syncer) = self.syncer.take() {
            let _ = syncer.join();
        }
    }
}

/// Waits for records, gives them a moment to gather, and puts them on the disk.
fn sync_loop(file: &File, shared: &Shared) {
    let mut state = shared.state.lock().expect("no holder panics");
    loop {
        while state.unsynced == 0 && !state.closing {
            state = shared.changed.wait(state).expect("no holder panics");
        }
        if state.unsynced == 0 {
            return;
        }
        let gather = |state: &mut SyncState| state.unsynced < SYNC_RECORDS && !state.closing;
        (state, _) = shared
            .changed
            .wait_timeout_while(state, SYNC_INTERVAL, gather)
            .expect("no holder panics");
        let synced = state.unsynced;
        drop(state);
        let result = file.sync_data();
        state = shared.state.lock().expect("no holder panics");
        state.unsynced -= synced;
        if let Err(error) = result {
            state.failed = Some(error.kind());
        }
        shared.changed.notify_all();
    }
}

/// A journal as it was read.
#[derive(Debug, Default)]
pub struct Contents {
    /// Records up to the last whole one.
    pub records: Vec<Record>,
    /// Bytes that those take.
    pub whole_bytes: u64,
    /// Bytes after them that are no whole record.
    pub torn_bytes: u64,
}

/// Reads a journal up to its last whole record; one that is not there is empty.
pub fn read(path: &Path) -> Result<Contents, Error> {
    let mut contents = Contents::default();
    contents.whole_bytes = scan(path, |record| contents.records.push(record))?;
    let length = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    contents.torn_bytes = length.saturating_sub(contents.whole_bytes);
    Ok(contents)
}

/// Shows every whole record, without keeping any; gives the bytes that they take.
pub fn scan(path: &Path, mut see: impl FnMut(Record)) -> Result<u64, Error> {
    let mut reader = match File::open(path) {
        Ok(file) => Reader::new(file, 0),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(Error::file("read", path)(error)),
    };
    while let Some(record) = reader.next_record().map_err(Error::file("read", path))? {
        see(record);
    }
    Ok(reader.offset)
}

/// Reads records one by one, from a known offset on; for following a journal that grows.
#[derive(Debug)]
pub struct Reader {
    file: BufReader<File>,
    /// End of the last whole record that was read.
    pub offset: u64,
    /// Where the next read would begin; elsewhere after a line that was not whole.
    position: Option<u64>,
}

impl Reader {
    /// Begins at `offset`, which must be the end of a record.
    #[must_use]
    pub fn new(file: File, offset: u64) -> Self {
        Self { file: BufReader::new(file), offset, position: None }
    }

    /// The next whole record; nothing at the end, or where a line is not whole (yet).
    pub fn next_record(&mut self) -> Result<Option<Record>, std::io::Error> {
        if self.position != Some(self.offset) {
            self.file.seek(SeekFrom::Start(self.offset))?;
        }
        self.position = None;
        let mut line = Vec::new();
        (&mut self.file).take(MAX_LINE_BYTES).read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') {
            return Ok(None);
        }
        let Ok(record) = serde_json::from_slice(&line) else { return Ok(None) };
        self.offset += line.len() as u64;
        self.position = Some(self.offset);
        Ok(Some(record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(text: &str) -> Record {
        Record::Finding { text: text.to_owned() }
    }

    #[test]
    fn a_torn_last_line_is_cut_and_the_next_record_follows_the_last_whole_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let mut journal = Journal::open(&path).unwrap();
        journal.append(&finding("a")).unwrap();
        journal.append(&finding("b")).unwrap();
        drop(journal);
        for torn in
            [&b"{\"record\":\"finding\",\"te"[..], b"\0\0\0\0", b"{\"record\":1}\n", b"\xff\n"]
        {
            let mut file = OpenOptions::new().append(true).open(&path).unwrap();
            file.write_all(torn).unwrap();
            let contents = read(&path).unwrap();
            assert_eq!(contents.records, [finding("a"), finding("b")]);
            assert_eq!(contents.torn_bytes, torn.len() as u64);
            drop(Journal::open(&path).unwrap());
            assert_eq!(read(&path).unwrap().torn_bytes, 0);
        }
        let mut journal = Journal::open(&path).unwrap();
        journal.append(&finding("c")).unwrap();
        assert_eq!(read(&path).unwrap().records.len(), 3);
    }

    #[test]
    fn a_record_is_readable_as_soon_as_it_is_appended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let mut journal = Journal::open(&path).unwrap();
        let mut reader = Reader::new(File::open(&path).unwrap(), 0);
        assert_eq!(reader.next_record().unwrap(), None);
        for index in 0..3 * SYNC_RECORDS {
            let record = finding(&index.to_string());
            journal.append(&record).unwrap();
            assert_eq!(reader.next_record().unwrap(), Some(record));
        }
    }

    #[test]
    fn a_full_disk_is_an_error_and_not_a_lost_record() {
        let full = Path::new("/dev/full");
        let file = OpenOptions::new().write(true).open(full).unwrap();
        let mut journal = Journal::on(file, full).unwrap();
        let error = journal.append(&finding("x")).unwrap_err();
        assert!(error.to_string().contains("/dev/full"), "{error}");
        assert!(error.hint().contains("disk space"), "{}", error.hint());
    }
}
