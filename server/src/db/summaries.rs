//! The tables `run_subjects`, `run_overloads` and `run_overload_variants`: what the cases of a
//! sealed run add up to. Derived from verdicts and touches by the views `counted_subjects`,
//! `counted_overloads` and `counted_overload_variants`, which answer for every other run.

use sqlx::{PgConnection, PgExecutor};

use super::runs::LockedRun;

/// Says that a run's sums are no longer right, nor what is kept in memory of it, in the transaction
/// that changes what they are made of. From then on pages count, until they are stored again.
pub async fn forget(connection: &mut PgConnection, run: &LockedRun) -> sqlx::Result<()> {
    sqlx::query!("UPDATE runs SET summarised = false, changes = changes + 1 WHERE id = $1", run.id)
        .execute(connection)
        .await?;
    Ok(())
}

/// Adds up the cases of a run anew.
pub async fn store(connection: &mut PgConnection, run: &LockedRun) -> sqlx::Result<()> {
    sqlx::query!("DELETE FROM run_subjects WHERE run_id = $1", run.id)
        .execute(&mut *connection)
        .await?;
    sqlx::query!("DELETE FROM run_overloads WHERE run_id = $1", run.id)
        .execute(&mut *connection)
        .await?;
    sqlx::query!("DELETE FROM run_overload_variants WHERE run_id = $1", run.id)
        .execute(&mut *connection)
        .await?;
    sqlx::query!(
        "INSERT INTO run_subjects (run_id, suite, subject_base, dtype, mode, direction, layout,
                                   verdict, outcome, cases)
         SELECT run_id, suite, subject_base, dtype, mode, direction, layout, verdict, outcome, cases
         FROM counted_subjects WHERE run_id = $1 ORDER BY suite, subject_base",
        run.id
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!(
        "INSERT INTO run_overloads (run_id, suite, operator_id, cases, passed, blamed, subjects,
                                    blocked_subjects, fell_back, calls, blamed_outcomes)
         SELECT run_id, suite, operator_id, cases, passed, blamed, subjects, blocked_subjects,
                fell_back, calls, blamed_outcomes
         FROM counted_overloads WHERE run_id = $1 ORDER BY suite, operator_id",
        run.id
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!(
        "INSERT INTO run_overload_variants (run_id, suite, operator_id, dtype, mode, direction,
                                            layout, verdict, outcome, cases)
         SELECT run_id, suite, operator_id, dtype, mode, direction, layout, verdict, outcome, cases
         FROM counted_overload_variants WHERE run_id = $1 ORDER BY suite, operator_id",
        run.id
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!("UPDATE runs SET summarised = true WHERE id = $1", run.id)
        .execute(connection)
        .await?;
    Ok(())
}

/// Keys of sealed runs whose sums are to be stored, the newest first, since that is what people
/// look at.
pub async fn list_due(db: impl PgExecutor<'_>, limit: i64) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar!(
        "SELECT key FROM runs WHERE NOT summarised AND state = 'sealed'
         ORDER BY started_at DESC, id DESC LIMIT $1",
        limit
    )
    .fetch_all(db)
    .await
}
