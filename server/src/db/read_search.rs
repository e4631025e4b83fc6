//! Queries of the search page: everything in whose name a text stands, in any letter case.

use protocol::Suite;
use sqlx::PgExecutor;

use super::read_words::Word;

/// Something found by its name.
#[derive(Debug, Clone)]
pub struct Found {
    /// Its name.
    pub name: String,
    /// Found in all, before the limit.
    pub total: i64,
}

/// Runs by their key, device or host, the newest first.
pub async fn find_runs(db: impl PgExecutor<'_>, text: &str, limit: i64) -> sqlx::Result<Vec<i64>> {
    sqlx::query_scalar!(
        "SELECT id FROM runs
         WHERE strpos(lower(key), lower($1)) > 0 OR strpos(lower(device_profile), lower($1)) > 0
            OR strpos(lower(device_kind), lower($1)) > 0
         ORDER BY key = $1 DESC, started_at DESC, id DESC LIMIT $2",
        text,
        limit
    )
    .fetch_all(db)
    .await
}

/// Overloads by their name, the shortest first.
pub async fn find_overloads(
    db: impl PgExecutor<'_>,
    text: &str,
    limit: i64,
) -> sqlx::Result<Vec<Found>> {
    sqlx::query_as!(
        Found,
        r#"SELECT overload AS name, count(*) OVER () AS "total!" FROM operators
           WHERE strpos(lower(overload), lower($1)) > 0
           ORDER BY length(overload), overload LIMIT $2"#,
        text,
        limit
    )
    .fetch_all(db)
    .await
}

/// Subjects without sample number or size, by name, the shortest first: models, or else entries of
/// the operator database.
pub async fn find_subjects(
    db: impl PgExecutor<'_>,
    text: &str,
    models: bool,
    limit: i64,
) -> sqlx::Result<Vec<Found>> {
    sqlx::query_as!(
        Found,
        r#"SELECT subject_base AS name, count(*) OVER () AS "total!" FROM cases
           WHERE suite = ANY (CASE WHEN $2 THEN ARRAY['tier1', 'tier2', 'dynamism']
                                  ELSE ARRAY['operators'] END)
             AND strpos(lower(subject_base), lower($1)) > 0
           GROUP BY subject_base ORDER BY length(subject_base), subject_base LIMIT $3"#,
        text,
        models,
        limit
    )
    .fetch_all(db)
    .await
}

/// A case found by its key.
#[derive(Debug, Clone)]
pub struct FoundCase {
    /// Its key.
    pub key: String,
    /// Its suite.
    pub suite: Word<Suite>,
    /// The newest run that planned it; nothing where none is kept.
    pub run_key: Option<String>,
    /// What that run says.
    pub verdict: Option<String>,
    /// Found in all, before the limit.
    pub total: i64,
}

/// Cases by their key, the shortest first, each with the newest run that planned it.
pub async fn find_cases(
    db: impl PgExecutor<'_>,
    text: &str,
    limit: i64,
) -> sqlx::Result<Vec<FoundCase>> {
    sqlx::query_as!(
        FoundCase,
        r#"WITH found AS (
               SELECT id, key, suite, count(*) OVER () AS total FROM cases
               WHERE strpos(lower(key), lower($1)) > 0
               ORDER BY length(key), key LIMIT $2
           )
           SELECT f.key, f.suite AS "suite: Word<Suite>", newest.key AS "run_key?",
                  newest.verdict AS "verdict?", f.total AS "total!"
           FROM found f LEFT JOIN LATERAL (
               SELECT r.key, v.verdict FROM case_verdicts v JOIN runs r ON r.id = v.run_id
               WHERE v.case_id = f.id ORDER BY r.started_at DESC, r.id DESC LIMIT 1
           ) AS newest ON true
           ORDER BY length(f.key), f.key"#,
        text,
        limit
    )
    .fetch_all(db)
    .await
}
