//! Queries of the run pages: lists of runs, one run's figures, its case table and its clusters.
//!
//! Reads only. Writing runs is elsewhere in this folder; judging is `judge/`.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use protocol::{Outcome, Suite, Verdict};
use sqlx::PgExecutor;
use sqlx::types::Json;

use super::read_words::Word;

/// One run as pages show it.
#[derive(Debug, Clone)]
pub struct RunView {
    /// Row id.
    pub id: i64,
    /// The runner's name for it.
    pub key: String,
    /// Suites planned.
    pub suites: Vec<String>,
    /// How the device is reached.
    pub device_profile: String,
    /// What the device says it is.
    pub device_kind: String,
    /// Whether its results are simulated.
    pub simulated: bool,
    /// The version tuple.
    pub versions: Json<BTreeMap<String, String>>,
    /// Free labels.
    pub labels: Json<BTreeMap<String, String>>,
    /// As the runner says.
    pub claimed_host: String,
    /// By the runner's clock.
    pub started_at: DateTime<Utc>,
    /// By the runner's clock.
    pub finished_at: Option<DateTime<Utc>>,
    /// By our clock: when something last came for it.
    pub last_activity_at: DateTime<Utc>,
    /// By our clock.
    pub sealed_at: Option<DateTime<Utc>>,
    /// `runner` or `silence`.
    pub sealed_by: Option<String>,
    /// `created`, `running`, `sealed`.
    pub state: String,
    /// `complete`, `incomplete`, `void`; only of a sealed run.
    pub completeness: Option<String>,
    /// Hex of the manifest's hash.
    pub manifest_hash: Option<String>,
    /// Cases planned.
    pub planned: i64,
    /// Attempts received.
    pub attempts: i64,
    /// Runs that the filter selects, before paging.
    pub total: i64,
}

/// Which runs to read. The default is all of them.
#[derive(Debug, Default, Clone)]
pub struct RunFilter {
    /// Only this one.
    pub key: Option<String>,
    /// Only these rows.
    pub ids: Option<Vec<i64>>,
    /// Only of this device profile.
    pub device: Option<String>,
    /// Only with this suite.
    pub suite: Option<Suite>,
    /// `running`, `complete`, `incomplete` or `void`.
    pub state: Option<String>,
}

/// Runs, newest first.
pub async fn select_runs(
    db: impl PgExecutor<'_>,
    filter: &RunFilter,
    limit: i64,
    offset: i64,
) -> sqlx::Result<Vec<RunView>> {
    sqlx::query_as!(
        RunView,
        r#"
        SELECT id, key, suites, device_profile, device_kind, simulated,
               versions AS "versions: Json<BTreeMap<String, String>>",
               labels AS "labels: Json<BTreeMap<String, String>>",
               claimed_host, started_at, finished_at, last_activity_at, sealed_at, sealed_by,
               state, completeness, encode(manifest_sha256, 'hex') AS manifest_hash,
               planned, attempts, count(*) OVER () AS "total!"
        FROM runs
        WHERE ($1::text IS NULL OR key = $1)
          AND ($2::bigint[] IS NULL OR id = ANY ($2))
          AND ($3::text IS NULL OR device_profile = $3)
          AND ($4::text IS NULL OR $4 = ANY (suites))
          AND ($5::text IS NULL OR completeness = $5 OR ($5 = 'running' AND state <> 'sealed'))
        ORDER BY started_at DESC, id DESC
        LIMIT $6 OFFSET $7
        "#,
        filter.key.as_deref(),
        filter.ids.as_deref(),
        filter.device.as_deref(),
        filter.suite.as_ref().map(Suite::as_str),
        filter.state.as_deref(),
        limit,
        offset,
    )
    .fetch_all(db)
    .await
}

/// Device profiles that have runs.
pub async fn list_device_profiles(db: impl PgExecutor<'_>) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar!("SELECT DISTINCT device_profile FROM runs ORDER BY device_profile")
        .fetch_all(db)
        .await
}

/// Imported suites that have runs.
pub async fn list_imported_suites(db: impl PgExecutor<'_>) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar!(
        r#"SELECT DISTINCT suite AS "suite!" FROM runs CROSS JOIN unnest(suites) AS s (suite)
           WHERE suite LIKE 'junit:%' ORDER BY suite"#
    )
    .fetch_all(db)
    .await
}

/// Cases of one run, suite and verdict.
#[derive(Debug, Clone, Copy)]
pub struct Tally {
    /// The run.
    pub run_id: i64,
    /// The suite.
    pub suite: Word<Suite>,
    /// The verdict.
    pub verdict: Word<Verdict>,
    /// How many.
    pub cases: i64,
}

/// Verdicts counted, of these runs.
pub async fn list_tallies(db: impl PgExecutor<'_>, run_ids: &[i64]) -> sqlx::Result<Vec<Tally>> {
    sqlx::query_as!(
        Tally,
        r#"
        SELECT run_id, suite AS "suite: Word<Suite>", verdict AS "verdict: Word<Verdict>", cases
        FROM run_tallies WHERE run_id = ANY ($1)
        ORDER BY run_id, suite, verdict
        "#,
        run_ids,
    )
    .fetch_all(db)
    .await
}

/// Cases of one suite and outcome in a run.
#[derive(Debug, Clone, Copy)]
pub struct OutcomeCount {
    /// The suite.
    pub suite: Word<Suite>,
    /// The outcome; nothing when no attempt has arrived.
    pub outcome: Option<Word<Outcome>>,
    /// How many.
    pub cases: i64,
}

/// Outcomes counted, of one run.
pub async fn count_outcomes(
    db: impl PgExecutor<'_>,
    run_id: i64,
) -> sqlx::Result<Vec<OutcomeCount>> {
    sqlx::query_as!(
        OutcomeCount,
        r#"
        SELECT c.suite AS "suite: Word<Suite>", v.outcome AS "outcome: Word<Outcome>",
               count(*) AS "cases!"
        FROM case_verdicts v JOIN cases c ON c.id = v.case_id
        WHERE v.run_id = $1
        GROUP BY c.suite, v.outcome
        ORDER BY c.suite, v.outcome
        "#,
        run_id,
    )
    .fetch_all(db)
    .await
}

/// One judged case of a run.
#[derive(Debug, Clone)]
pub struct CaseView {
    /// Row id of the run.
    pub run_id: i64,
    /// Key of the run.
    pub run_key: String,
    /// Key of the case.
    pub key: String,
    /// Its suite.
    pub suite: Word<Suite>,
    /// What is executed.
    pub subject: String,
    /// The subject without sample number or size.
    pub subject_base: String,
    /// Element type; empty with what follows for an imported case.
    pub dtype: String,
    /// Eager, strict or compile.
    pub mode: String,
    /// Forward or train.
    pub direction: String,
    /// Layout, where it matters.
    pub layout: Option<String>,
    /// The judgement.
    pub verdict: Word<Verdict>,
    /// The worst outcome; nothing when missing.
    pub outcome: Option<Word<Outcome>>,
    /// Where it stopped.
    pub stage: Option<String>,
    /// Class of the error.
    pub error_class: String,
    /// First line of what went wrong.
    pub message: String,
    /// Overload to blame.
    pub operator: Option<String>,
    /// Attempts that arrived.
    pub attempts: i32,
    /// The attempt whose details these are.
    pub decisive_attempt: Option<i32>,
    /// Wall seconds over all attempts.
    pub seconds: f64,
    /// Cluster.
    pub signature: Option<String>,
    /// Cases that the filter selects, before paging.
    pub total: i64,
}

/// Which cases to read.
#[derive(Debug, Default, Clone)]
pub struct CaseFilter {
    /// Only of this suite.
    pub suite: Option<Suite>,
    /// Only with this verdict.
    pub verdict: Option<Verdict>,
    /// Only with this outcome.
    pub outcome: Option<Outcome>,
    /// Only cases in whose key, message or operator this text stands, in any letter case.
    pub text: Option<String>,
    /// Only of this cluster.
    pub signature: Option<String>,
    /// Only blamed on this overload, or on an overload of this operator.
    pub operator: Option<String>,
    /// Only this subject, without sample number or size.
    pub subject_base: Option<String>,
    /// Only this key.
    pub key: Option<String>,
    /// Only what a query selects, as `queries::patterns` puts it.
    pub query: Option<serde_json::Value>,
    /// Only cases that a bad verdict or none stands against.
    pub only_bad: bool,
    /// In the order of the manifest, instead of the worst first.
    pub manifest_order: bool,
}

/// Cases of these (run, suite) pairs. `run_ids` and `suites` are read in parallel.
pub async fn select_cases(
    db: impl PgExecutor<'_>,
    run_ids: &[i64],
    suites: &[String],
    filter: &CaseFilter,
    limit: i64,
    offset: i64,
) -> sqlx::Result<Vec<CaseView>> {
    sqlx::query_as!(
        CaseView,
        r#"
        SELECT v.run_id, r.key AS run_key, c.key, c.suite AS "suite: Word<Suite>", c.subject,
               c.subject_base, coalesce(c.dtype, '') AS "dtype!", coalesce(c.mode, '') AS "mode!",
               coalesce(c.direction, '') AS "direction!", c.layout,
               v.verdict AS "verdict: Word<Verdict>", v.outcome AS "outcome: Word<Outcome>",
               v.stage, v.error_class, v.message, v.operator, v.attempts, v.decisive_attempt,
               v.seconds, v.signature, count(*) OVER () AS "total!"
        FROM unnest($1::bigint[], $2::text[]) AS w (run_id, suite)
        JOIN runs r ON r.id = w.run_id
        JOIN case_verdicts v ON v.run_id = w.run_id
        JOIN cases c ON c.id = v.case_id AND c.suite = w.suite
        WHERE ($3::text IS NULL OR c.suite = $3)
          AND ($4::text IS NULL OR v.verdict = $4)
          AND ($5::text IS NULL OR v.outcome = $5)
          AND ($6::text IS NULL OR strpos(lower(c.key), lower($6)) > 0
               OR strpos(lower(v.message), lower($6)) > 0
               OR strpos(lower(coalesce(v.operator, '')), lower($6)) > 0)
          AND ($7::text IS NULL OR v.signature = $7)
          AND ($8::text IS NULL OR v.operator = $8 OR starts_with(v.operator, $8 || '.'))
          AND ($9::text IS NULL OR c.subject_base = $9)
          AND ($10::text IS NULL OR c.key = $10)
          AND (NOT $11 OR v.verdict NOT IN ('passed', 'fixed'))
          AND ($15::jsonb IS NULL OR NOT EXISTS (
              SELECT FROM jsonb_to_recordset($15) AS t (field text, negated boolean, exact text[],
                                                        folded text[])
              WHERE t.negated = EXISTS (
                  SELECT FROM unnest(CASE t.field
                      WHEN 'case' THEN ARRAY[c.key]
                      WHEN 'suite' THEN ARRAY[c.suite]
                      WHEN 'op' THEN ARRAY[v.operator, CASE WHEN c.suite = 'operators'
                          THEN regexp_replace(c.subject_base, '^opinfo:', '') END]
                      WHEN 'model' THEN ARRAY[CASE WHEN c.suite IN ('tier1', 'tier2', 'dynamism')
                          THEN c.subject END]
                      WHEN 'dtype' THEN ARRAY[c.dtype]
                      WHEN 'mode' THEN ARRAY[c.mode]
                      WHEN 'direction' THEN ARRAY[c.direction]
                      WHEN 'layout' THEN ARRAY[CASE WHEN c.dtype IS NOT NULL
                          THEN coalesce(c.layout, 'plain') END]
                      WHEN 'outcome' THEN ARRAY[v.outcome]
                      WHEN 'verdict' THEN ARRAY[v.verdict]
                      WHEN 'stage' THEN ARRAY[v.stage]
                      WHEN 'error' THEN ARRAY[v.error_class]
                      WHEN 'message' THEN ARRAY[v.message] END) AS value
                  WHERE value LIKE ANY (t.exact) OR lower(value) LIKE ANY (t.folded))))
        ORDER BY CASE WHEN $12 THEN 0 ELSE
                 array_position(ARRAY['regressed', 'failed', 'flaky', 'unexpected pass',
                                      'missing', 'inconclusive', 'waived', 'skipped',
                                      'fixed', 'passed'], v.verdict) END,
                 v.position, v.run_id
        LIMIT $13 OFFSET $14
        "#,
        run_ids,
        suites,
        filter.suite.as_ref().map(Suite::as_str),
        filter.verdict.map(Verdict::as_str),
        filter.outcome.map(Outcome::as_str),
        filter.text.as_deref(),
        filter.signature.as_deref(),
        filter.operator.as_deref(),
        filter.subject_base.as_deref(),
        filter.key.as_deref(),
        filter.only_bad,
        filter.manifest_order,
        limit,
        offset,
        filter.query.as_ref(),
    )
    .fetch_all(db)
    .await
}

/// Failing cases that look alike.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// Id of the signature.
    pub signature: String,
    /// What was observed.
    pub outcome: Word<Outcome>,
    /// Where it stopped.
    pub stage: Option<String>,
    /// Class of the error.
    pub error_class: String,
    /// Overload to blame.
    pub operator: Option<String>,
    /// First line with numbers and addresses taken out.
    pub line: String,
    /// Cases in it.
    pub cases: i64,
    /// Subjects in it, without sample numbers and sizes.
    pub subjects: i64,
    /// Clusters of the run, before the limit.
    pub total: i64,
}

/// Clusters of one run, the largest first.
pub async fn list_clusters(
    db: impl PgExecutor<'_>,
    run_id: i64,
    limit: i64,
) -> sqlx::Result<Vec<Cluster>> {
    sqlx::query_as!(
        Cluster,
        r#"
        SELECT s.id AS signature, s.outcome AS "outcome: Word<Outcome>", s.stage, s.error_class,
               s.operator, s.line, count(*) AS "cases!",
               count(DISTINCT (c.suite, c.subject_base)) AS "subjects!",
               count(*) OVER () AS "total!"
        FROM case_verdicts v
        JOIN cases c ON c.id = v.case_id
        JOIN signatures s ON s.id = v.signature
        WHERE v.run_id = $1 AND v.verdict <> 'skipped'
        GROUP BY s.id
        ORDER BY count(*) DESC, s.id
        LIMIT $2
        "#,
        run_id,
        limit,
    )
    .fetch_all(db)
    .await
}
