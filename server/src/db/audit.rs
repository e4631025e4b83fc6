//! The audit log: who did what to what. Append-only, which a trigger enforces.

use serde_json::Value;
use sqlx::PgExecutor;

use super::tokens::Caller;

/// Writes one line. `caller` is absent for the command line of the server.
pub async fn record(
    db: impl PgExecutor<'_>,
    caller: Option<&Caller>,
    action: &str,
    subject: &str,
    detail: Value,
) -> sqlx::Result<()> {
    sqlx::query!(
        "INSERT INTO audit_log (token_id, actor, action, subject, detail)
         VALUES ($1, $2, $3, $4, $5)",
        caller.map(|caller| caller.token_id),
        caller.map_or("command line", |caller| caller.name.as_str()),
        action,
        subject,
        detail
    )
    .execute(db)
    .await?;
    Ok(())
}
