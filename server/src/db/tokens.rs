//! Tokens: who may write what. Only the SHA-256 of a secret is stored.

use chrono::{DateTime, Utc};
use protocol::words;
use sha2::{Digest as _, Sha256};
use sqlx::PgExecutor;

words! {
    /// What a token may do.
    Scope as "scope" {
        /// Announce runs and send results.
        Ingest = "ingest",
        /// Waive failures, void runs.
        Triage = "triage",
        /// Pin baselines.
        Gate = "gate",
        /// All of it, and manage tokens.
        Admin = "admin",
    }
}

/// Somebody whose token was recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Of the token.
    pub token_id: i64,
    /// Of the token.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<Scope>,
}

impl Caller {
    /// Whether it may do that; `admin` may do everything.
    #[must_use]
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope) || self.scopes.contains(&Scope::Admin)
    }
}

/// A token as it is listed.
#[derive(Debug, Clone)]
pub struct Token {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub scopes: Vec<String>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last used, to the minute.
    pub last_used_at: Option<DateTime<Utc>>,
    /// When it was made useless.
    pub revoked_at: Option<DateTime<Utc>>,
}

/// A new secret: 256 random bits with a prefix that secret scanners can look for.
#[must_use]
pub fn new_secret() -> String {
    format!("ttc_{}", hex::encode(rand::random::<[u8; 32]>()))
}

fn hash(secret: &str) -> Vec<u8> {
    Sha256::digest(secret.as_bytes()).to_vec()
}

/// Stores a token; `false` when the name is taken.
pub async fn create(
    db: impl PgExecutor<'_>,
    name: &str,
    secret: &str,
    scopes: &[Scope],
) -> sqlx::Result<bool> {
    let scopes: Vec<String> = scopes.iter().map(|scope| scope.as_str().to_owned()).collect();
    let inserted = sqlx::query!(
        "INSERT INTO tokens (name, secret_sha256, scopes) VALUES ($1, $2, $3)
         ON CONFLICT (name) DO NOTHING",
        name,
        hash(secret),
        &scopes
    )
    .execute(db)
    .await?;
    Ok(inserted.rows_affected() == 1)
}

/// Who has this secret. Looking up by hash tells nothing through timing, because a caller cannot
/// choose the hash.
pub async fn find_by_secret(db: impl PgExecutor<'_>, secret: &str) -> sqlx::Result<Option<Caller>> {
    // Written at most once a minute: a runner that sends every second must not make every
    // request a write.
    let row = sqlx::query!(
        r#"WITH found AS (
               SELECT id, name, scopes, last_used_at FROM tokens
               WHERE secret_sha256 = $1 AND revoked_at IS NULL
           ), touched AS (
               UPDATE tokens SET last_used_at = now() FROM found
               WHERE tokens.id = found.id
                 AND (found.last_used_at IS NULL
                      OR found.last_used_at < now() - interval '1 minute')
           )
           SELECT id, name, scopes FROM found"#,
        hash(secret)
    )
    .fetch_optional(db)
    .await?;
    Ok(row.map(|row| Caller {
        token_id: row.id,
        name: row.name,
        scopes: row.scopes.iter().filter_map(|scope| scope.parse().ok()).collect(),
    }))
}

/// Every token, by name.
pub async fn list(db: impl PgExecutor<'_>) -> sqlx::Result<Vec<Token>> {
    sqlx::query_as!(
        Token,
        "SELECT name, scopes, created_at, last_used_at, revoked_at FROM tokens ORDER BY name"
    )
    .fetch_all(db)
    .await
}

/// Makes a token useless; `false` when there is none of that name that works.
pub async fn revoke(db: impl PgExecutor<'_>, name: &str) -> sqlx::Result<bool> {
    let updated = sqlx::query!(
        "UPDATE tokens SET revoked_at = now() WHERE name = $1 AND revoked_at IS NULL",
        name
    )
    .execute(db)
    .await?;
    Ok(updated.rows_affected() == 1)
}

/// Gives a token another secret; `false` when there is none of that name that works.
pub async fn rotate(db: impl PgExecutor<'_>, name: &str, secret: &str) -> sqlx::Result<bool> {
    let updated = sqlx::query!(
        "UPDATE tokens SET secret_sha256 = $2 WHERE name = $1 AND revoked_at IS NULL",
        name,
        hash(secret)
    )
    .execute(db)
    .await?;
    Ok(updated.rows_affected() == 1)
}
