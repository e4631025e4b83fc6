//! What the gate looks at, and the table `gate_evaluations`.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use protocol::Suite;
use sqlx::{PgConnection, PgExecutor, PgPool, Postgres, Transaction};

use super::word;
use crate::judge::gate::{Answer, CaseFacts};

/// A transaction in which every query sees the same state.
pub async fn begin_snapshot(pool: &PgPool) -> sqlx::Result<Transaction<'static, Postgres>> {
    pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await
}

/// Every case of the suite that is neither passed nor skipped, in the order of the manifest.
pub async fn list_facts(
    connection: &mut PgConnection,
    run_id: i64,
    suite: Suite,
) -> sqlx::Result<Vec<CaseFacts>> {
    let rows = sqlx::query!(
        r#"SELECT c.key, v.verdict, v.outcome, v.operator, v.message,
                  v.baseline_run_id IS NOT NULL AS "has_passed!",
                  v.mixed
           FROM case_verdicts v JOIN cases c ON c.id = v.case_id
           WHERE v.run_id = $1 AND c.suite = $2
             AND v.verdict NOT IN ('passed', 'fixed', 'unexpected pass', 'skipped')
           ORDER BY v.position"#,
        run_id,
        suite.as_str()
    )
    .fetch_all(connection)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(CaseFacts {
                case: row.key,
                verdict: word(&row.verdict)?,
                outcome: row.outcome.as_deref().map(word).transpose()?,
                mixed: row.mixed,
                operator: row.operator,
                message: row.message,
                has_passed: row.has_passed,
            })
        })
        .collect()
}

/// Keys of the suite's cases that passed in that run.
pub async fn list_passed(
    connection: &mut PgConnection,
    run_id: i64,
    suite: Suite,
) -> sqlx::Result<HashSet<String>> {
    let keys = sqlx::query_scalar!(
        "SELECT c.key FROM case_verdicts v JOIN cases c ON c.id = v.case_id
         WHERE v.run_id = $1 AND c.suite = $2
           AND v.verdict IN ('passed', 'fixed', 'unexpected pass')",
        run_id,
        suite.as_str()
    )
    .fetch_all(connection)
    .await?;
    Ok(keys.into_iter().collect())
}

/// An answer that was given.
#[derive(Debug)]
pub struct Evaluation {
    /// Name of the gate.
    pub gate: String,
    /// Of its file.
    pub rules_sha256: Vec<u8>,
    /// As asked.
    pub candidate: String,
    /// Runs that were judged, in the order of the rules.
    pub run_ids: Vec<i64>,
    /// The answer.
    pub answer: Answer,
    /// The whole answer, as JSON text.
    pub body: String,
    /// Of the body.
    pub body_sha256: Vec<u8>,
    /// When it was first given.
    pub evaluated_at: DateTime<Utc>,
}

/// An answer as it is listed.
#[derive(Debug)]
pub struct Given {
    /// The answer.
    pub answer: String,
    /// As asked.
    pub candidate: String,
    /// Keys of the runs that were judged.
    pub runs: Vec<String>,
    /// Hex of the hash of the rules.
    pub rules_sha256: String,
    /// When it was first given.
    pub evaluated_at: DateTime<Utc>,
}

/// Answers that a gate gave, the newest first. The same answer to the same question is one.
pub async fn list_given(
    db: impl PgExecutor<'_>,
    gate: &str,
    limit: i64,
) -> sqlx::Result<Vec<Given>> {
    sqlx::query_as!(
        Given,
        r#"SELECT e.answer, e.candidate, encode(e.rules_sha256, 'hex') AS "rules_sha256!",
                  e.evaluated_at,
                  ARRAY(SELECT r.key FROM runs r WHERE r.id = ANY (e.run_ids) ORDER BY r.key)
                      AS "runs!"
           FROM gate_evaluations e WHERE e.gate = $1
           ORDER BY e.evaluated_at DESC, e.id DESC LIMIT $2"#,
        gate,
        limit
    )
    .fetch_all(db)
    .await
}

/// Stores an answer, unless the same was given before.
pub async fn store_evaluation(
    db: impl PgExecutor<'_>,
    evaluation: &Evaluation,
) -> sqlx::Result<()> {
    sqlx::query!(
        "INSERT INTO gate_evaluations (gate, rules_sha256, candidate, run_ids, answer, body,
                                       body_sha256, evaluated_at)
         VALUES ($1, $2, $3, $4, $5, $6::text::json, $7, $8)
         ON CONFLICT (gate, candidate, body_sha256) DO NOTHING",
        evaluation.gate,
        evaluation.rules_sha256,
        evaluation.candidate,
        &evaluation.run_ids,
        evaluation.answer.as_str(),
        evaluation.body,
        evaluation.body_sha256,
        evaluation.evaluated_at
    )
    .execute(db)
    .await?;
    Ok(())
}
