//! Queries of the home page: which runs are the newest, what changed, what blocks most.

use protocol::{Outcome, Suite};
use sqlx::PgExecutor;

use super::read_words::Word;

/// A run that is among the newest two of its device profile and suite.
#[derive(Debug, Clone)]
pub struct NewestRun {
    /// How the device is reached.
    pub device_profile: String,
    /// The suite.
    pub suite: Word<Suite>,
    /// The run.
    pub run_id: i64,
    /// Its key.
    pub run_key: String,
    /// 1 for the newest, 2 for the one before.
    pub rank: i64,
}

/// The newest two sealed runs per device profile and suite. Void runs do not count, nor do those
/// that executed again what had come out badly elsewhere.
pub async fn list_newest_runs(db: impl PgExecutor<'_>) -> sqlx::Result<Vec<NewestRun>> {
    sqlx::query_as!(
        NewestRun,
        r#"
        SELECT device_profile, suite AS "suite!: Word<Suite>", run_id, run_key, rank AS "rank!"
        FROM (
            SELECT r.device_profile, s.suite, r.id AS run_id, r.key AS run_key,
                   row_number() OVER (
                       PARTITION BY r.device_profile, s.suite ORDER BY r.started_at DESC, r.id DESC
                   ) AS rank
            FROM runs r CROSS JOIN unnest(r.suites) AS s (suite)
            WHERE r.state = 'sealed' AND r.completeness <> 'void' AND NOT r.is_rerun
        ) AS ranked
        WHERE rank <= 2
        ORDER BY device_profile, suite, rank
        "#
    )
    .fetch_all(db)
    .await
}

/// What changed between two runs over the cases that both planned.
#[derive(Debug, Clone, Copy)]
pub struct Change {
    /// Cases that both planned.
    pub common: i64,
    /// Passed now, and failed before.
    pub gained: i64,
    /// Passed before, and failed now.
    pub lost: i64,
    /// Passed or failed before, and now missing, inconclusive or skipped.
    pub no_longer_learnt: i64,
    /// The other way round.
    pub newly_learnt: i64,
    /// Planned now only.
    pub only_now: i64,
    /// Planned before only.
    pub only_before: i64,
}

/// Compares one suite of two runs case by case, so that a run of other cases is never better or
/// worse by its choice.
pub async fn compare_runs(
    db: impl PgExecutor<'_>,
    suite: Suite,
    now: i64,
    before: i64,
) -> sqlx::Result<Change> {
    sqlx::query_as!(
        Change,
        r#"
        WITH now AS (
            SELECT v.case_id, v.verdict IN ('passed', 'fixed', 'unexpected pass') AS passed,
                   v.verdict NOT IN ('missing', 'inconclusive', 'skipped') AS learnt
            FROM case_verdicts v JOIN cases c ON c.id = v.case_id
            WHERE v.run_id = $1 AND c.suite = $3
        ), before AS (
            SELECT v.case_id, v.verdict IN ('passed', 'fixed', 'unexpected pass') AS passed,
                   v.verdict NOT IN ('missing', 'inconclusive', 'skipped') AS learnt
            FROM case_verdicts v JOIN cases c ON c.id = v.case_id
            WHERE v.run_id = $2 AND c.suite = $3
        )
        SELECT count(*) FILTER (WHERE n.passed IS NOT NULL AND b.passed IS NOT NULL) AS "common!",
               count(*) FILTER (WHERE n.passed AND b.learnt AND NOT b.passed) AS "gained!",
               count(*) FILTER (WHERE b.passed AND n.learnt AND NOT n.passed) AS "lost!",
               count(*) FILTER (WHERE b.learnt AND NOT n.learnt) AS "no_longer_learnt!",
               count(*) FILTER (WHERE n.learnt AND NOT b.learnt) AS "newly_learnt!",
               count(*) FILTER (WHERE b.passed IS NULL) AS "only_now!",
               count(*) FILTER (WHERE n.passed IS NULL) AS "only_before!"
        FROM now n FULL JOIN before b USING (case_id)
        "#,
        now,
        before,
        suite.as_str(),
    )
    .fetch_one(db)
    .await
}

/// An overload that failing cases are blamed on.
#[derive(Debug, Clone)]
pub struct Blocker {
    /// `aten::_fft_r2c`.
    pub overload: String,
    /// Models, without size, with a failing case blamed on it.
    pub models: i64,
    /// Failing cases blamed on it.
    pub cases: i64,
    /// What was observed, over those cases.
    pub outcomes: Vec<String>,
    /// Blockers before the limit.
    pub total: i64,
}

/// Overloads that failing cases are blamed on, those that stop most models first. The pairs
/// (run, suite) are read in parallel; `subject_base` limits it to one model.
pub async fn list_blockers(
    db: impl PgExecutor<'_>,
    run_ids: &[i64],
    suites: &[String],
    subject_base: Option<&str>,
    limit: i64,
) -> sqlx::Result<Vec<Blocker>> {
    sqlx::query_as!(
        Blocker,
        r#"
        SELECT v.operator AS "overload!",
               count(DISTINCT c.subject_base) FILTER (WHERE c.suite IN ('tier1', 'tier2', 'dynamism')) AS "models!",
               count(*) AS "cases!",
               array_agg(DISTINCT v.outcome) AS "outcomes!: Vec<String>",
               count(*) OVER () AS "total!"
        FROM unnest($1::bigint[], $2::text[]) AS w (run_id, suite)
        JOIN case_verdicts v ON v.run_id = w.run_id
        JOIN cases c ON c.id = v.case_id AND c.suite = w.suite
        WHERE v.operator IS NOT NULL
          AND v.verdict IN ('failed', 'regressed', 'flaky', 'waived')
          AND ($3::text IS NULL OR c.subject_base = $3)
        GROUP BY v.operator
        ORDER BY 2 DESC, 3 DESC, v.operator
        LIMIT $4
        "#,
        run_ids,
        suites,
        subject_base,
        limit,
    )
    .fetch_all(db)
    .await
}

/// Cases that the backend said it does not implement, by overload.
#[derive(Debug, Clone)]
pub struct Unimplemented {
    /// The overload; nothing when the backend did not name one.
    pub overload: Option<String>,
    /// Cases stopped by it.
    pub cases: i64,
    /// Models, without size, stopped by it.
    pub models: i64,
}

/// Unimplemented overloads of one run, those that stop most cases first.
pub async fn list_unimplemented(
    db: impl PgExecutor<'_>,
    run_id: i64,
) -> sqlx::Result<Vec<Unimplemented>> {
    sqlx::query_as!(
        Unimplemented,
        r#"
        SELECT v.operator AS overload, count(*) AS "cases!",
               count(DISTINCT c.subject_base) FILTER (WHERE c.suite IN ('tier1', 'tier2', 'dynamism')) AS "models!"
        FROM case_verdicts v JOIN cases c ON c.id = v.case_id
        WHERE v.run_id = $1 AND v.outcome = $2
        GROUP BY v.operator
        ORDER BY count(*) DESC, v.operator
        "#,
        run_id,
        Outcome::Unsupported.as_str(),
    )
    .fetch_all(db)
    .await
}
