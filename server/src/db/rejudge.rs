//! The table `rejudge_queue`: sealed runs whose stored verdicts may no longer be right.

use chrono::{DateTime, NaiveDate, Utc};
use sqlx::{PgConnection, PgExecutor};

use super::runs::LockedRun;

/// Puts every sealed run in the queue that began after this one on the same device profile and
/// has a suite in common: their baselines may be other ones now.
pub async fn push_later(
    connection: &mut PgConnection,
    run: &LockedRun,
    now: DateTime<Utc>,
) -> sqlx::Result<()> {
    let suites: Vec<String> = run.suites.iter().map(|suite| suite.as_str().to_owned()).collect();
    // In one order, so that two writers cannot wait for each other in a circle.
    sqlx::query!(
        "INSERT INTO rejudge_queue (run_id, since)
         SELECT id, $5 FROM runs
         WHERE device_profile = $1 AND (started_at, id) > ($2, $3) AND suites && $4
           AND state = 'sealed' AND completeness <> 'void'
         ORDER BY id ON CONFLICT (run_id) DO NOTHING",
        run.device_profile,
        run.started_at,
        run.id,
        &suites,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Puts the newest runs in the queue in which a waiver covers a case that ended meanwhile; answers
/// how many. Older ones keep what was judged.
pub async fn push_ended_waivers(
    db: impl PgExecutor<'_>,
    today: NaiveDate,
    newest: i64,
    now: DateTime<Utc>,
) -> sqlx::Result<u64> {
    let pushed = sqlx::query!(
        "INSERT INTO rejudge_queue (run_id, since)
         SELECT id, $3 FROM (
             SELECT id FROM runs WHERE completeness IS DISTINCT FROM 'void'
             ORDER BY started_at DESC, id DESC LIMIT $2
         ) AS recent
         WHERE EXISTS (
             SELECT FROM case_verdicts v JOIN waivers w ON w.id = v.waiver_id
             WHERE v.run_id = recent.id AND (w.expires_on <= $1 OR w.revoked_at IS NOT NULL)
         )
         ORDER BY id ON CONFLICT (run_id) DO NOTHING",
        today,
        newest,
        now
    )
    .execute(db)
    .await?;
    Ok(pushed.rows_affected())
}

/// Keys of the runs in the queue, those that began first before the others, because their
/// verdicts' outcomes are what later ones are compared with.
pub async fn list(db: impl PgExecutor<'_>, limit: i64) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar!(
        "SELECT r.key FROM rejudge_queue q JOIN runs r ON r.id = q.run_id
         ORDER BY r.started_at, r.id LIMIT $1",
        limit
    )
    .fetch_all(db)
    .await
}

/// Keys of those runs that are in the queue.
pub async fn find(db: impl PgExecutor<'_>, run_ids: &[i64]) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar!(
        "SELECT r.key FROM rejudge_queue q JOIN runs r ON r.id = q.run_id
         WHERE q.run_id = ANY ($1) ORDER BY r.started_at, r.id",
        run_ids
    )
    .fetch_all(db)
    .await
}

/// Takes a run out of the queue, in the transaction that judges it.
pub async fn pop(connection: &mut PgConnection, run: &LockedRun) -> sqlx::Result<()> {
    sqlx::query!("DELETE FROM rejudge_queue WHERE run_id = $1", run.id).execute(connection).await?;
    Ok(())
}

/// Runs that are not sealed, and runs in the queue.
pub async fn count_waiting(db: impl PgExecutor<'_>) -> sqlx::Result<(i64, i64)> {
    let row = sqlx::query!(
        r#"SELECT (SELECT count(*) FROM runs WHERE state <> 'sealed') AS "open_runs!",
                  (SELECT count(*) FROM rejudge_queue) AS "waiting!""#
    )
    .fetch_one(db)
    .await?;
    Ok((row.open_runs, row.waiting))
}
