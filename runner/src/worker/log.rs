//! What a worker wrote to stdout and stderr while one case ran: the head, the tail, and how much
//! lay between.
//!
//! The worker appends to a file, never to a pipe, so that no amount of output can block it or us.
//! It is made hollow while it grows, so that a case that writes gigabytes does not fill the disk.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use nix::fcntl::{FallocateFlags, fallocate};
use protocol::evidence::LogExcerpt;

/// Bytes kept from the beginning of a case's output.
pub const HEAD_BYTES: u64 = 4 * 1024;
/// Bytes kept from its end.
pub const TAIL_BYTES: u64 = 8 * 1024;
/// Bytes between head and tail at which their room on the disk is given back.
const CUT_AT_BYTES: u64 = 16 * 1024 * 1024;

/// The output of one case, being captured.
#[derive(Debug)]
pub struct LogCapture {
    file: Option<File>,
    /// Where this case's output begins in the file.
    begin: u64,
    /// Up to where the file has been hollowed out.
    hollow_to: u64,
}

impl LogCapture {
    /// Begins at the present end of the file. A file that cannot be opened gives an empty excerpt.
    #[must_use]
    pub fn begin(path: &Path) -> Self {
        let file = OpenOptions::new().read(true).write(true).open(path).ok();
        let begin = file.as_ref().and_then(|f| f.metadata().ok()).map_or(0, |m| m.len());
        Self { file, begin, hollow_to: begin + HEAD_BYTES }
    }

    /// Gives back the disk space between head and tail when there is much of it. Called now and
    /// then while the case runs. Nothing moves: the file becomes hollow, and a writer that appends
    /// meanwhile loses nothing. A file system that has no holes keeps it all.
    pub fn look(&mut self) {
        let Some(file) = &self.file else { return };
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        let end = length.saturating_sub(TAIL_BYTES);
        if end.saturating_sub(self.hollow_to) < CUT_AT_BYTES {
            return;
        }
        let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        let (from, size) = (self.hollow_to, end - self.hollow_to);
        if let (Ok(from), Ok(size)) = (from.try_into(), size.try_into())
            && fallocate(file, flags, from, size).is_ok()
        {
            self.hollow_to = end;
        }
    }

    /// The excerpt, once the case is over.
    #[must_use]
    pub fn finish(mut self) -> LogExcerpt {
        let length = self.file.as_ref().and_then(|f| f.metadata().ok()).map_or(0, |m| m.len());
        let total = length.saturating_sub(self.begin);
        let head = self.read(self.begin, total.min(HEAD_BYTES));
        let tail_length = total.saturating_sub(head.len() as u64).min(TAIL_BYTES);
        let tail = self.read(length - tail_length, tail_length);
        let dropped_bytes = total.saturating_sub((head.len() + tail.len()) as u64);
        LogExcerpt { head: text(&head), tail: text(&tail), dropped_bytes }
    }

    fn read(&mut self, from: u64, length: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Some(file) = &mut self.file
            && file.seek(SeekFrom::Start(from)).is_ok()
        {
            // What cannot be read is not kept; the count of dropped bytes shows it.
            let _ = file.take(length).read_to_end(&mut bytes);
        }
        bytes
    }
}

/// Any bytes as text; NUL, which no database text can hold, becomes the replacement character.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn append(path: &Path, bytes: &[u8]) {
        let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        file.write_all(bytes).unwrap();
    }

    #[test]
    fn a_short_output_is_whole_and_that_of_earlier_cases_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("worker.log");
        append(&path, b"earlier case\n");
        let mut capture = LogCapture::begin(&path);
        append(&path, b"F1130 scatter.cc:154\xff\0");
        capture.look();
        let log = capture.finish();
        assert_eq!(log.head, "F1130 scatter.cc:154\u{fffd}\u{fffd}");
        assert_eq!((log.tail.as_str(), log.dropped_bytes), ("", 0));
    }

    #[test]
    fn a_long_output_keeps_both_ends_and_counts_the_rest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("worker.log");
        append(&path, b"x");
        let capture = LogCapture::begin(&path);
        append(&path, &vec![b'a'; 5000]);
        append(&path, &vec![b'b'; 20_000]);
        append(&path, b"end");
        let log = capture.finish();
        assert!(log.head.len() == 4096 && log.head.starts_with('a'));
        assert!(log.tail.len() == 8192 && log.tail.ends_with("end"));
        assert_eq!(log.dropped_bytes, 25_003 - 4096 - 8192);
    }

    #[test]
    fn gigabytes_do_not_stay_on_disk_and_no_byte_goes_uncounted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("worker.log");
        append(&path, b"earlier");
        let mut capture = LogCapture::begin(&path);
        append(&path, b"begin");
        let block = vec![b'.'; 1024 * 1024];
        for _ in 0..64 {
            append(&path, &block);
            capture.look();
        }
        append(&path, b"end");
        let on_disk = std::fs::metadata(&path).unwrap().blocks() * 512;
        assert!(on_disk < 2 * CUT_AT_BYTES, "{on_disk}");
        let log = capture.finish();
        assert!(log.head.starts_with("begin") && log.tail.ends_with("end"));
        let kept = (log.head.len() + log.tail.len()) as u64;
        assert_eq!(kept + log.dropped_bytes, 5 + 64 * 1024 * 1024 + 3);
    }
}
