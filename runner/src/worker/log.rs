//! What a worker wrote to stdout and stderr while one case ran: the head, the tail, and how much
//! lay between.
//!
//! The worker appends to a file, never to a pipe, so that no amount of output can block it or us.
//! The file is cut while it grows, so that a case that writes gigabytes does not fill the disk.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use protocol::evidence::LogExcerpt;

/// Bytes kept from the beginning of a case's output.
pub const HEAD_BYTES: u64 = 4 * 1024;
/// Bytes kept from its end.
pub const TAIL_BYTES: u64 = 8 * 1024;
/// Size at which the file is cut while a case is still writing.
const CUT_AT_BYTES: u64 = 16 * 1024 * 1024;

/// The output of one case, being captured.
#[derive(Debug)]
pub struct LogCapture {
    file: Option<File>,
    /// Where this case's output begins in the file as it is now.
    begin: u64,
    head: Vec<u8>,
    /// Bytes of this case that were cut off the file.
    cut: u64,
    /// The last of those, which are the tail unless more comes.
    last_cut: Vec<u8>,
}

impl LogCapture {
    /// Begins at the present end of the file. A file that cannot be opened gives an empty excerpt.
    #[must_use]
    pub fn begin(path: &Path) -> Self {
        let file = OpenOptions::new().read(true).write(true).open(path).ok();
        let begin = file.as_ref().and_then(|f| f.metadata().ok()).map_or(0, |m| m.len());
        Self { file, begin, head: Vec::new(), cut: 0, last_cut: Vec::new() }
    }

    /// Takes the head while it is there, and cuts the file when it has grown too far. Called now
    /// and then while the case runs.
    pub fn look(&mut self) {
        self.fill_head();
        let Some(length) = self.length() else { return };
        if length <= CUT_AT_BYTES {
            return;
        }
        let tail = self.read(length - TAIL_BYTES, TAIL_BYTES);
        if let Some(file) = &self.file
            && file.set_len(0).is_ok()
        {
            self.cut += length.saturating_sub(self.begin);
            self.begin = 0;
            self.last_cut = tail;
        }
    }

    /// The excerpt, once the case is over.
    #[must_use]
    pub fn finish(mut self) -> LogExcerpt {
        self.fill_head();
        let length = self.length().unwrap_or(0);
        let in_file = length.saturating_sub(self.begin);
        let total = self.cut + in_file;
        let head_length = self.head.len() as u64;
        // What the head already holds is not repeated in the tail.
        let unread = if self.cut == 0 { in_file.saturating_sub(head_length) } else { in_file };
        let tail_length = unread.min(TAIL_BYTES);
        let mut tail = std::mem::take(&mut self.last_cut);
        tail.extend(self.read(length - tail_length, tail_length));
        let surplus = tail.len().saturating_sub(TAIL_BYTES as usize);
        tail.drain(..surplus);
        let dropped_bytes = total.saturating_sub(head_length + tail.len() as u64);
        LogExcerpt { head: text(&self.head), tail: text(&tail), dropped_bytes }
    }

    fn length(&self) -> Option<u64> {
        Some(self.file.as_ref()?.metadata().ok()?.len())
    }

    fn fill_head(&mut self) {
        let have = self.head.len() as u64;
        if self.cut == 0 && have < HEAD_BYTES {
            let more = self.read(self.begin + have, HEAD_BYTES - have);
            self.head.extend(more);
        }
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
    fn gigabytes_do_not_stay_on_disk() {
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
        assert!(std::fs::metadata(&path).unwrap().len() <= CUT_AT_BYTES + block.len() as u64);
        append(&path, b"end");
        let log = capture.finish();
        assert!(log.head.starts_with("begin") && log.tail.ends_with("end"));
        let kept = (log.head.len() + log.tail.len()) as u64;
        assert_eq!(kept + log.dropped_bytes, 5 + 64 * 1024 * 1024 + 3);
    }

    #[test]
    fn what_was_written_just_before_a_cut_is_still_the_tail() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("worker.log");
        append(&path, b"");
        let mut capture = LogCapture::begin(&path);
        append(&path, &vec![b'.'; 17 * 1024 * 1024]);
        append(&path, b"end");
        capture.look();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
        let log = capture.finish();
        assert!(log.tail.ends_with("end"));
        assert_eq!(log.dropped_bytes, 17 * 1024 * 1024 + 3 - HEAD_BYTES - TAIL_BYTES);
    }
}
