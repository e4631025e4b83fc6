//! Queries over many nights: the verdicts of each night's run, and the newest release.

use chrono::{DateTime, Utc};
use protocol::{Suite, Verdict};
use sqlx::PgExecutor;

use super::read_words::Word;

/// Cases of one suite and verdict in the last run of a day.
#[derive(Debug, Clone)]
pub struct NightTally {
    /// How the device is reached.
    pub device_profile: String,
    /// The suite.
    pub suite: Word<Suite>,
    /// The last run that began on that day (UTC).
    pub run_key: String,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// Version of the backend under test, if the run says.
    pub backend_version: Option<String>,
    /// The judgement.
    pub verdict: Word<Verdict>,
    /// How many.
    pub cases: i64,
}

/// Verdicts of the last sealed run of every day since, per device profile and suite, oldest first.
/// Void runs do not count, nor do those that executed again what had come out badly elsewhere.
pub async fn list_nights(
    db: impl PgExecutor<'_>,
    since: DateTime<Utc>,
    device_profile: Option<&str>,
    suite: Option<Suite>,
) -> sqlx::Result<Vec<NightTally>> {
    sqlx::query_as!(
        NightTally,
        r#"
        WITH nights AS (
            SELECT DISTINCT ON (r.device_profile, s.suite, (r.started_at AT TIME ZONE 'UTC')::date)
                   r.id, r.key, r.device_profile, s.suite, r.started_at,
                   r.versions ->> 'torch_tpu' AS backend_version
            FROM runs r CROSS JOIN unnest(r.suites) AS s (suite)
            WHERE r.state = 'sealed' AND r.completeness <> 'void' AND NOT r.is_rerun
              AND r.started_at > $1
              AND ($2::text IS NULL OR r.device_profile = $2)
              AND ($3::text IS NULL OR s.suite = $3)
            ORDER BY r.device_profile, s.suite, (r.started_at AT TIME ZONE 'UTC')::date,
                     r.started_at DESC, r.id DESC
        )
        SELECT n.device_profile AS "device_profile!", n.suite AS "suite!: Word<Suite>",
               n.key AS "run_key!", n.started_at AS "started_at!", n.backend_version,
               t.verdict AS "verdict: Word<Verdict>", t.cases
        FROM nights n JOIN run_tallies t ON t.run_id = n.id AND t.suite = n.suite
        WHERE t.cases > 0
        ORDER BY n.device_profile, n.suite, n.started_at, n.id
        "#,
        since,
        device_profile,
        suite.as_ref().map(Suite::as_str),
    )
    .fetch_all(db)
    .await
}

/// The newest run labelled `release` of a device profile and suite.
#[derive(Debug, Clone)]
pub struct ReleaseRun {
    /// How the device is reached.
    pub device_profile: String,
    /// The suite.
    pub suite: Word<Suite>,
    /// The run.
    pub run_id: i64,
    /// Its key.
    pub run_key: String,
    /// Which release it is, as its label says.
    pub release: String,
}

/// The newest release of every device profile and suite, among sealed runs that were not withdrawn.
pub async fn list_releases(db: impl PgExecutor<'_>) -> sqlx::Result<Vec<ReleaseRun>> {
    sqlx::query_as!(
        ReleaseRun,
        r#"
        SELECT DISTINCT ON (r.device_profile, s.suite)
               r.device_profile, s.suite AS "suite!: Word<Suite>", r.id AS run_id,
               r.key AS run_key, r.labels ->> 'release' AS "release!"
        FROM runs r CROSS JOIN unnest(r.suites) AS s (suite)
        WHERE r.state = 'sealed' AND r.completeness <> 'void' AND NOT r.is_rerun
          AND r.labels ->> 'release' IS NOT NULL
        ORDER BY r.device_profile, s.suite, r.started_at DESC, r.id DESC
        "#
    )
    .fetch_all(db)
    .await
}
