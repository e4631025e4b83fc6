//! Cursor paging: `limit`, and an opaque `cursor` that is the `next` of the answer before.

use crate::error::{Error, Result};

/// Lines of an answer when nothing is said.
const DEFAULT_LIMIT: u32 = 100;
/// Most lines of an answer.
const MAX_LIMIT: u32 = 1_000;

/// How many lines are wanted.
pub(super) fn limit(limit: Option<u32>) -> Result<usize> {
    match limit.unwrap_or(DEFAULT_LIMIT) {
        limit @ 1..=MAX_LIMIT => Ok(limit as usize),
        other => Err(Error::bad_request(
            format!("`limit` is {other}"),
            format!("ask for 1 to {MAX_LIMIT} lines and follow `next`"),
        )),
    }
}

/// One more than is wanted, to know whether there is a next page.
pub(super) fn fetch(limit: usize) -> i64 {
    i64::try_from(limit).map_or(i64::MAX, |limit| limit + 1)
}

/// Cuts the extra line off; the cursor of the last line that stays, when one was cut.
pub(super) fn cut<T>(
    rows: &mut Vec<T>,
    limit: usize,
    key: impl Fn(&T) -> String,
) -> Option<String> {
    if rows.len() <= limit {
        return None;
    }
    rows.truncate(limit);
    rows.last().map(|last| hex::encode(key(last)))
}

/// What is in a cursor that [`cut`] made.
pub(super) fn read(cursor: Option<&str>) -> Result<Option<String>> {
    let Some(cursor) = cursor else { return Ok(None) };
    hex::decode(cursor)
        .ok()
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .map(Some)
        .ok_or_else(bad)
}

/// A cursor that no answer of ours had.
pub(super) fn bad() -> Error {
    Error::bad_request("`cursor` is not one of this list", "use the `next` of the answer before")
}
