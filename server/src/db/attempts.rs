//! The tables `attempts` (append-only) and `signatures`.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use protocol::{Outcome, Stage};
use sqlx::PgConnection;

use super::runs::LockedRun;
use super::word;
use crate::judge::signature::Signature;

/// An attempt that is ready to be stored: validated, and hashed as it came.
#[derive(Debug)]
pub struct NewAttempt {
    /// Ours.
    pub case_id: i64,
    /// From 1.
    pub attempt: i32,
    /// What was observed.
    pub outcome: Outcome,
    /// Where it stopped.
    pub stage: Option<Stage>,
    /// Class of the error.
    pub error_class: String,
    /// First line, short enough.
    pub message: String,
    /// Overload to blame.
    pub operator: Option<String>,
    /// By the runner's clock.
    pub started_at: DateTime<Utc>,
    /// Wall seconds.
    pub seconds: f64,
    /// As JSON text.
    pub evidence: String,
    /// Tells a replay from a clash.
    pub body_sha256: Vec<u8>,
    /// None on a pass.
    pub signature: Option<Signature>,
}

/// Stores signatures that are not there, in id order so that two writers cannot wait for each
/// other in a circle.
pub async fn store_signatures(
    connection: &mut PgConnection,
    signatures: &BTreeMap<String, Signature>,
) -> sqlx::Result<()> {
    let column = |of: &dyn Fn(&Signature) -> String| -> Vec<String> {
        signatures.values().map(of).collect()
    };
    let stages: Vec<Option<String>> =
        signatures.values().map(|s| s.stage.map(|stage| stage.as_str().to_owned())).collect();
    let operators: Vec<Option<String>> = signatures.values().map(|s| s.operator.clone()).collect();
    sqlx::query!(
        "INSERT INTO signatures (id, outcome, stage, error_class, operator, line)
         SELECT new.* FROM UNNEST($1::text[], $2::text[], $3::text[], $4::text[], $5::text[],
                                  $6::text[])
                AS new (id, outcome, stage, error_class, operator, line)
         WHERE NOT EXISTS (SELECT FROM signatures WHERE signatures.id = new.id)
         ORDER BY new.id
         ON CONFLICT (id) DO NOTHING",
        &column(&|s| s.id.clone()),
        &column(&|s| s.outcome.as_str().to_owned()),
        &stages as &[Option<String>],
        &column(&|s| s.error_class.clone()),
        &operators as &[Option<String>],
        &column(&|s| s.line.clone())
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Stores attempts that are not there; answers which ones were stored.
pub async fn store(
    connection: &mut PgConnection,
    run: &LockedRun,
    attempts: &[NewAttempt],
    now: DateTime<Utc>,
) -> sqlx::Result<Vec<(i64, i32)>> {
    let texts = |of: &dyn Fn(&NewAttempt) -> Option<String>| -> Vec<Option<String>> {
        attempts.iter().map(of).collect()
    };
    let case_ids: Vec<i64> = attempts.iter().map(|a| a.case_id).collect();
    let numbers: Vec<i32> = attempts.iter().map(|a| a.attempt).collect();
    let started: Vec<DateTime<Utc>> = attempts.iter().map(|a| a.started_at).collect();
    let seconds: Vec<f64> = attempts.iter().map(|a| a.seconds).collect();
    let hashes: Vec<Vec<u8>> = attempts.iter().map(|a| a.body_sha256.clone()).collect();
    let rows = sqlx::query!(
        "INSERT INTO attempts (run_id, case_id, attempt, outcome, stage, error_class, message,
                               operator, started_at, seconds, evidence, body_sha256, signature,
                               received_at)
         SELECT $1, new.case_id, new.attempt, new.outcome, new.stage, new.error_class,
                new.message, new.operator, new.started_at, new.seconds, new.evidence::json,
                new.body_sha256, new.signature, $14
         FROM UNNEST($2::bigint[], $3::integer[], $4::text[], $5::text[], $6::text[],
                     $7::text[], $8::text[], $9::timestamptz[], $10::double precision[],
                     $11::text[], $12::bytea[], $13::text[])
              AS new (case_id, attempt, outcome, stage, error_class, message, operator,
                      started_at, seconds, evidence, body_sha256, signature)
         ON CONFLICT (run_id, case_id, attempt) DO NOTHING
         RETURNING case_id, attempt",
        run.id,
        &case_ids,
        &numbers,
        &texts(&|a| Some(a.outcome.as_str().to_owned())) as &[Option<String>],
        &texts(&|a| a.stage.map(|stage| stage.as_str().to_owned())) as &[Option<String>],
        &texts(&|a| Some(a.error_class.clone())) as &[Option<String>],
        &texts(&|a| Some(a.message.clone())) as &[Option<String>],
        &texts(&|a| a.operator.clone()) as &[Option<String>],
        &started,
        &seconds,
        &texts(&|a| Some(a.evidence.clone())) as &[Option<String>],
        &hashes,
        &texts(&|a| a.signature.as_ref().map(|s| s.id.clone())) as &[Option<String>],
        now
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|row| (row.case_id, row.attempt)).collect())
}

/// Hash of the stored body of each attempt at those cases.
pub async fn list_hashes(
    connection: &mut PgConnection,
    run: &LockedRun,
    case_ids: &[i64],
) -> sqlx::Result<Vec<(i64, i32, Vec<u8>)>> {
    let rows = sqlx::query!(
        "SELECT case_id, attempt, body_sha256 FROM attempts
         WHERE run_id = $1 AND case_id = ANY ($2)",
        run.id,
        case_ids
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|row| (row.case_id, row.attempt, row.body_sha256)).collect())
}

/// What judgement needs of an attempt.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Ours.
    pub case_id: i64,
    /// From 1.
    pub attempt: i32,
    /// What was observed.
    pub outcome: Outcome,
    /// Where it stopped.
    pub stage: Option<String>,
    /// Class of the error.
    pub error_class: String,
    /// First line.
    pub message: String,
    /// Overload to blame.
    pub operator: Option<String>,
    /// Wall seconds.
    pub seconds: f64,
    /// What it clusters by.
    pub signature: Option<String>,
}

/// Attempts at those cases (all cases when absent), by case and number.
pub async fn list_summaries(
    connection: &mut PgConnection,
    run: &LockedRun,
    case_ids: Option<&[i64]>,
) -> sqlx::Result<Vec<Summary>> {
    let rows = sqlx::query!(
        "SELECT case_id, attempt, outcome, stage, error_class, message, operator, seconds,
                signature
         FROM attempts
         WHERE run_id = $1 AND ($2::bigint[] IS NULL OR case_id = ANY ($2))
         ORDER BY case_id, attempt",
        run.id,
        case_ids
    )
    .fetch_all(connection)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(Summary {
                case_id: row.case_id,
                attempt: row.attempt,
                outcome: word(&row.outcome)?,
                stage: row.stage,
                error_class: row.error_class,
                message: row.message,
                operator: row.operator,
                seconds: row.seconds,
                signature: row.signature,
            })
        })
        .collect()
}
