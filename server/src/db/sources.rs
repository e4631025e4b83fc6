//! The table `run_sources`: who sends results of a run, and which shards have ended.

use chrono::{DateTime, Utc};
use protocol::ingest_api::Source;
use sqlx::{PgConnection, PgExecutor};

use super::count;
use super::runs::LockedRun;

/// A source as stored.
#[derive(Debug, Clone)]
pub struct SourceRow {
    /// Ours, from 0 in each run.
    pub number: i16,
    /// Random name of its journal.
    pub journal: String,
    /// Shard it holds and how many there are; absent for a runner that does not say.
    pub part: Option<(u32, u32)>,
    /// Its attempts that are stored.
    pub received: u64,
    /// When its last case ended by its own clock, if it has sealed.
    pub finished_at: Option<DateTime<Utc>>,
    /// When it said that it has nothing more to send.
    pub sealed_at: Option<DateTime<Utc>>,
}

/// Every source of the run, in the order in which they came.
pub async fn list(db: impl PgExecutor<'_>, run_id: i64) -> sqlx::Result<Vec<SourceRow>> {
    let rows = sqlx::query!(
        "SELECT number, journal, shard, shards, received, finished_at, sealed_at
         FROM run_sources WHERE run_id = $1 ORDER BY number",
        run_id
    )
    .fetch_all(db)
    .await?;
    let whole = |number: Option<i32>| number.and_then(|number| u32::try_from(number).ok());
    Ok(rows
        .into_iter()
        .map(|row| SourceRow {
            number: row.number,
            journal: row.journal,
            part: whole(row.shard).zip(whole(row.shards)),
            received: count(row.received),
            finished_at: row.finished_at,
            sealed_at: row.sealed_at,
        })
        .collect())
}

/// Stores a source that is not there, under that number.
pub async fn create(
    connection: &mut PgConnection,
    run: &LockedRun,
    number: i16,
    source: Option<&Source>,
) -> sqlx::Result<()> {
    let whole = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
    sqlx::query!(
        "INSERT INTO run_sources (run_id, number, journal, shard, shards)
         VALUES ($1, $2, $3, $4, $5)",
        run.id,
        number,
        source.map_or("", |source| source.journal.as_str()),
        source.map(|source| whole(source.shard)),
        source.map(|source| whole(source.shards))
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Notes that attempts of it were stored.
pub async fn note_received(
    connection: &mut PgConnection,
    run: &LockedRun,
    number: i16,
    stored: i64,
) -> sqlx::Result<()> {
    sqlx::query!(
        "UPDATE run_sources SET received = received + $3 WHERE run_id = $1 AND number = $2",
        run.id,
        number,
        stored
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Notes that it has nothing more to send.
pub async fn seal(
    connection: &mut PgConnection,
    run: &LockedRun,
    number: i16,
    finished_at: DateTime<Utc>,
    now: DateTime<Utc>,
) -> sqlx::Result<()> {
    sqlx::query!(
        "UPDATE run_sources SET finished_at = $3, sealed_at = COALESCE(sealed_at, $4)
         WHERE run_id = $1 AND number = $2",
        run.id,
        number,
        finished_at,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}
