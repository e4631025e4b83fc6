//! The table `runs`.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use protocol::Suite;
use protocol::ingest_api::create_run;
use sqlx::types::Json;
use sqlx::{PgConnection, PgExecutor};

pub use super::run_lock::{Hold, LockedRun, lock};
use super::{count, word};
use crate::judge::completeness::{Completeness, RunState};

/// A run as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Ours.
    pub id: i64,
    /// The runner's.
    pub key: String,
    /// Suites planned.
    pub suites: Vec<Suite>,
    /// `tpu`, `tpu-sim`, … .
    pub device_profile: String,
    /// Model of the device as it names itself.
    pub device_kind: String,
    /// Whether results are simulated.
    pub simulated: bool,
    /// Version tuple.
    pub versions: BTreeMap<String, String>,
    /// Free labels.
    pub labels: BTreeMap<String, String>,
    /// Host name as the runner claims it.
    pub claimed_host: String,
    /// Name of the token that announced it.
    pub created_by: String,
    /// By the runner's clock.
    pub started_at: DateTime<Utc>,
    /// By the runner's clock; absent until sealed by it.
    pub finished_at: Option<DateTime<Utc>>,
    /// When it was announced, by the server's clock.
    pub created_at: DateTime<Utc>,
    /// When anything last arrived, by the server's clock.
    pub last_activity_at: DateTime<Utc>,
    /// When it was sealed, by the server's clock.
    pub sealed_at: Option<DateTime<Utc>>,
    /// `runner`, `silence`, or `person` for one that was withdrawn before it was sealed.
    pub sealed_by: Option<String>,
    /// How far it has come.
    pub state: RunState,
    /// What it is worth; present when sealed.
    pub completeness: Option<Completeness>,
    /// Cases in the manifest.
    pub planned: u64,
    /// Attempts received.
    pub attempts: u64,
}

/// Which runs; every part that is present narrows.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    /// Only this one.
    pub key: Option<String>,
    /// Only on this device profile.
    pub device_profile: Option<String>,
    /// Only with this suite.
    pub suite: Option<Suite>,
    /// Only in this state.
    pub state: Option<RunState>,
    /// Only of this worth.
    pub completeness: Option<Completeness>,
    /// Without those that were withdrawn.
    pub without_void: bool,
    /// Without those of simulated devices.
    pub without_simulated: bool,
    /// Without those that executed again what had come out badly elsewhere.
    pub without_reruns: bool,
    /// Only those after this one in the list: its start and id.
    pub after: Option<(DateTime<Utc>, i64)>,
}

/// Runs, newest start first.
pub async fn list(
    db: impl PgExecutor<'_>,
    filter: &RunFilter,
    limit: i64,
) -> sqlx::Result<Vec<Run>> {
    let (after_start, after_id) = filter.after.unzip();
    let rows = sqlx::query!(
        r#"SELECT r.id, r.key, r.suites, r.device_profile, r.device_kind, r.simulated,
                  r.versions AS "versions: Json<BTreeMap<String, String>>",
                  r.labels AS "labels: Json<BTreeMap<String, String>>",
                  r.claimed_host, t.name AS created_by, r.started_at, r.finished_at, r.created_at,
                  r.last_activity_at, r.sealed_at, r.sealed_by, r.state, r.completeness, r.planned, r.attempts
           FROM runs r JOIN tokens t ON t.id = r.created_by
           WHERE ($1::text IS NULL OR r.key = $1)
             AND ($2::text IS NULL OR r.device_profile = $2)
             AND ($3::text IS NULL OR $3 = ANY (r.suites))
             AND ($4::text IS NULL OR r.state = $4) AND ($5::text IS NULL OR r.completeness = $5)
             AND (NOT $6::boolean OR r.completeness IS DISTINCT FROM 'void')
             AND NOT ($7::boolean AND r.simulated) AND NOT ($8::boolean AND r.is_rerun)
             AND ($9::timestamptz IS NULL OR (r.started_at, r.id) < ($9, $10::bigint))
           ORDER BY r.started_at DESC, r.id DESC
           LIMIT $11"#,
        filter.key,
        filter.device_profile,
        filter.suite.as_ref().map(Suite::as_str),
        filter.state.map(RunState::as_str),
        filter.completeness.map(Completeness::as_str),
        filter.without_void,
        filter.without_simulated,
        filter.without_reruns,
        after_start,
        after_id,
        limit
    )
    .fetch_all(db)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(Run {
                id: row.id,
                key: row.key,
                suites: row.suites.iter().map(|s| word(s)).collect::<sqlx::Result<_>>()?,
                device_profile: row.device_profile,
                device_kind: row.device_kind,
                simulated: row.simulated,
                versions: row.versions.0,
                labels: row.labels.0,
                claimed_host: row.claimed_host,
                created_by: row.created_by,
                started_at: row.started_at,
                finished_at: row.finished_at,
                created_at: row.created_at,
                last_activity_at: row.last_activity_at,
                sealed_at: row.sealed_at,
                sealed_by: row.sealed_by,
                state: word(&row.state)?,
                completeness: row.completeness.as_deref().map(word).transpose()?,
                planned: count(row.planned),
                attempts: count(row.attempts),
            })
        })
        .collect()
}

/// The run of that key.
pub async fn find(db: impl PgExecutor<'_>, key: &str) -> sqlx::Result<Option<Run>> {
    let filter = RunFilter { key: Some(key.to_owned()), ..RunFilter::default() };
    Ok(list(db, &filter, 1).await?.pop())
}

/// What became of an announcement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// Stored now.
    New,
    /// It was there, with the same body.
    Replay,
    /// The key is taken by another body.
    Clash,
}

/// Announces a run. Concurrent announcements of one key make one row.
pub async fn create(
    connection: &mut PgConnection,
    request: &create_run::Request,
    body_sha256: &[u8],
    token_id: i64,
    now: DateTime<Utc>,
) -> sqlx::Result<Created> {
    let suites: Vec<String> = request.suites.iter().map(|s| s.as_str().to_owned()).collect();
    let inserted = sqlx::query!(
        "INSERT INTO runs (key, body_sha256, suites, device_profile, device_kind, simulated,
                           versions, labels, claimed_host, created_by, started_at, created_at,
                           last_activity_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $12)
         ON CONFLICT (key) DO NOTHING",
        request.run_key.as_str(),
        body_sha256,
        &suites,
        request.device_profile,
        request.device_kind,
        request.simulated,
        Json(&request.versions) as _,
        Json(&request.labels) as _,
        request.host,
        token_id,
        request.started_at,
        now
    )
    .execute(&mut *connection)
    .await?;
    if inserted.rows_affected() == 1 {
        return Ok(Created::New);
    }
    let stored = sqlx::query_scalar!(
        "SELECT body_sha256 FROM runs WHERE key = $1",
        request.run_key.as_str()
    )
    .fetch_one(connection)
    .await?;
    Ok(if stored == body_sha256 { Created::Replay } else { Created::Clash })
}

/// Notes that the manifest is stored. A run that silence had sealed stays sealed.
pub async fn note_manifest(
    connection: &mut PgConnection,
    run: &LockedRun,
    manifest_sha256: &[u8],
    planned: i64,
    now: DateTime<Utc>,
) -> sqlx::Result<()> {
    sqlx::query!(
        "UPDATE runs SET manifest_sha256 = $2, planned = $3, last_activity_at = $4,
                state = CASE WHEN state = 'created' THEN 'running' ELSE state END
         WHERE id = $1",
        run.id,
        manifest_sha256,
        planned,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Notes that attempts were stored.
pub async fn note_attempts(
    connection: &mut PgConnection,
    run: &LockedRun,
    stored: i64,
    now: DateTime<Utc>,
) -> sqlx::Result<()> {
    sqlx::query!(
        "UPDATE runs SET attempts = attempts + $2, last_activity_at = $3 WHERE id = $1",
        run.id,
        stored,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Who ends a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealedBy {
    /// The runner, which says when its last case ended.
    Runner(DateTime<Utc>),
    /// Nothing came for the stated time.
    Silence,
}

/// Seals a run, or seals it again. A withdrawn run stays withdrawn.
pub async fn seal(
    connection: &mut PgConnection,
    run: &LockedRun,
    by: SealedBy,
    completeness: Completeness,
    now: DateTime<Utc>,
) -> sqlx::Result<()> {
    let (word, finished_at) = match by {
        SealedBy::Runner(at) => ("runner", Some(at)),
        SealedBy::Silence => ("silence", None),
    };
    sqlx::query!(
        "UPDATE runs SET state = 'sealed', sealed_by = $2,
                finished_at = COALESCE($3, finished_at),
                completeness = CASE WHEN completeness = 'void' THEN 'void' ELSE $4 END,
                sealed_at = COALESCE(sealed_at, $5), last_activity_at = $5
         WHERE id = $1",
        run.id,
        word,
        finished_at,
        completeness.as_str(),
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Corrects what a sealed run is worth after a late result.
pub async fn correct_completeness(
    connection: &mut PgConnection,
    run: &LockedRun,
    completeness: Completeness,
) -> sqlx::Result<()> {
    sqlx::query!(
        "UPDATE runs SET completeness = $2 WHERE id = $1 AND completeness <> 'void'",
        run.id,
        completeness.as_str()
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Withdraws a run: it stays readable, and counts nowhere.
pub async fn void(
    connection: &mut PgConnection,
    run: &LockedRun,
    now: DateTime<Utc>,
) -> sqlx::Result<()> {
    sqlx::query!(
        "UPDATE runs SET completeness = 'void', state = 'sealed',
                sealed_at = COALESCE(sealed_at, $2), sealed_by = COALESCE(sealed_by, 'person')
         WHERE id = $1",
        run.id,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Keys of unsealed runs of which nothing was heard since `before`.
pub async fn list_silent(
    db: impl PgExecutor<'_>,
    before: DateTime<Utc>,
) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar!(
        "SELECT key FROM runs WHERE state <> 'sealed' AND last_activity_at < $1 ORDER BY id",
        before
    )
    .fetch_all(db)
    .await
}
