//! Queries of what is told while it happens: how far a run has come, and what regressed lately.

use chrono::{DateTime, Utc};
use protocol::Outcome;
use sqlx::PgExecutor;

use super::read_words::Word;

/// How far a run has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// `created`, `running`, `sealed`.
    pub state: String,
    /// Cases planned.
    pub planned: i64,
    /// Attempts received.
    pub attempts: i64,
}

/// How far a run has come; nothing when it was deleted.
pub async fn find_progress(db: impl PgExecutor<'_>, run_id: i64) -> sqlx::Result<Option<Progress>> {
    sqlx::query_as!(Progress, "SELECT state, planned, attempts FROM runs WHERE id = $1", run_id)
        .fetch_optional(db)
        .await
}

/// A sealed run with cases that passed before.
#[derive(Debug, Clone)]
pub struct RegressedRun {
    /// The run.
    pub run_id: i64,
    /// Its key.
    pub run_key: String,
    /// How the device is reached.
    pub device_profile: String,
    /// Whether its results are simulated.
    pub simulated: bool,
    /// By our clock.
    pub sealed_at: DateTime<Utc>,
    /// Regressed cases.
    pub cases: i64,
}

/// Runs with regressed cases, the one sealed last first. Void runs do not count, nor do those that
/// executed again what had come out badly elsewhere.
pub async fn list_regressed_runs(
    db: impl PgExecutor<'_>,
    device_profile: Option<&str>,
    limit: i64,
) -> sqlx::Result<Vec<RegressedRun>> {
    sqlx::query_as!(
        RegressedRun,
        r#"
        SELECT r.id AS run_id, r.key AS run_key, r.device_profile, r.simulated,
               r.sealed_at AS "sealed_at!", sum(t.cases)::bigint AS "cases!"
        FROM runs r JOIN run_tallies t ON t.run_id = r.id
        WHERE r.state = 'sealed' AND r.completeness <> 'void' AND NOT r.is_rerun
          AND t.verdict = 'regressed' AND t.cases > 0
          AND ($1::text IS NULL OR r.device_profile = $1)
        GROUP BY r.id
        ORDER BY r.sealed_at DESC, r.id DESC
        LIMIT $2
        "#,
        device_profile,
        limit,
    )
    .fetch_all(db)
    .await
}

/// A case that passed before.
#[derive(Debug, Clone)]
pub struct RegressedCase {
    /// The run.
    pub run_id: i64,
    /// Its key.
    pub case: String,
    /// The worst outcome.
    pub outcome: Word<Outcome>,
    /// First line of what went wrong.
    pub message: String,
}

/// The first regressed cases of each of these runs, in the order of its manifest.
pub async fn list_regressed_cases(
    db: impl PgExecutor<'_>,
    run_ids: &[i64],
    most_of_each: i64,
) -> sqlx::Result<Vec<RegressedCase>> {
    sqlx::query_as!(
        RegressedCase,
        r#"
        SELECT run_id AS "run_id!", key AS "case!", outcome AS "outcome!: Word<Outcome>",
               message AS "message!"
        FROM (
            SELECT v.run_id, c.key, v.outcome, v.message,
                   row_number() OVER (PARTITION BY v.run_id ORDER BY v.position) AS place
            FROM case_verdicts v JOIN cases c ON c.id = v.case_id
            WHERE v.run_id = ANY ($1) AND v.verdict = 'regressed' AND v.outcome IS NOT NULL
        ) AS placed
        WHERE place <= $2
        ORDER BY run_id, place
        "#,
        run_ids,
        most_of_each,
    )
    .fetch_all(db)
    .await
}
