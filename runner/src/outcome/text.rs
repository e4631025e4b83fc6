//! Texts cut to what is kept of them.

use protocol::ingest_api::MAX_MESSAGE_BYTES;

/// The first line, cut to what a message may hold.
#[must_use]
pub fn one_line(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default().replace('\0', "\u{fffd}");
    let mut end = line.len().min(MAX_MESSAGE_BYTES);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    line[..end].to_owned()
}

/// Longest traceback kept; the end is where the error is.
pub(super) const MAX_TRACEBACK_BYTES: usize = 32 * 1024;

pub(super) fn last_bytes(text: &str, most: usize) -> &str {
    let mut begin = text.len().saturating_sub(most);
    while !text.is_char_boundary(begin) {
        begin += 1;
    }
    &text[begin..]
}
