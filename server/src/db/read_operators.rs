//! Queries of the operator and model pages: which overloads which cases dispatched, and what that
//! stops. Counts by variant are in `read_variants`.
//!
//! All of them take (run, suite) pairs, read in parallel: a page shows the newest run of every
//! suite, and these may be different runs.

use std::collections::{BTreeMap, BTreeSet};

use protocol::Suite;
use sqlx::PgExecutor;

/// One overload over the cases that touched it.
#[derive(Debug, Clone, Default)]
pub struct OverloadCount {
    /// `aten::add.Tensor`.
    pub overload: String,
    /// Cases that dispatched it or are blamed on it.
    pub cases: i64,
    /// Of those, that passed.
    pub passed: i64,
    /// Cases blamed on it whose verdict is bad.
    pub blamed: i64,
    /// Models, without size, that dispatched it or are blamed on it, in the suite in which most do:
    /// the suites share models, so that a sum would count them twice.
    pub models: i64,
    /// Models with a bad case blamed on it, in any suite.
    pub blocked_models: i64,
    /// Cases in which the backend computed it on the CPU.
    pub fell_back: i64,
    /// Dispatches counted over all cases; nothing where no recording finished.
    pub calls: Option<i64>,
    /// Outcomes of the cases blamed on it, sorted.
    pub blamed_outcomes: Vec<String>,
}

impl OverloadCount {
    /// Of an overload that no case touched.
    #[must_use]
    pub fn untouched(overload: &str) -> Self {
        Self { overload: overload.to_owned(), ..Self::default() }
    }
}

/// One overload in one suite of one run.
struct SuiteOverload {
    overload: String,
    suite: String,
    cases: i64,
    passed: i64,
    blamed: i64,
    subjects: i64,
    blocked_subjects: Vec<String>,
    fell_back: i64,
    calls: Option<i64>,
    blamed_outcomes: Vec<String>,
}

/// Overloads that the cases of these runs touched, by name. `operator` limits it to one operator or
/// one overload.
pub async fn count_overloads(
    db: impl PgExecutor<'_>,
    run_ids: &[i64],
    suites: &[String],
    operator: Option<&str>,
) -> sqlx::Result<Vec<OverloadCount>> {
    let rows = sqlx::query_as!(
        SuiteOverload,
        r#"
        SELECT o.overload, s.suite AS "suite!", s.cases AS "cases!", s.passed AS "passed!",
               s.blamed AS "blamed!", s.subjects AS "subjects!",
               s.blocked_subjects AS "blocked_subjects!", s.fell_back AS "fell_back!", s.calls,
               s.blamed_outcomes AS "blamed_outcomes!"
        FROM (SELECT w.run_id, w.suite, r.summarised
              FROM unnest($1::bigint[], $2::text[]) AS w (run_id, suite)
              JOIN runs r ON r.id = w.run_id) AS w
        CROSS JOIN LATERAL (
            SELECT suite, operator_id, cases, passed, blamed, subjects, blocked_subjects, fell_back,
                   calls, blamed_outcomes
            FROM run_overloads
            WHERE run_id = w.run_id AND suite = w.suite AND w.summarised
            UNION ALL
            SELECT suite, operator_id, cases, passed, blamed, subjects, blocked_subjects, fell_back,
                   calls, blamed_outcomes
            FROM counted_overloads
            WHERE run_id = w.run_id AND suite = w.suite AND NOT w.summarised
        ) AS s
        JOIN operators o ON o.id = s.operator_id
        WHERE $3::text IS NULL OR o.operator = $3 OR o.overload = $3
        "#,
        run_ids,
        suites,
        operator,
    )
    .fetch_all(db)
    .await?;
    Ok(add_up(rows))
}

/// Overloads that the cases of one subject touched, by name.
pub async fn count_overloads_of_subject(
    db: impl PgExecutor<'_>,
    run_ids: &[i64],
    suites: &[String],
    subject_base: &str,
) -> sqlx::Result<Vec<OverloadCount>> {
    let rows = sqlx::query_as!(
        SuiteOverload,
        r#"
        SELECT o.overload, c.suite, count(*) AS "cases!",
               count(*) FILTER (WHERE t.verdict IN ('passed', 'fixed', 'unexpected pass'))
                   AS "passed!",
               count(*) FILTER (WHERE t.bad) AS "blamed!",
               1::bigint AS "subjects!",
               coalesce(array_agg(DISTINCT c.subject_base) FILTER (WHERE t.bad), '{}')
                   AS "blocked_subjects!",
               count(*) FILTER (WHERE t.fell_back) AS "fell_back!",
               sum(t.calls)::bigint AS calls,
               coalesce(array_agg(DISTINCT t.outcome) FILTER (WHERE t.bad), '{}')
                   AS "blamed_outcomes!: Vec<String>"
        FROM unnest($1::bigint[], $2::text[]) AS w (run_id, suite)
        JOIN cases c ON c.suite = w.suite AND c.subject_base = $3
        JOIN touched_overloads t ON t.run_id = w.run_id AND t.case_id = c.id
        JOIN operators o ON o.id = t.operator_id
        GROUP BY o.overload, c.suite
        "#,
        run_ids,
        suites,
        subject_base,
    )
    .fetch_all(db)
    .await?;
    Ok(add_up(rows))
}

/// Over suites and runs.
fn add_up(rows: Vec<SuiteOverload>) -> Vec<OverloadCount> {
    type Words = BTreeSet<String>;
    let mut by_overload: BTreeMap<String, (OverloadCount, Words, Words)> = BTreeMap::new();
    for row in rows {
        let (count, blocked, outcomes) =
            by_overload.entry(row.overload).or_insert_with_key(|overload| {
                (OverloadCount::untouched(overload), Words::new(), Words::new())
            });
        count.cases += row.cases;
        count.passed += row.passed;
        count.blamed += row.blamed;
        count.fell_back += row.fell_back;
        count.calls = match (count.calls, row.calls) {
            (Some(before), Some(more)) => Some(before + more),
            (before, more) => before.or(more),
        };
        outcomes.extend(row.blamed_outcomes);
        if Suite::MODELS.iter().any(|suite| suite.as_str() == row.suite) {
            count.models = count.models.max(row.subjects);
            blocked.extend(row.blocked_subjects);
        }
    }
    let finish = |(count, blocked, outcomes): (OverloadCount, Words, Words)| OverloadCount {
        blocked_models: i64::try_from(blocked.len()).unwrap_or(i64::MAX),
        blamed_outcomes: outcomes.into_iter().collect(),
        ..count
    };
    by_overload.into_values().map(finish).collect()
}

/// A subject that touches an operator.
#[derive(Debug, Clone)]
pub struct OperatorUser {
    /// Whether it is an entry of the operator suite; a model otherwise.
    pub is_entry: bool,
    /// The subject without sample number or size.
    pub subject_base: String,
    /// Suites in which it did.
    pub suites: Vec<String>,
    /// Cases that touched it.
    pub cases: i64,
    /// Of those, that passed.
    pub passed: i64,
    /// Bad cases blamed on it.
    pub blamed: i64,
    /// Dispatches counted; nothing where no recording finished.
    pub calls: Option<i64>,
}

/// Subjects whose cases touched an operator or overload, the blocked ones first, then by calls.
pub async fn list_operator_users(
    db: impl PgExecutor<'_>,
    run_ids: &[i64],
    suites: &[String],
    operator: &str,
) -> sqlx::Result<Vec<OperatorUser>> {
    sqlx::query_as!(
        OperatorUser,
        r#"
        SELECT suite = 'operators' AS "is_entry!", subject_base,
               array_agg(DISTINCT suite ORDER BY suite) AS "suites!", count(*) AS "cases!",
               count(*) FILTER (WHERE verdict IN ('passed', 'fixed', 'unexpected pass')) AS "passed!",
               count(*) FILTER (WHERE blamed AND verdict IN
                   ('failed', 'regressed', 'flaky', 'waived')) AS "blamed!",
               sum(calls)::bigint AS calls
        FROM (
            SELECT c.suite, c.subject_base, c.id, v.verdict, bool_or(t.blamed) AS blamed,
                   sum(t.calls) AS calls
            FROM unnest($1::bigint[], $2::text[]) AS w (run_id, suite)
            JOIN operator_cases t ON t.run_id = w.run_id
            JOIN operators o ON o.id = t.operator_id
            JOIN cases c ON c.id = t.case_id AND c.suite = w.suite
            CROSS JOIN LATERAL (
                SELECT v.verdict FROM case_verdicts v
                WHERE v.run_id = t.run_id AND v.case_id = t.case_id
                OFFSET 0
            ) AS v
            WHERE o.operator = $3 OR o.overload = $3
            GROUP BY c.suite, c.subject_base, c.id, v.verdict
        ) AS touched
        GROUP BY suite = 'operators', subject_base
        ORDER BY 6 DESC, 7 DESC NULLS LAST, subject_base
        "#,
        run_ids,
        suites,
        operator,
    )
    .fetch_all(db)
    .await
}

/// Whether any run has ever touched this operator or overload, or any build has it.
pub async fn is_known_operator(db: impl PgExecutor<'_>, name: &str) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"
        SELECT EXISTS (SELECT FROM operators WHERE operator = $1 OR overload = $1)
            OR EXISTS (SELECT FROM inventory_overloads WHERE operator = $1 OR name = $1) AS "known!"
        "#,
        name,
    )
    .fetch_one(db)
    .await
}

/// Whether any run has ever planned this subject in one of the suites.
pub async fn is_known_subject(
    db: impl PgExecutor<'_>,
    subject_base: &str,
    suites: &[String],
) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"
        SELECT EXISTS (SELECT FROM cases WHERE subject_base = $1 AND suite = ANY ($2)) AS "known!"
        "#,
        subject_base,
        suites,
    )
    .fetch_one(db)
    .await
}
