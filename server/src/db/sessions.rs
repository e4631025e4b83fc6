//! The table `sessions`: browsers that signed in with a token. Only hashes of secrets are stored.

use chrono::{DateTime, Utc};
use sha2::{Digest as _, Sha256};
use sqlx::{PgConnection, PgExecutor};

use super::tokens::Caller;

fn hash(secret: &str) -> Vec<u8> {
    Sha256::digest(secret.as_bytes()).to_vec()
}

/// Stores a session of that token, and deletes those that are over.
pub async fn create(
    connection: &mut PgConnection,
    secret: &str,
    caller: &Caller,
    now: DateTime<Utc>,
    expires_at: DateTime<Utc>,
) -> sqlx::Result<()> {
    sqlx::query!("DELETE FROM sessions WHERE expires_at <= $1", now)
        .execute(&mut *connection)
        .await?;
    sqlx::query!(
        "INSERT INTO sessions (secret_sha256, token_id, token_secret_sha256, created_at, expires_at)
         SELECT $1, id, secret_sha256, $3, $4 FROM tokens WHERE id = $2",
        hash(secret),
        caller.token_id,
        now,
        expires_at
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Who signed in with this secret, and until when; nobody once the session is over, or its token
/// is revoked or has another secret.
pub async fn find(
    db: impl PgExecutor<'_>,
    secret: &str,
    now: DateTime<Utc>,
) -> sqlx::Result<Option<(Caller, DateTime<Utc>)>> {
    let row = sqlx::query!(
        "SELECT t.id, t.name, t.scopes, s.expires_at
         FROM sessions s JOIN tokens t ON t.id = s.token_id
         WHERE s.secret_sha256 = $1 AND s.expires_at > $2 AND t.revoked_at IS NULL
           AND t.secret_sha256 = s.token_secret_sha256",
        hash(secret),
        now
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map(|row| {
        let scopes = row.scopes.iter().filter_map(|scope| scope.parse().ok()).collect();
        (Caller { token_id: row.id, name: row.name, scopes }, row.expires_at)
    }))
}

/// Ends a session.
pub async fn delete(db: impl PgExecutor<'_>, secret: &str) -> sqlx::Result<()> {
    sqlx::query!("DELETE FROM sessions WHERE secret_sha256 = $1", hash(secret)).execute(db).await?;
    Ok(())
}
