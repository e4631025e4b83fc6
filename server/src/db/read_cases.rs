//! Queries of the case page: its attempts and its history.

use chrono::{DateTime, Utc};
use protocol::{Outcome, Verdict};
use sqlx::PgExecutor;

use super::read_words::Word;

/// One attempt as pages show it.
#[derive(Debug, Clone)]
pub struct AttemptView {
    /// From 1.
    pub attempt: i32,
    /// What was observed.
    pub outcome: Word<Outcome>,
    /// Where it stopped.
    pub stage: Option<String>,
    /// Class of the error.
    pub error_class: String,
    /// First line of what went wrong.
    pub message: String,
    /// Overload to blame.
    pub operator: Option<String>,
    /// By the runner's clock.
    pub started_at: DateTime<Utc>,
    /// Wall seconds.
    pub seconds: f64,
    /// `protocol::Evidence` as JSON text; what cannot be read any more is shown as it is.
    pub evidence: String,
}

/// Attempts of one case in one run, in order.
pub async fn list_attempts(
    db: impl PgExecutor<'_>,
    run_id: i64,
    case_key: &str,
) -> sqlx::Result<Vec<AttemptView>> {
    sqlx::query_as!(
        AttemptView,
        r#"
        SELECT a.attempt, a.outcome AS "outcome: Word<Outcome>", a.stage, a.error_class,
               a.message, a.operator, a.started_at, a.seconds, a.evidence::text AS "evidence!"
        FROM attempts a JOIN cases c ON c.id = a.case_id
        WHERE a.run_id = $1 AND c.key = $2
        ORDER BY a.attempt
        "#,
        run_id,
        case_key,
    )
    .fetch_all(db)
    .await
}

/// The case in one run of its history.
#[derive(Debug, Clone)]
pub struct HistoryPoint {
    /// The run.
    pub run_key: String,
    /// When it started.
    pub started_at: DateTime<Utc>,
    /// The judgement there.
    pub verdict: Word<Verdict>,
    /// Version of the backend under test, if the run says.
    pub backend_version: Option<String>,
}

/// The newest runs of a device profile that planned this case, newest first. Void runs are left
/// out.
pub async fn list_history(
    db: impl PgExecutor<'_>,
    case_key: &str,
    device_profile: &str,
    limit: i64,
) -> sqlx::Result<Vec<HistoryPoint>> {
    sqlx::query_as!(
        HistoryPoint,
        r#"
        SELECT r.key AS run_key, r.started_at, v.verdict AS "verdict: Word<Verdict>",
               r.versions ->> 'torch_tpu' AS backend_version
        FROM cases c
        JOIN case_verdicts v ON v.case_id = c.id
        JOIN runs r ON r.id = v.run_id
        WHERE c.key = $1 AND r.device_profile = $2 AND r.completeness IS DISTINCT FROM 'void'
        ORDER BY r.started_at DESC, r.id DESC
        LIMIT $3
        "#,
        case_key,
        device_profile,
        limit,
    )
    .fetch_all(db)
    .await
}

/// Cases of one subject, verdict and outcome in one run.
#[derive(Debug, Clone)]
pub struct SubjectHistory {
    /// The run.
    pub run_key: String,
    /// When it started.
    pub started_at: DateTime<Utc>,
    /// Version of the backend under test, if the run says.
    pub backend_version: Option<String>,
    /// The judgement there.
    pub verdict: Word<Verdict>,
    /// The worst outcome; nothing when missing.
    pub outcome: Option<Word<Outcome>>,
    /// How many.
    pub cases: i64,
}

/// The newest runs of a device profile that planned cases of this subject, newest first, the lines
/// of each together. Void runs are left out, and those that executed again what had come out badly.
pub async fn list_subject_history(
    db: impl PgExecutor<'_>,
    subject_base: &str,
    suites: &[String],
    device_profile: &str,
    most_runs: i64,
) -> sqlx::Result<Vec<SubjectHistory>> {
    sqlx::query_as!(
        SubjectHistory,
        r#"
        WITH own AS (
            SELECT array_agg(id) AS ids FROM cases WHERE subject_base = $1 AND suite = ANY ($2)
        ), newest AS (
            SELECT r.id, r.key, r.started_at, r.versions ->> 'torch_tpu' AS backend_version
            FROM runs r
            WHERE r.device_profile = $3 AND r.completeness IS DISTINCT FROM 'void'
              AND NOT r.is_rerun AND r.suites && $2
              AND EXISTS (SELECT FROM case_verdicts v
                          WHERE v.run_id = r.id AND v.case_id = ANY ((SELECT ids FROM own)::bigint[]))
            ORDER BY r.started_at DESC, r.id DESC LIMIT $4
        )
        SELECT n.key AS run_key, n.started_at, n.backend_version,
               v.verdict AS "verdict: Word<Verdict>", v.outcome AS "outcome: Word<Outcome>",
               count(*) AS "cases!"
        FROM newest n
        JOIN case_verdicts v ON v.run_id = n.id AND v.case_id = ANY ((SELECT ids FROM own)::bigint[])
        GROUP BY n.id, n.key, n.started_at, n.backend_version, v.verdict, v.outcome
        ORDER BY n.started_at DESC, n.id DESC
        "#,
        subject_base,
        suites,
        device_profile,
        most_runs,
    )
    .fetch_all(db)
    .await
}
