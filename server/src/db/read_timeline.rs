//! Queries of a run's timeline: when attempts ran, and which took longest.

use chrono::{DateTime, Utc};
use protocol::Outcome;
use sqlx::PgExecutor;

use super::read_words::Word;

/// When one attempt ran.
#[derive(Debug, Clone)]
pub struct SpanRow {
    /// Number of who sent it.
    pub source: i16,
    /// By the runner's clock.
    pub started_at: DateTime<Utc>,
    /// Wall seconds.
    pub seconds: f64,
    /// What was observed.
    pub outcome: Word<Outcome>,
}

/// Every attempt of a run, in no order: whoever draws them sorts them.
pub async fn list_spans(db: impl PgExecutor<'_>, run_id: i64) -> sqlx::Result<Vec<SpanRow>> {
    sqlx::query_as!(
        SpanRow,
        r#"SELECT source, started_at, seconds, outcome AS "outcome: Word<Outcome>"
           FROM attempts WHERE run_id = $1"#,
        run_id
    )
    .fetch_all(db)
    .await
}

/// An attempt that took long.
#[derive(Debug, Clone)]
pub struct LongAttempt {
    /// Key of the case.
    pub case: String,
    /// Number within the run.
    pub attempt: i32,
    /// By the runner's clock.
    pub started_at: DateTime<Utc>,
    /// Wall seconds.
    pub seconds: f64,
    /// What was observed.
    pub outcome: Word<Outcome>,
}

/// The longest attempts of a run.
pub async fn list_longest(
    db: impl PgExecutor<'_>,
    run_id: i64,
    limit: i64,
) -> sqlx::Result<Vec<LongAttempt>> {
    sqlx::query_as!(
        LongAttempt,
        r#"SELECT c.key AS "case", a.attempt, a.started_at, a.seconds,
                  a.outcome AS "outcome: Word<Outcome>"
           FROM (
               SELECT case_id, attempt, started_at, seconds, outcome FROM attempts
               WHERE run_id = $1 ORDER BY seconds DESC, case_id LIMIT $2
           ) AS a JOIN cases c ON c.id = a.case_id
           ORDER BY a.seconds DESC, a.case_id"#,
        run_id,
        limit
    )
    .fetch_all(db)
    .await
}
