//! Who may change a run, and who beside them.

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, Utc};
use protocol::{RunKey, Suite};
use sqlx::PgConnection;
use sqlx::types::Json;

use super::{count, word};
use crate::judge::completeness::{Completeness, RunState};

/// A run that is held until the transaction ends, as [`Hold`] says: only [`lock`] makes one.
#[derive(Debug)]
pub struct LockedRun {
    /// Ours.
    pub id: i64,
    /// The runner's.
    pub key: RunKey,
    /// Suites planned.
    pub suites: Vec<Suite>,
    /// Where it is executed.
    pub device_profile: String,
    /// Model of the device.
    pub device_kind: String,
    /// Version tuple.
    pub versions: BTreeMap<String, String>,
    /// By the runner's clock.
    pub started_at: DateTime<Utc>,
    /// How far it has come.
    pub state: RunState,
    /// What it is worth.
    pub completeness: Option<Completeness>,
    /// Of the stored manifest.
    pub manifest_sha256: Option<Vec<u8>>,
    /// Cases in the manifest.
    pub planned: u64,
    /// Attempts received.
    pub attempts: u64,
    /// Whether retention has deleted its attempts.
    pub evidence_dropped: bool,
}

impl LockedRun {
    /// Day (UTC) on which it started: names its part of `attempts`.
    #[must_use]
    pub fn day(&self) -> NaiveDate {
        self.started_at.date_naive()
    }
}

/// How a run is held until the transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// Nobody else changes anything of it.
    Alone,
    /// Nobody holds it alone, so that its state stays; others store attempts as well. Counts of it
    /// are as old as the beginning.
    Shared,
}

/// Holds the run of that key. Rows that refer to it can still be made by others.
///
/// An advisory lock comes first and then, where it is held alone, its row. Who shares it takes the
/// row last, to add to its counts, and so nobody waits in a circle.
pub async fn lock(
    connection: &mut PgConnection,
    key: &RunKey,
    hold: Hold,
) -> sqlx::Result<Option<LockedRun>> {
    sqlx::query!(
        "SELECT CASE WHEN $2
                THEN pg_advisory_xact_lock(hashtext('runs'), (id % 2147483647)::integer)
                ELSE pg_advisory_xact_lock_shared(hashtext('runs'), (id % 2147483647)::integer)
                END
         FROM runs WHERE key = $1",
        key.as_str(),
        hold == Hold::Alone
    )
    .fetch_optional(&mut *connection)
    .await?;
    // A statement of its own, which sees what those before it have done.
    if hold == Hold::Alone {
        sqlx::query!("SELECT FROM runs WHERE key = $1 FOR NO KEY UPDATE", key.as_str())
            .fetch_optional(&mut *connection)
            .await?;
    }
    let row = sqlx::query!(
        r#"SELECT id, suites, device_profile, device_kind,
                versions AS "versions: Json<BTreeMap<String, String>>", started_at, state,
                completeness, manifest_sha256, planned, attempts, evidence_dropped_at IS NOT NULL AS "evidence_dropped!"
         FROM runs WHERE key = $1"#,
        key.as_str()
    )
    .fetch_optional(connection)
    .await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(LockedRun {
        id: row.id,
        key: key.clone(),
        suites: row.suites.iter().map(|s| word(s)).collect::<sqlx::Result<_>>()?,
        device_profile: row.device_profile,
        device_kind: row.device_kind,
        versions: row.versions.0,
        started_at: row.started_at,
        state: word(&row.state)?,
        completeness: row.completeness.as_deref().map(word).transpose()?,
        manifest_sha256: row.manifest_sha256,
        planned: count(row.planned),
        attempts: count(row.attempts),
        evidence_dropped: row.evidence_dropped,
    }))
}
