//! The tables `artifacts` and `attempt_artifacts`: files that attempts left, by their hash.

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgExecutor, PgPool};

use super::runs::LockedRun;

/// Stores a file; `false` when it was there.
pub async fn store(
    db: impl PgExecutor<'_>,
    sha256: &[u8],
    contents: &[u8],
    token_id: i64,
    now: DateTime<Utc>,
) -> sqlx::Result<bool> {
    let stored = sqlx::query!(
        "INSERT INTO artifacts (sha256, contents, created_at, created_by) VALUES ($1, $2, $3, $4)
         ON CONFLICT (sha256) DO NOTHING",
        sha256,
        contents,
        now,
        token_id
    )
    .execute(db)
    .await?;
    Ok(stored.rows_affected() == 1)
}

/// What a file holds.
pub async fn find(db: impl PgExecutor<'_>, sha256: &[u8]) -> sqlx::Result<Option<Vec<u8>>> {
    sqlx::query_scalar!("SELECT contents FROM artifacts WHERE sha256 = $1", sha256)
        .fetch_optional(db)
        .await
}

/// Keeps files from being deleted until the transaction ends; answers which of them are there.
pub async fn hold(connection: &mut PgConnection, hashes: &[Vec<u8>]) -> sqlx::Result<Vec<Vec<u8>>> {
    sqlx::query_scalar!(
        "SELECT sha256 FROM artifacts WHERE sha256 = ANY ($1) ORDER BY sha256 FOR KEY SHARE",
        hashes
    )
    .fetch_all(connection)
    .await
}

/// An attempt, by the number that its source gave it.
#[derive(Debug)]
pub struct Place {
    /// Ours.
    pub case_id: i64,
    /// Number within the run.
    pub attempt: i32,
}

/// The attempt that a source of the run numbered so.
pub async fn find_attempt(
    connection: &mut PgConnection,
    run: &LockedRun,
    journal: &str,
    case: &str,
    number: i32,
) -> sqlx::Result<Option<Place>> {
    sqlx::query_as!(
        Place,
        "SELECT a.case_id, a.attempt
         FROM attempts a JOIN cases c ON c.id = a.case_id
         JOIN run_sources s ON s.run_id = a.run_id AND s.number = a.source
         WHERE a.run_day = $1 AND a.run_id = $2 AND c.key = $3 AND a.source_attempt = $4
           AND s.journal = $5",
        run.day(),
        run.id,
        case,
        number,
        journal
    )
    .fetch_optional(connection)
    .await
}

/// Names a file of an attempt; `false` when another file has that name there.
pub async fn link(
    connection: &mut PgConnection,
    run: &LockedRun,
    place: &Place,
    name: &str,
    sha256: &[u8],
) -> sqlx::Result<bool> {
    let row = sqlx::query_scalar!(
        r#"WITH new AS (
               INSERT INTO attempt_artifacts (run_id, case_id, attempt, name, sha256)
               VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING RETURNING sha256
           )
           SELECT sha256 = $5 AS "is_same!" FROM (
               SELECT sha256 FROM new
               UNION ALL
               SELECT sha256 FROM attempt_artifacts
               WHERE run_id = $1 AND case_id = $2 AND attempt = $3 AND name = $4
           ) AS there LIMIT 1"#,
        run.id,
        place.case_id,
        place.attempt,
        name,
        sha256
    )
    .fetch_one(connection)
    .await?;
    Ok(row)
}

/// A file of an attempt.
#[derive(Debug, Clone)]
pub struct ArtifactRow {
    /// Number of the attempt within the run.
    pub attempt: i32,
    /// Its name there.
    pub name: String,
    /// Its hash.
    pub sha256: Vec<u8>,
    /// How large it is, in bytes.
    pub size: i64,
}

/// Files of the attempts at one case, by attempt and name.
pub async fn list(
    db: impl PgExecutor<'_>,
    run_id: i64,
    case: &str,
) -> sqlx::Result<Vec<ArtifactRow>> {
    sqlx::query_as!(
        ArtifactRow,
        r#"SELECT l.attempt, l.name, l.sha256, octet_length(a.contents)::bigint AS "size!"
           FROM attempt_artifacts l JOIN artifacts a USING (sha256)
           JOIN cases c ON c.id = l.case_id
           WHERE l.run_id = $1 AND c.key = $2 ORDER BY l.attempt, l.name"#,
        run_id,
        case
    )
    .fetch_all(db)
    .await
}

/// A file of an attempt of a run.
#[derive(Debug, Clone)]
pub struct RunArtifact {
    /// Key of the case.
    pub case: String,
    /// Number of the attempt within the run.
    pub attempt: i32,
    /// Its name there.
    pub name: String,
    /// Its hash.
    pub sha256: Vec<u8>,
    /// How large it is, in bytes.
    pub size: i64,
    /// Files of the run, before the limit.
    pub total: i64,
}

/// Files of the attempts of a run, in the order of its manifest.
pub async fn list_of_run(
    db: impl PgExecutor<'_>,
    run_id: i64,
    limit: i64,
) -> sqlx::Result<Vec<RunArtifact>> {
    sqlx::query_as!(
        RunArtifact,
        r#"SELECT c.key AS "case", l.attempt, l.name, l.sha256,
                  octet_length(a.contents)::bigint AS "size!", count(*) OVER () AS "total!"
           FROM attempt_artifacts l JOIN artifacts a USING (sha256)
           JOIN cases c ON c.id = l.case_id
           JOIN case_verdicts v ON v.run_id = l.run_id AND v.case_id = l.case_id
           WHERE l.run_id = $1 ORDER BY v.position, l.attempt, l.name LIMIT $2"#,
        run_id,
        limit
    )
    .fetch_all(db)
    .await
}

/// Files that no attempt names, and which came before that time: how many, and their bytes.
pub async fn count_unnamed(
    db: impl PgExecutor<'_>,
    before: DateTime<Utc>,
) -> sqlx::Result<(i64, i64)> {
    let row = sqlx::query!(
        r#"SELECT count(*) AS "files!", coalesce(sum(octet_length(contents)), 0)::bigint AS "bytes!"
           FROM artifacts a WHERE created_at < $1
             AND NOT EXISTS (SELECT FROM attempt_artifacts l WHERE l.sha256 = a.sha256)"#,
        before
    )
    .fetch_one(db)
    .await?;
    Ok((row.files, row.bytes))
}

/// Deletes at most `batch` of those; answers how many. One that is named meanwhile stays.
pub async fn delete_unnamed(db: &PgPool, before: DateTime<Utc>, batch: i64) -> sqlx::Result<u64> {
    let deleted = sqlx::query!(
        "DELETE FROM artifacts WHERE sha256 IN (
             SELECT sha256 FROM artifacts a WHERE created_at < $1
               AND NOT EXISTS (SELECT FROM attempt_artifacts l WHERE l.sha256 = a.sha256)
             ORDER BY sha256 LIMIT $2 FOR UPDATE SKIP LOCKED)",
        before,
        batch
    )
    .execute(db)
    .await?;
    Ok(deleted.rows_affected())
}

/// Takes the names of a run's files away, when its evidence is deleted; answers how many.
pub async fn unlink(db: impl PgExecutor<'_>, run_id: i64) -> sqlx::Result<u64> {
    let gone =
        sqlx::query!("DELETE FROM attempt_artifacts WHERE run_id = $1", run_id).execute(db).await?;
    Ok(gone.rows_affected())
}
