//! Who sends results of a run: one journal each, which holds one shard.

use protocol::ingest_api::Source;
use sqlx::PgConnection;

use crate::db::runs::LockedRun;
use crate::db::sources::{self, SourceRow};
use crate::error::{Error, Result};

/// Most shards of a run, and most sources.
const MAX_SHARDS: u32 = 10_000;

/// Refuses what can be no source.
pub(super) fn check(source: Option<&Source>) -> Result<()> {
    let Some(source) = source else { return Ok(()) };
    let is_word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if !(1..=80).contains(&source.journal.len()) || !source.journal.bytes().all(is_word) {
        return Err(Error::bad_request(
            "`source.journal` is not 1 to 80 characters of `A-Z`, `a-z`, `0-9`, `-`, `_`, `.`",
            "send a random name that stays the same for one journal",
        ));
    }
    if !(1..=MAX_SHARDS).contains(&source.shards) || !(1..=source.shards).contains(&source.shard) {
        return Err(Error::bad_request(
            format!("`source` is shard {} of {}", source.shard, source.shards),
            format!("shards are numbered from 1, and there are at most {MAX_SHARDS}"),
        ));
    }
    Ok(())
}

/// Our number of a source in a run.
pub(super) enum Found {
    /// It has sent before.
    Known(i16),
    /// The one that it will have.
    New(i16),
}

/// Our number of the source in this run. All that say how many shards there are must agree.
pub(super) async fn find(
    connection: &mut PgConnection,
    run: &LockedRun,
    source: Option<&Source>,
) -> Result<Found> {
    let known = sources::list(&mut *connection, run.id).await?;
    let journal = source.map_or("", |source| source.journal.as_str());
    let part = source.map(|source| (source.shard, source.shards));
    if let Some(row) = known.iter().find(|row| row.journal == journal) {
        let is_same = row.part == part;
        return if is_same { Ok(Found::Known(row.number)) } else { Err(contradiction(run, row)) };
    }
    let of_another_division = |row: &&SourceRow| match (row.part, part) {
        (Some((_, stored)), Some((_, sent))) => stored != sent,
        (None, _) | (_, None) => false,
    };
    if let Some(row) = known.iter().find(of_another_division) {
        return Err(contradiction(run, row));
    }
    let number =
        i16::try_from(known.len()).ok().filter(|n| u32::from(n.cast_unsigned()) < MAX_SHARDS);
    let Some(number) = number else {
        return Err(Error::conflict(
            format!("run `{}` has results from {MAX_SHARDS} journals", run.key),
            "start a new run under another key",
        ));
    };
    Ok(Found::New(number))
}

/// The same, and it is stored where it is new.
pub(super) async fn find_or_create(
    connection: &mut PgConnection,
    run: &LockedRun,
    source: Option<&Source>,
) -> Result<i16> {
    let found = find(connection, run, source).await?;
    create_if_new(connection, run, source, found).await
}

/// Stores a source that was found to be new; answers its number.
pub(super) async fn create_if_new(
    connection: &mut PgConnection,
    run: &LockedRun,
    source: Option<&Source>,
    found: Found,
) -> Result<i16> {
    match found {
        Found::Known(number) => Ok(number),
        Found::New(number) => {
            sources::create(connection, run, number, source).await?;
            Ok(number)
        }
    }
}

fn contradiction(run: &LockedRun, row: &SourceRow) -> Error {
    let stored = match row.part {
        Some((shard, shards)) => format!("shard {shard} of {shards}"),
        None => "no shard".to_owned(),
    };
    Error::conflict(
        format!("run `{}` has results of {stored} from another division into shards", run.key),
        "every shard of a run must name the same number of shards, and a journal only one of them",
    )
}

/// Shards that no source has sealed yet.
pub(super) fn waiting_for(known: &[SourceRow], shards: u32) -> Vec<u32> {
    let sealed = |shard: u32| {
        known
            .iter()
            .any(|row| row.sealed_at.is_some() && row.part.is_some_and(|(index, _)| index == shard))
    };
    (1..=shards).filter(|shard| !sealed(*shard)).collect()
}
