//! What `server export` reads.

use chrono::{DateTime, Utc};
use sqlx::PgExecutor;

/// Keys of the planned cases, in order.
pub async fn list_manifest(db: impl PgExecutor<'_>, run_id: i64) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar!(
        "SELECT c.key FROM manifest_entries m JOIN cases c ON c.id = m.case_id
         WHERE m.run_id = $1 ORDER BY m.position",
        run_id
    )
    .fetch_all(db)
    .await
}

/// Whether retention has deleted its attempts.
pub async fn is_evidence_dropped(db: impl PgExecutor<'_>, run_id: i64) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"SELECT evidence_dropped_at IS NOT NULL AS "dropped!" FROM runs WHERE id = $1"#,
        run_id
    )
    .fetch_one(db)
    .await
}

/// One attempt as it was sent.
#[derive(Debug)]
pub struct AttemptRow {
    /// Ours, for the next page.
    pub case_id: i64,
    /// Number within the run, for the next page.
    pub attempt: i32,
    /// Full text of the key.
    pub case: String,
    /// Number that the source gave it.
    pub source_attempt: i32,
    /// What was observed.
    pub outcome: String,
    /// Where it stopped.
    pub stage: Option<String>,
    /// Class of the error.
    pub error_class: String,
    /// First line.
    pub message: String,
    /// Overload to blame.
    pub operator: Option<String>,
    /// By the runner's clock.
    pub started_at: DateTime<Utc>,
    /// Wall seconds.
    pub seconds: f64,
    /// As JSON text.
    pub evidence: String,
}

/// Attempts of one source, by case and number; only those after `after`.
pub async fn list_attempts(
    db: impl PgExecutor<'_>,
    run_id: i64,
    source: i16,
    after: Option<(i64, i32)>,
    limit: i64,
) -> sqlx::Result<Vec<AttemptRow>> {
    let (after_case, after_attempt) = after.unzip();
    sqlx::query_as!(
        AttemptRow,
        r#"SELECT a.case_id, a.attempt, c.key AS "case", a.source_attempt, a.outcome, a.stage,
                  a.error_class, a.message, a.operator, a.started_at, a.seconds,
                  a.evidence::text AS "evidence!"
           FROM attempts a JOIN cases c ON c.id = a.case_id
           WHERE a.run_id = $1 AND a.source = $2
             AND ($3::bigint IS NULL OR (a.case_id, a.attempt) > ($3, $4::integer))
           ORDER BY a.case_id, a.attempt LIMIT $5"#,
        run_id,
        source,
        after_case,
        after_attempt,
        limit
    )
    .fetch_all(db)
    .await
}

/// A file that an attempt left.
#[derive(Debug)]
pub struct FileRow {
    /// Full text of the key.
    pub case: String,
    /// Number that the source gave the attempt.
    pub source_attempt: i32,
    /// Its name there.
    pub name: String,
    /// Its hash.
    pub sha256: Vec<u8>,
}

/// Files of the attempts of one source, by case, number and name.
pub async fn list_files(
    db: impl PgExecutor<'_>,
    run_id: i64,
    source: i16,
) -> sqlx::Result<Vec<FileRow>> {
    sqlx::query_as!(
        FileRow,
        r#"SELECT c.key AS "case", a.source_attempt, l.name, l.sha256
           FROM attempt_artifacts l
           JOIN attempts a ON a.run_id = l.run_id AND a.case_id = l.case_id
                           AND a.attempt = l.attempt
           JOIN cases c ON c.id = l.case_id
           WHERE l.run_id = $1 AND a.source = $2
           ORDER BY l.case_id, l.attempt, l.name"#,
        run_id,
        source
    )
    .fetch_all(db)
    .await
}

/// The token of that name.
pub async fn find_token(db: impl PgExecutor<'_>, name: &str) -> sqlx::Result<i64> {
    sqlx::query_scalar!("SELECT id FROM tokens WHERE name = $1", name).fetch_one(db).await
}
