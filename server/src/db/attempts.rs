//! The tables `attempts` (append-only) and `signatures`.

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, Utc};
use protocol::{Outcome, Stage};
use sqlx::{PgConnection, PgExecutor};

use super::copy::Rows;
use super::operators::Touch;
use super::runs::LockedRun;
use super::word;
use crate::judge::signature::Signature;

/// What is stored of an attempt, whatever its number: validated, and hashed as it came.
#[derive(Debug)]
pub struct Observation {
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
    /// Overloads that it touched, and how.
    pub touches: BTreeMap<String, Touch>,
}

/// An attempt that is ready to be stored.
#[derive(Debug, Clone, Copy)]
pub struct NewAttempt<'a> {
    /// Ours.
    pub case_id: i64,
    /// Number within the run, from 1.
    pub attempt: i32,
    /// Number that the source gave it, from 1.
    pub source_attempt: i32,
    /// The rest of it.
    pub observed: &'a Observation,
}

/// Stores signatures that are not there, in id order so that two writers cannot wait for each
/// other in a circle.
async fn store_signatures(
    connection: &mut PgConnection,
    attempts: &[NewAttempt<'_>],
) -> sqlx::Result<()> {
    let signatures: BTreeMap<&str, &Signature> = attempts
        .iter()
        .filter_map(|attempt| attempt.observed.signature.as_ref())
        .map(|signature| (signature.id.as_str(), signature))
        .collect();
    if signatures.is_empty() {
        return Ok(());
    }
    let column = |of: &dyn Fn(&Signature) -> String| -> Vec<String> {
        signatures.values().map(|signature| of(signature)).collect()
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

/// Stores attempts, none of which is there: who holds the run's lock has looked. Their signatures
/// and graphs with them.
pub async fn store(
    connection: &mut PgConnection,
    run: &LockedRun,
    source: i16,
    attempts: &[NewAttempt<'_>],
    now: DateTime<Utc>,
) -> sqlx::Result<()> {
    store_signatures(connection, attempts).await?;
    let mut rows = Rows::new(17);
    for NewAttempt { case_id, attempt, source_attempt, observed } in attempts {
        rows.begin()
            .day(run.day())
            .big(run.id)
            .small(source)
            .time(now)
            .big(*case_id)
            .integer(*attempt)
            .integer(*source_attempt)
            .text(observed.outcome.as_str())
            .maybe_text(observed.stage.map(Stage::as_str))
            .text(&observed.error_class)
            .text(&observed.message)
            .maybe_text(observed.operator.as_deref())
            .time(observed.started_at)
            .double(observed.seconds)
            .text(&observed.evidence)
            .bytes(&observed.body_sha256)
            .maybe_text(observed.signature.as_ref().map(|signature| signature.id.as_str()));
    }
    const COPY: &str = "COPY attempts (run_day, run_id, source, received_at, case_id, attempt,
                            source_attempt, outcome, stage, error_class, message, operator,
                            started_at, seconds, evidence, body_sha256, signature)
                        FROM STDIN (FORMAT binary)";
    // Connections plan each query anew, for the values that it has (`db::Db::connect`). A foreign key
    // asks a query of its own for every row, the same each time: planning that takes longer than all
    // the rest, so that here plans are kept.
    sqlx::query!("SET LOCAL plan_cache_mode = auto").execute(&mut *connection).await?;
    rows.send(connection, COPY).await?;
    sqlx::query!("RESET plan_cache_mode").execute(&mut *connection).await?;
    super::graphs::store(connection, run, attempts).await
}

/// Makes the part of the table for runs that start on that day.
pub async fn ensure_part(db: impl PgExecutor<'_>, day: NaiveDate) -> sqlx::Result<()> {
    sqlx::query!("SELECT ensure_attempts_part($1)", day).execute(db).await?;
    Ok(())
}

/// What judgement needs of an attempt.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Ours.
    pub case_id: i64,
    /// Number within the run, from 1.
    pub attempt: i32,
    /// Who sent it.
    pub source: i16,
    /// Number that the source gave it.
    pub source_attempt: i32,
    /// Tells a replay from a clash.
    pub body_sha256: Vec<u8>,
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

impl Summary {
    /// Of an attempt that is being stored.
    #[must_use]
    pub fn of_new(new: &NewAttempt<'_>, source: i16) -> Self {
        let NewAttempt { case_id, attempt, source_attempt, observed } = *new;
        Self {
            case_id,
            attempt,
            source,
            source_attempt,
            body_sha256: observed.body_sha256.clone(),
            outcome: observed.outcome,
            stage: observed.stage.map(|stage| stage.as_str().to_owned()),
            error_class: observed.error_class.clone(),
            message: observed.message.clone(),
            operator: observed.operator.clone(),
            seconds: observed.seconds,
            signature: observed.signature.as_ref().map(|signature| signature.id.clone()),
        }
    }
}

/// Attempts at those cases, by case and number.
pub async fn list_summaries(
    connection: &mut PgConnection,
    run: &LockedRun,
    case_ids: &[i64],
) -> sqlx::Result<Vec<Summary>> {
    let rows = sqlx::query!(
        "SELECT case_id, attempt, source, source_attempt, body_sha256, outcome, stage,
                error_class, message, operator, seconds, signature
         FROM attempts
         WHERE run_day = $1 AND run_id = $2 AND case_id = ANY ($3)
         ORDER BY case_id, attempt",
        run.day(),
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
                source: row.source,
                source_attempt: row.source_attempt,
                body_sha256: row.body_sha256,
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
