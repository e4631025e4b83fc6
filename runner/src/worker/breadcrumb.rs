//! The file in which a worker keeps the operators that it is inside of: made here, written by
//! `runner/breadcrumb`, read here after a bad end. Its layout is told there.

use std::fs::File;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use layout::{FILE_BYTES, HEADER_BYTES, LEVELS, MAGIC, NAME_BYTES, NAMES_OFFSET, RECORD_BYTES};

#[path = "../../breadcrumb/src/layout.rs"]
mod layout;

/// Variable that names the library to a fork server and its workers.
pub const LIBRARY_VARIABLE: &str = "CONFORMANCE_BREADCRUMB_LIBRARY";
/// Variable that names its file to one worker.
pub const FILE_VARIABLE: &str = "CONFORMANCE_BREADCRUMB_FILE";

/// The file of one worker; goes away with it.
#[derive(Debug)]
pub struct BreadcrumbFile {
    file: File,
    path: PathBuf,
}

/// Operators that a worker was inside of, or that an exception left through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crumb {
    /// The operator that was called first.
    pub outermost: String,
    /// The one that it had got to, by calls among operators; the same where there are none.
    pub innermost: String,
    /// Whether it had been left again. A backend that executes later ends the process then, and
    /// any operator since the last wait may be the one.
    pub left: bool,
}

impl BreadcrumbFile {
    /// Makes an empty one, with its room on the disk: a worker that wrote to a page without room
    /// would be ended by that.
    pub fn create(path: PathBuf) -> Result<Self, std::io::Error> {
        let mut options = File::options();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        let made = Self { file, path };
        nix::fcntl::posix_fallocate(&made.file, 0, FILE_BYTES as i64)?;
        Ok(made)
    }

    /// Takes its name away: from here on only the worker, which has mapped it, and this handle
    /// know it, so that nothing of it is left when either is killed.
    pub fn hide(&self) {
        // Gone already is what we want.
        let _ = std::fs::remove_file(&self.path);
    }

    /// Whether the worker writes to it.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        let mut bytes = [0; MAGIC.len()];
        self.file.read_exact_at(&mut bytes, 0).is_ok() && &bytes == MAGIC
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The operator that the worker is inside of, or was when it ended. Its main thread comes
    /// first; where that is in none, another thread may be, as those of autograd. Where none is,
    /// the one that was entered last.
    #[must_use]
    pub fn in_flight(&self) -> Option<Crumb> {
        self.find_in_flight().or_else(|| {
            self.find(|record| {
                let last = name(record, 0)?;
                Some(Crumb { outermost: last.clone(), innermost: last, left: true })
            })
        })
    }

    fn find_in_flight(&self) -> Option<Crumb> {
        self.find(|record| {
            let depth = usize::try_from(word(record, 4)?).ok()?;
            // PyTorch tells of parts of its own besides, such as `PythonDispatchMode`.
            let mut operators = (0..depth.min(LEVELS)).filter_map(|level| name(record, level));
            let outermost = operators.next()?;
            let innermost = operators.next_back().unwrap_or_else(|| outermost.clone());
            Some(Crumb { outermost, innermost, left: false })
        })
    }

    /// The operator that the last exception of this case left through.
    #[must_use]
    pub fn raised(&self) -> Option<Crumb> {
        self.find(|record| {
            let outermost = name(record, LEVELS + 1)?;
            let innermost = name(record, LEVELS).unwrap_or_else(|| outermost.clone());
            Some(Crumb { outermost, innermost, left: false })
        })
    }

    fn find(&self, see: impl Fn(&[u8]) -> Option<Crumb>) -> Option<Crumb> {
        let mut bytes = vec![0; FILE_BYTES];
        self.file.read_exact_at(&mut bytes, 0).ok()?;
        let (header, records) = bytes.split_at(HEADER_BYTES);
        if !header.starts_with(MAGIC) {
            return None;
        }
        let main = word(header, 8)?;
        let taken = |record: &&[u8]| word(record, 0).is_some_and(|thread| thread != 0);
        let records = || records.chunks_exact(RECORD_BYTES).filter(taken);
        let (first, others): (Vec<_>, Vec<_>) =
            records().partition(|record| word(record, 0) == Some(main));
        first.into_iter().chain(others).find_map(see)
    }
}

impl Drop for BreadcrumbFile {
    fn drop(&mut self) {
        self.hide();
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// A name that looks like one of an operator; whoever crashed may have written anything.
fn name(record: &[u8], index: usize) -> Option<String> {
    let begin = NAMES_OFFSET + index * NAME_BYTES;
    let text = record.get(begin..begin + NAME_BYTES)?.split(|byte| *byte == 0).next()?;
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b":._".contains(byte);
    let text = std::str::from_utf8(text).ok()?;
    (text.contains("::") && text.bytes().all(|byte| allowed(&byte))).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Written {
        _folder: tempfile::TempDir,
        file: BreadcrumbFile,
    }

    impl Written {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let file = BreadcrumbFile::create(folder.path().join("c")).unwrap();
            file.file.write_all_at(MAGIC, 0).unwrap();
            file.file.write_all_at(&7_u32.to_le_bytes(), 8).unwrap();
            Self { _folder: folder, file }
        }

        fn thread(&self, index: usize, thread: u32, depth: u32) {
            let at = (HEADER_BYTES + index * RECORD_BYTES) as u64;
            self.file.file.write_all_at(&thread.to_le_bytes(), at).unwrap();
            self.file.file.write_all_at(&depth.to_le_bytes(), at + 4).unwrap();
        }

        fn name(&self, index: usize, level: usize, name: &[u8]) {
            let at = HEADER_BYTES + index * RECORD_BYTES + NAMES_OFFSET + level * NAME_BYTES;
            self.file.file.write_all_at(name, at as u64).unwrap();
        }
    }

    fn crumb(outermost: &str, innermost: &str) -> Option<Crumb> {
        Some(Crumb {
            outermost: outermost.to_owned(),
            innermost: innermost.to_owned(),
            left: false,
        })
    }

    #[test]
    fn the_main_thread_comes_first_and_only_what_was_not_left_counts() {
        let written = Written::new();
        assert_eq!(written.file.in_flight(), None);
        written.thread(0, 9, 1);
        written.name(0, 0, b"aten::mm\0");
        assert_eq!(written.file.in_flight(), crumb("aten::mm", "aten::mm"));
        written.thread(1, 7, 2);
        written.name(1, 0, b"aten::linear\0");
        written.name(1, 1, b"aten::addmm.out\0");
        written.name(1, 2, b"PythonDispatchMode\0");
        written.thread(1, 7, 3);
        assert_eq!(written.file.in_flight(), crumb("aten::linear", "aten::addmm.out"));
        written.thread(1, 7, 2);
        assert_eq!(written.file.in_flight(), crumb("aten::linear", "aten::addmm.out"));
        written.thread(1, 7, 0);
        assert_eq!(written.file.in_flight(), crumb("aten::mm", "aten::mm"));
        written.thread(0, 0, 1);
        let last = written.file.in_flight().unwrap();
        assert_eq!((last.outermost.as_str(), last.left), ("aten::linear", true), "entered last");
        written.thread(1, 0, 1);
        assert_eq!(written.file.in_flight(), None, "the threads have ended");
    }

    #[test]
    fn what_an_exception_left_through_is_told_apart() {
        let written = Written::new();
        written.thread(0, 7, 0);
        written.name(0, LEVELS, b"aten::mm\0");
        written.name(0, LEVELS + 1, b"aten::matmul\0");
        assert_eq!(written.file.raised(), crumb("aten::matmul", "aten::mm"));
    }

    #[test]
    fn rubbish_names_nothing() {
        let written = Written::new();
        for name in [&b"<script>::\0"[..], b"aten add\0", b"\xff::x\0", b"\0", &[b'x'; NAME_BYTES]]
        {
            written.thread(0, 7, 1);
            written.name(0, 0, name);
            assert_eq!(written.file.in_flight(), None, "{name:?}");
        }
        written.name(0, 0, b"aten::add.Tensor\0");
        written.thread(0, 7, u32::MAX);
        assert_eq!(written.file.in_flight(), crumb("aten::add.Tensor", "aten::add.Tensor"));
        written.file.file.set_len(100).unwrap();
        assert_eq!(written.file.in_flight(), None, "someone has cut it");
    }
}
