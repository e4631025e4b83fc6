//! Cases of a run as the API lists them, and the attempts at one case.

use chrono::{DateTime, Utc};
use protocol::{Outcome, Suite, Verdict};
use sqlx::PgExecutor;

/// A planned case with its verdict.
#[derive(Debug, Clone)]
pub struct CaseRow {
    /// Of the manifest, from 0.
    pub position: i32,
    /// Full text of the key.
    pub case: String,
    /// Suite.
    pub suite: String,
    /// The verdict.
    pub verdict: String,
    /// The outcome that stands for its attempts.
    pub outcome: Option<String>,
    /// How many there are.
    pub attempts: i32,
    /// Where it stopped.
    pub stage: Option<String>,
    /// Class of the error.
    pub error_class: String,
    /// First line.
    pub message: String,
    /// Overload to blame.
    pub operator: Option<String>,
    /// Sum over the attempts.
    pub seconds: f64,
    /// What it clusters by.
    pub signature: Option<String>,
    /// Key of the run that last passed it.
    pub baseline_run: Option<String>,
    /// Waiver that covers it.
    pub waiver: Option<i64>,
    /// Whether more than one source executed it.
    pub overlapping: bool,
}

/// Which cases; every part that is present narrows.
#[derive(Debug, Clone, Copy, Default)]
pub struct CaseFilter {
    /// Only with this verdict.
    pub verdict: Option<Verdict>,
    /// Only with this outcome.
    pub outcome: Option<Outcome>,
    /// Only of this suite.
    pub suite: Option<Suite>,
    /// Only after this position.
    pub after: Option<i32>,
}

/// Cases of a run in the order of the manifest.
pub async fn list(
    db: impl PgExecutor<'_>,
    run_id: i64,
    filter: CaseFilter,
    limit: i64,
) -> sqlx::Result<Vec<CaseRow>> {
    sqlx::query_as!(
        CaseRow,
        r#"SELECT v.position, c.key AS "case", c.suite, v.verdict, v.outcome, v.attempts, v.stage,
                  v.error_class, v.message, v.operator, v.seconds, v.signature,
                  b.key AS "baseline_run?", v.waiver_id AS waiver,
                  v.overlapping
           FROM case_verdicts v JOIN cases c ON c.id = v.case_id
           LEFT JOIN runs b ON b.id = v.baseline_run_id
           WHERE v.run_id = $1
             AND ($2::text IS NULL OR v.verdict = $2)
             AND ($3::text IS NULL OR v.outcome = $3)
             AND ($4::text IS NULL OR c.suite = $4)
             AND ($5::integer IS NULL OR v.position > $5)
           ORDER BY v.position
           LIMIT $6"#,
        run_id,
        filter.verdict.map(Verdict::as_str),
        filter.outcome.map(Outcome::as_str),
        filter.suite.as_ref().map(Suite::as_str),
        filter.after,
        limit
    )
    .fetch_all(db)
    .await
}

/// One attempt, whole.
#[derive(Debug, Clone)]
pub struct AttemptRow {
    /// From 1.
    pub attempt: i32,
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
    /// By the server's clock.
    pub received_at: DateTime<Utc>,
    /// Wall seconds.
    pub seconds: f64,
    /// What it clusters by.
    pub signature: Option<String>,
    /// As JSON text, as it came.
    pub evidence: String,
}

/// Attempts at a case in a run, by number.
pub async fn list_attempts(
    db: impl PgExecutor<'_>,
    run_id: i64,
    case: &str,
) -> sqlx::Result<Vec<AttemptRow>> {
    sqlx::query_as!(
        AttemptRow,
        r#"SELECT a.attempt, a.outcome, a.stage, a.error_class, a.message, a.operator,
                  a.started_at, a.received_at, a.seconds, a.signature,
                  a.evidence::text AS "evidence!"
           FROM attempts a JOIN cases c ON c.id = a.case_id
           WHERE a.run_id = $1 AND c.key = $2 ORDER BY a.attempt"#,
        run_id,
        case
    )
    .fetch_all(db)
    .await
}

/// Counts of one model (or operator entry) in a run.
#[derive(Debug, Clone)]
pub struct SubjectRow {
    /// `timm:resnet18`.
    pub subject: String,
    /// Suite.
    pub suite: String,
    /// Planned cases.
    pub planned: i64,
    /// Of those, that passed.
    pub passed: i64,
    /// Neither passed, skipped, inconclusive nor missing.
    pub failed: i64,
    /// Nothing was learnt.
    pub inconclusive: i64,
    /// Not executed for a listed reason.
    pub skipped: i64,
    /// Without an attempt.
    pub missing: i64,
}

/// Models of a run, by name; only those after `after`.
pub async fn list_models(
    db: impl PgExecutor<'_>,
    run_id: i64,
    after: Option<(&str, &str)>,
    limit: i64,
) -> sqlx::Result<Vec<SubjectRow>> {
    sqlx::query_as!(
        SubjectRow,
        r#"SELECT c.subject_base AS subject, c.suite, count(*) AS "planned!",
               count(*) FILTER (WHERE v.verdict IN ('passed', 'fixed', 'unexpected pass'))
                   AS "passed!",
               count(*) FILTER (WHERE v.verdict IN ('failed', 'regressed', 'flaky', 'waived'))
                   AS "failed!",
               count(*) FILTER (WHERE v.verdict = 'inconclusive') AS "inconclusive!",
               count(*) FILTER (WHERE v.verdict = 'skipped') AS "skipped!",
               count(*) FILTER (WHERE v.verdict = 'missing') AS "missing!"
           FROM case_verdicts v JOIN cases c ON c.id = v.case_id
           WHERE v.run_id = $1 AND c.suite IN ('tier1', 'tier2', 'dynamism')
             AND ($2::text IS NULL OR (c.subject_base, c.suite) > ($2, $3::text))
           GROUP BY c.subject_base, c.suite
           ORDER BY c.subject_base, c.suite
           LIMIT $4"#,
        run_id,
        after.map(|(subject, _)| subject),
        after.map(|(_, suite)| suite),
        limit
    )
    .fetch_all(db)
    .await
}

/// One overload over the cases of a run that touched it.
#[derive(Debug, Clone)]
pub struct OverloadRow {
    /// `aten::add.Tensor`.
    pub overload: String,
    /// `aten::add`.
    pub operator: String,
    /// Cases that dispatched it, fell back on it or are blamed on it.
    pub cases: i64,
    /// Of those, that passed.
    pub passed: i64,
    /// Of those, that are rated: neither skipped nor inconclusive.
    pub counted: i64,
    /// Cases blamed on it.
    pub blamed: i64,
    /// Cases in which it was computed on the CPU.
    pub fell_back: i64,
    /// Dispatches; absent when no recording finished.
    pub calls: Option<i64>,
}

/// Overloads of a run, by name; only those after `after`. `suite` limits it to cases of one suite.
pub async fn list_overloads(
    db: impl PgExecutor<'_>,
    run_id: i64,
    suite: Option<Suite>,
    after: Option<&str>,
    limit: i64,
) -> sqlx::Result<Vec<OverloadRow>> {
    sqlx::query_as!(
        OverloadRow,
        r#"SELECT o.overload, o.operator, count(*) AS "cases!",
               count(*) FILTER (WHERE t.verdict IN ('passed', 'fixed', 'unexpected pass'))
                   AS "passed!",
               count(*) FILTER (WHERE t.verdict NOT IN ('skipped', 'inconclusive')) AS "counted!",
               count(*) FILTER (WHERE t.blamed) AS "blamed!",
               count(*) FILTER (WHERE t.fell_back) AS "fell_back!",
               sum(t.calls)::bigint AS calls
           FROM touched_overloads t JOIN operators o ON o.id = t.operator_id
           WHERE t.run_id = $1 AND ($2::text IS NULL OR o.overload > $2)
             AND ($4::text IS NULL
                  OR EXISTS (SELECT FROM cases c WHERE c.id = t.case_id AND c.suite = $4))
           GROUP BY o.overload, o.operator ORDER BY o.overload LIMIT $3"#,
        run_id,
        after,
        limit,
        suite.as_ref().map(Suite::as_str)
    )
    .fetch_all(db)
    .await
}
