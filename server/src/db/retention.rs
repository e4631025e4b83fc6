//! Ages of runs, and deleting in small batches.

use chrono::{DateTime, NaiveDate, Utc};
use sqlx::{PgExecutor, PgPool};

/// What retention looks at.
#[derive(Debug, Clone)]
pub struct RunAge {
    /// Ours.
    pub id: i64,
    /// The runner's.
    pub key: String,
    /// By the runner's clock.
    pub started_at: DateTime<Utc>,
    /// Attempts received and not deleted.
    pub attempts: i64,
    /// Whether it takes in no more.
    pub is_sealed: bool,
    /// Whether it was withdrawn.
    pub is_void: bool,
    /// Whether it has a label `release`.
    pub has_release_label: bool,
    /// Whether it has a label `nightly`.
    pub has_nightly_label: bool,
}

/// Every run, the oldest first.
pub async fn list_ages(db: impl PgExecutor<'_>) -> sqlx::Result<Vec<RunAge>> {
    sqlx::query_as!(
        RunAge,
        r#"SELECT id, key, started_at,
                  CASE WHEN evidence_dropped_at IS NULL THEN attempts ELSE 0 END AS "attempts!",
                  state = 'sealed' AS "is_sealed!",
                  coalesce(completeness = 'void', false) AS "is_void!",
                  labels ? 'release' AS "has_release_label!",
                  labels ? 'nightly' AS "has_nightly_label!"
           FROM runs ORDER BY started_at, id"#
    )
    .fetch_all(db)
    .await
}

/// Runs that are the last known pass of a case of those runs.
pub async fn list_baselines(db: impl PgExecutor<'_>, run_ids: &[i64]) -> sqlx::Result<Vec<i64>> {
    sqlx::query_scalar!(
        r#"SELECT DISTINCT baseline_run_id AS "baseline_run_id!" FROM case_verdicts
           WHERE run_id = ANY ($1) AND baseline_run_id IS NOT NULL"#,
        run_ids
    )
    .fetch_all(db)
    .await
}

/// Deletes attempts of a run; answers how many.
pub async fn delete_attempts(
    db: &PgPool,
    run_id: i64,
    day: NaiveDate,
    batch: i64,
) -> sqlx::Result<u64> {
    let deleted = sqlx::query!(
        "DELETE FROM attempts a USING (
             SELECT case_id, attempt FROM attempts
             WHERE run_id = $1 AND run_day = $2 ORDER BY case_id, attempt LIMIT $3
         ) AS old
         WHERE a.run_id = $1 AND a.run_day = $2
           AND a.case_id = old.case_id AND a.attempt = old.attempt",
        run_id,
        day,
        batch
    )
    .execute(db)
    .await?;
    Ok(deleted.rows_affected())
}

/// Notes that the evidence of a run is gone.
pub async fn note_dropped(db: impl PgExecutor<'_>, run_id: i64) -> sqlx::Result<()> {
    sqlx::query!("UPDATE runs SET evidence_dropped_at = now() WHERE id = $1", run_id)
        .execute(db)
        .await?;
    Ok(())
}

/// Deletes what was derived for a run; answers how many rows.
pub async fn delete_derived(db: &PgPool, run_id: i64, batch: i64) -> sqlx::Result<u64> {
    let touches = sqlx::query!(
        "DELETE FROM operator_cases t USING (
             SELECT operator_id, case_id FROM operator_cases WHERE run_id = $1
             ORDER BY operator_id, case_id LIMIT $2
         ) AS old
         WHERE t.run_id = $1 AND t.operator_id = old.operator_id AND t.case_id = old.case_id",
        run_id,
        batch
    )
    .execute(db)
    .await?;
    let verdicts = sqlx::query!(
        "WITH old AS (
             SELECT case_id FROM case_verdicts WHERE run_id = $1 ORDER BY case_id LIMIT $2
         ), planned AS (
             DELETE FROM manifest_entries m USING old
             WHERE m.run_id = $1 AND m.case_id = old.case_id
         )
         DELETE FROM case_verdicts v USING old WHERE v.run_id = $1 AND v.case_id = old.case_id",
        run_id,
        batch
    )
    .execute(db)
    .await?;
    Ok(touches.rows_affected() + verdicts.rows_affected())
}

/// Deletes the run itself, and the little that is left of it.
pub async fn delete_run(db: impl PgExecutor<'_>, run_id: i64) -> sqlx::Result<()> {
    sqlx::query!("DELETE FROM runs WHERE id = $1", run_id).execute(db).await?;
    Ok(())
}

/// Drops the parts of `attempts` that are empty and of months before that day; answers how many.
pub async fn drop_empty_parts(db: impl PgExecutor<'_>, before: NaiveDate) -> sqlx::Result<i64> {
    let dropped =
        sqlx::query_scalar!("SELECT drop_empty_attempts_parts($1)", before).fetch_one(db).await?;
    Ok(i64::from(dropped.unwrap_or(0)))
}
