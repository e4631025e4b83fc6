//! Queries about devices and about the order of runs on one of them.

use chrono::{DateTime, Utc};
use sqlx::PgExecutor;

/// Key of the sealed run before this one on the same device profile that shares a suite with it.
/// Void runs and those that executed again what had come out badly elsewhere do not count.
pub async fn find_previous(db: impl PgExecutor<'_>, run_id: i64) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar!(
        "SELECT p.key FROM runs r
         JOIN runs p ON p.device_profile = r.device_profile AND p.suites && r.suites
         WHERE r.id = $1 AND p.state = 'sealed' AND p.completeness <> 'void' AND NOT p.is_rerun
           AND (p.started_at, p.id) < (r.started_at, r.id)
         ORDER BY p.started_at DESC, p.id DESC LIMIT 1",
        run_id
    )
    .fetch_optional(db)
    .await
}

/// A kind of device under one profile.
#[derive(Debug, Clone)]
pub struct Device {
    /// How it is reached.
    pub profile: String,
    /// What it says it is.
    pub kind: String,
    /// Whether any run on it was simulated.
    pub simulated: bool,
    /// Runs on it, in every state.
    pub runs: i64,
    /// Of those, withdrawn.
    pub void: i64,
    /// Hosts that say they have it.
    pub hosts: i64,
    /// When the first run on it began.
    pub first_started_at: DateTime<Utc>,
    /// The newest run on it.
    pub newest_run_id: i64,
    /// The newest sealed run on it that is not withdrawn.
    pub newest_sealed_id: Option<i64>,
}

/// Every profile and kind of device that a run was announced on.
pub async fn list_devices(db: impl PgExecutor<'_>) -> sqlx::Result<Vec<Device>> {
    sqlx::query_as!(
        Device,
        r#"SELECT device_profile AS profile, device_kind AS kind,
                  bool_or(simulated) AS "simulated!", count(*) AS "runs!",
                  count(*) FILTER (WHERE completeness = 'void') AS "void!",
                  count(DISTINCT claimed_host) AS "hosts!",
                  min(started_at) AS "first_started_at!",
                  (array_agg(id ORDER BY started_at DESC, id DESC))[1] AS "newest_run_id!",
                  (array_agg(id ORDER BY started_at DESC, id DESC)
                      FILTER (WHERE state = 'sealed' AND completeness <> 'void'))[1]
                      AS newest_sealed_id
           FROM runs GROUP BY device_profile, device_kind
           ORDER BY device_profile, max(started_at) DESC, device_kind"#
    )
    .fetch_all(db)
    .await
}
