//! The tables `webhook_deliveries` and `gate_states`.

use chrono::{DateTime, Utc};
use sqlx::PgExecutor;

use super::word;
use crate::judge::gate::Answer;
use crate::webhooks::Event;

/// Stores a delivery that is due now.
pub async fn create(
    db: impl PgExecutor<'_>,
    webhook: &str,
    event: Event,
    body: &str,
    now: DateTime<Utc>,
) -> sqlx::Result<()> {
    sqlx::query!(
        "INSERT INTO webhook_deliveries (webhook, event, body, created_at, next_try_at)
         VALUES ($1, $2, $3, $4, $4)",
        webhook,
        event.as_str(),
        body,
        now
    )
    .execute(db)
    .await?;
    Ok(())
}

/// A delivery that is due.
#[derive(Debug)]
pub struct Due {
    /// Its number.
    pub id: i64,
    /// Who is told.
    pub webhook: String,
    /// What happened.
    pub event: String,
    /// What is said.
    pub body: String,
    /// Tries so far, this one included.
    pub tries: i32,
}

/// Takes deliveries that are due, the oldest first. Until `until` nobody else takes them, also when
/// this process dies meanwhile.
pub async fn take_due(
    db: impl PgExecutor<'_>,
    now: DateTime<Utc>,
    until: DateTime<Utc>,
    limit: i64,
) -> sqlx::Result<Vec<Due>> {
    sqlx::query_as!(
        Due,
        "UPDATE webhook_deliveries d SET tries = d.tries + 1, next_try_at = $2
         FROM (SELECT id FROM webhook_deliveries WHERE next_try_at <= $1
               ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED) AS due
         WHERE d.id = due.id
         RETURNING d.id, d.webhook, d.event, d.body, d.tries",
        now,
        until,
        limit
    )
    .fetch_all(db)
    .await
}

/// Notes how a try went: delivered, to be tried again, or given up.
pub async fn note_try(
    db: impl PgExecutor<'_>,
    id: i64,
    status: Option<i32>,
    problem: Option<&str>,
    next_try_at: Option<DateTime<Utc>>,
    now: DateTime<Utc>,
) -> sqlx::Result<()> {
    sqlx::query!(
        "UPDATE webhook_deliveries
         SET status = $2, problem = $3, next_try_at = $4,
             delivered_at = CASE WHEN $3::text IS NULL THEN $5::timestamptz END
         WHERE id = $1",
        id,
        status,
        problem,
        next_try_at,
        now
    )
    .execute(db)
    .await?;
    Ok(())
}

/// A delivery as it is listed.
#[derive(Debug)]
pub struct DeliveryRow {
    /// Its number.
    pub id: i64,
    /// Who is told.
    pub webhook: String,
    /// What happened.
    pub event: String,
    /// What is said.
    pub body: String,
    /// When it happened.
    pub created_at: DateTime<Utc>,
    /// Tries so far.
    pub tries: i32,
    /// When it is tried next; absent when it was delivered or given up.
    pub next_try_at: Option<DateTime<Utc>>,
    /// When it was taken.
    pub delivered_at: Option<DateTime<Utc>>,
    /// HTTP status of the last answer.
    pub status: Option<i32>,
    /// What went wrong the last time.
    pub problem: Option<String>,
}

/// Deliveries, the newest first; only those before `before`.
pub async fn list(
    db: impl PgExecutor<'_>,
    before: Option<i64>,
    limit: i64,
) -> sqlx::Result<Vec<DeliveryRow>> {
    sqlx::query_as!(
        DeliveryRow,
        "SELECT id, webhook, event, body, created_at, tries, next_try_at, delivered_at, status,
                problem
         FROM webhook_deliveries WHERE $1::bigint IS NULL OR id < $1
         ORDER BY id DESC LIMIT $2",
        before,
        limit
    )
    .fetch_all(db)
    .await
}

/// Notes the answer of a gate; the one before when it is another one. The first answer changes
/// nothing.
pub async fn note_answer(
    connection: &mut sqlx::PgConnection,
    gate: &str,
    answer: Answer,
    now: DateTime<Utc>,
) -> sqlx::Result<Option<Answer>> {
    let before =
        sqlx::query_scalar!("SELECT answer FROM gate_states WHERE gate = $1 FOR UPDATE", gate)
            .fetch_optional(&mut *connection)
            .await?;
    let before: Option<Answer> = before.as_deref().map(word).transpose()?;
    if before == Some(answer) {
        return Ok(None);
    }
    sqlx::query!(
        "INSERT INTO gate_states (gate, answer, since) VALUES ($1, $2, $3)
         ON CONFLICT (gate) DO UPDATE SET answer = EXCLUDED.answer, since = EXCLUDED.since",
        gate,
        answer.as_str(),
        now
    )
    .execute(connection)
    .await?;
    Ok(before)
}
