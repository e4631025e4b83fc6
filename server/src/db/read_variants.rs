//! Queries of the operator and model pages that count by variant: dtype, mode, direction and layout,
//! of subjects and of overloads. Sealed runs are read from `run_subjects` and
//! `run_overload_variants`, every other run is counted; see `summaries`.
//!
//! All of them take (run, suite) pairs, as those of `read_operators` do.

use protocol::{Dtype, Mode, Outcome, Suite, Verdict};
use sqlx::PgExecutor;

use super::read_words::Word;

/// Cases of one subject, or of one overload, with a variant, verdict and outcome.
#[derive(Debug, Clone)]
pub struct VariantCount {
    /// The suite.
    pub suite: Word<Suite>,
    /// The subject without sample number or size, or the overload.
    pub name: String,
    /// Element type.
    pub dtype: Word<Dtype>,
    /// Eager, strict or compile.
    pub mode: Word<Mode>,
    /// The judgement.
    pub verdict: Word<Verdict>,
    /// The outcome; nothing when missing.
    pub outcome: Option<Word<Outcome>>,
    /// How many.
    pub cases: i64,
}

/// Counts by subject, dtype, mode, verdict and outcome, in no order: pages sort what they add up,
/// and sorting tens of thousands of lines here would take longer than counting them. `form` limits
/// it to cases of one direction and layout.
pub async fn count_by_subject(
    db: impl PgExecutor<'_>,
    run_ids: &[i64],
    suites: &[String],
    form: Option<&Form>,
) -> sqlx::Result<Vec<VariantCount>> {
    sqlx::query_as!(
        VariantCount,
        r#"
        SELECT s.suite AS "suite!: Word<Suite>", s.subject_base AS "name!",
               s.dtype AS "dtype!: Word<Dtype>", s.mode AS "mode!: Word<Mode>",
               s.verdict AS "verdict!: Word<Verdict>", s.outcome AS "outcome: Word<Outcome>",
               sum(s.cases)::bigint AS "cases!"
        FROM (SELECT w.run_id, w.suite, r.summarised
              FROM unnest($1::bigint[], $2::text[]) AS w (run_id, suite)
              JOIN runs r ON r.id = w.run_id) AS w
        CROSS JOIN LATERAL (
            SELECT suite, subject_base, dtype, mode, direction, layout, verdict, outcome, cases
            FROM run_subjects
            WHERE run_id = w.run_id AND suite = w.suite AND w.summarised
            UNION ALL
            SELECT suite, subject_base, dtype, mode, direction, layout, verdict, outcome, cases
            FROM counted_subjects
            WHERE run_id = w.run_id AND suite = w.suite AND NOT w.summarised
        ) AS s
        WHERE $3::text IS NULL
           OR (s.direction = $3 AND coalesce(s.layout, '') = coalesce($4::text, ''))
        GROUP BY s.suite, s.subject_base, s.dtype, s.mode, s.verdict, s.outcome
        "#,
        run_ids,
        suites,
        form.map(|form| form.direction.as_str()),
        form.and_then(|form| form.layout.as_deref()),
    )
    .fetch_all(db)
    .await
}

/// How a case calls its operator: the direction, and `out`, `inplace`, `noncontiguous`, … where it
/// is not the plain call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    /// Forward or train.
    pub direction: String,
    /// Layout, where it matters.
    pub layout: Option<String>,
}

/// Every form in which a case of the suite was ever planned.
pub async fn list_forms(db: impl PgExecutor<'_>, suite: Suite) -> sqlx::Result<Vec<Form>> {
    sqlx::query_as!(
        Form,
        r#"
        SELECT DISTINCT direction AS "direction!", layout FROM cases
        WHERE suite = $1 AND direction IS NOT NULL
        ORDER BY 1, 2 NULLS FIRST
        "#,
        suite.as_str(),
    )
    .fetch_all(db)
    .await
}

/// Counts of the operator suite's cases that dispatched an overload or are blamed on it, in no
/// order. `form` limits it to cases of one direction and layout, `operator` to one operator or one
/// overload.
pub async fn count_overload_variants(
    db: impl PgExecutor<'_>,
    run_ids: &[i64],
    suites: &[String],
    form: Option<&Form>,
    operator: Option<&str>,
) -> sqlx::Result<Vec<VariantCount>> {
    sqlx::query_as!(
        VariantCount,
        r#"
        SELECT w.suite AS "suite!: Word<Suite>", o.overload AS name,
               s.dtype AS "dtype!: Word<Dtype>", s.mode AS "mode!: Word<Mode>",
               s.verdict AS "verdict!: Word<Verdict>", s.outcome AS "outcome: Word<Outcome>",
               sum(s.cases)::bigint AS "cases!"
        FROM (SELECT w.run_id, w.suite, r.summarised
              FROM unnest($1::bigint[], $2::text[]) AS w (run_id, suite)
              JOIN runs r ON r.id = w.run_id) AS w
        CROSS JOIN LATERAL (
            SELECT operator_id, dtype, mode, direction, layout, verdict, outcome, cases
            FROM run_overload_variants
            WHERE run_id = w.run_id AND suite = w.suite AND w.summarised
            UNION ALL
            SELECT operator_id, dtype, mode, direction, layout, verdict, outcome, cases
            FROM counted_overload_variants
            WHERE run_id = w.run_id AND suite = w.suite AND NOT w.summarised
        ) AS s
        JOIN operators o ON o.id = s.operator_id
        WHERE ($3::text IS NULL
               OR (s.direction = $3 AND coalesce(s.layout, '') = coalesce($4::text, '')))
          AND ($5::text IS NULL OR o.operator = $5 OR o.overload = $5)
        GROUP BY w.suite, o.overload, s.dtype, s.mode, s.verdict, s.outcome
        "#,
        run_ids,
        suites,
        form.map(|form| form.direction.as_str()),
        form.and_then(|form| form.layout.as_deref()),
        operator,
    )
    .fetch_all(db)
    .await
}
