//! What the decisive attempts at one subject compared, over runs.

use chrono::{DateTime, Utc};
use protocol::Dtype;
use sqlx::PgExecutor;

use super::read_words::Word;

/// The decisive attempt at a case in one run.
#[derive(Debug, Clone)]
pub struct ComparedAttempt {
    /// The run.
    pub run_key: String,
    /// When it started.
    pub started_at: DateTime<Utc>,
    /// Element type of the case.
    pub dtype: Word<Dtype>,
    /// Evidence, as it came.
    pub evidence: String,
}

/// Decisive attempts at the operator cases of a subject in the newest sealed runs of a device
/// profile that planned it, newest first. Evidence that retention has dropped is not there.
pub async fn list_compared(
    db: impl PgExecutor<'_>,
    subject_base: &str,
    device_profile: &str,
    most_runs: i64,
) -> sqlx::Result<Vec<ComparedAttempt>> {
    sqlx::query_as!(
        ComparedAttempt,
        r#"
        WITH own AS (
            SELECT id, dtype FROM cases
            WHERE subject_base = $1 AND suite = 'operators' AND dtype IS NOT NULL
        ), newest AS (
            SELECT r.id, r.key, r.started_at FROM runs r
            WHERE r.device_profile = $2 AND r.state = 'sealed' AND r.completeness <> 'void'
              AND NOT r.is_rerun
              AND EXISTS (SELECT FROM case_verdicts v
                          WHERE v.run_id = r.id AND v.case_id = ANY (ARRAY(SELECT id FROM own)))
            ORDER BY r.started_at DESC, r.id DESC LIMIT $3
        )
        SELECT n.key AS run_key, n.started_at, o.dtype AS "dtype!: Word<Dtype>",
               a.evidence::text AS "evidence!"
        FROM newest n
        JOIN case_verdicts v ON v.run_id = n.id AND v.case_id = ANY (ARRAY(SELECT id FROM own))
        JOIN own o ON o.id = v.case_id
        JOIN attempts a ON a.run_id = v.run_id AND a.case_id = v.case_id
                       AND a.attempt = v.decisive_attempt
        ORDER BY n.started_at DESC, n.id DESC
        "#,
        subject_base,
        device_profile,
        most_runs,
    )
    .fetch_all(db)
    .await
}
