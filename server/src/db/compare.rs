//! Two runs, case by case.

use protocol::{Suite, Verdict};
use sqlx::PgExecutor;

use super::read_words::Word;

/// Cases with the same verdicts in both runs; a side is absent where the run did not plan them.
#[derive(Debug, Clone)]
pub struct Group {
    /// In the first run.
    pub before: Option<Word<Verdict>>,
    /// In the second run.
    pub now: Option<Word<Verdict>>,
    /// Whether outcome and signature are the same.
    pub same: bool,
    /// How many.
    pub cases: i64,
}

/// Counts of every pair of verdicts.
pub async fn list_groups(
    db: impl PgExecutor<'_>,
    before: i64,
    now: i64,
    suite: Option<Suite>,
) -> sqlx::Result<Vec<Group>> {
    sqlx::query_as!(
        Group,
        r#"WITH a AS (
               SELECT case_id, verdict, outcome, signature FROM case_verdicts WHERE run_id = $1
           ), b AS (
               SELECT case_id, verdict, outcome, signature FROM case_verdicts WHERE run_id = $2
           )
           SELECT a.verdict AS "before?: Word<Verdict>", b.verdict AS "now?: Word<Verdict>",
                  (a.outcome, a.signature) IS NOT DISTINCT FROM (b.outcome, b.signature)
                      AS "same!",
                  count(*) AS "cases!"
           FROM a FULL JOIN b USING (case_id)
           WHERE $3::text IS NULL OR case_id IN (SELECT id FROM cases WHERE suite = $3)
           GROUP BY 1, 2, 3"#,
        before,
        now,
        suite.as_ref().map(Suite::as_str)
    )
    .fetch_all(db)
    .await
}

/// A case in two runs; a side is absent where the run did not plan it.
#[derive(Debug, Clone)]
pub struct PairRow {
    /// Full text of the key.
    pub case: String,
    /// In the first run.
    pub before: Option<Word<Verdict>>,
    /// In the second run.
    pub now: Option<Word<Verdict>>,
    /// Whether outcome and signature are the same.
    pub same: bool,
    /// In the first run.
    pub outcome_before: Option<String>,
    /// In the second run.
    pub outcome_now: Option<String>,
    /// First line of what went wrong in the second run.
    pub message: Option<String>,
    /// Overload blamed in the second run.
    pub operator: Option<String>,
}

/// Cases of those groups, by key; only those after `after`.
pub async fn list_pairs(
    db: impl PgExecutor<'_>,
    before: i64,
    now: i64,
    suite: Option<Suite>,
    groups: &[Group],
    after: Option<&str>,
    limit: i64,
) -> sqlx::Result<Vec<PairRow>> {
    let word = |side: Option<Word<Verdict>>| side.map_or("", |Word(verdict)| verdict.as_str());
    let befores: Vec<String> = groups.iter().map(|g| word(g.before).to_owned()).collect();
    let nows: Vec<String> = groups.iter().map(|g| word(g.now).to_owned()).collect();
    let sames: Vec<bool> = groups.iter().map(|g| g.same).collect();
    sqlx::query_as!(
        PairRow,
        r#"WITH a AS (
               SELECT case_id, verdict, outcome, signature FROM case_verdicts WHERE run_id = $1
           ), b AS (
               SELECT case_id, verdict, outcome, signature, message, operator
               FROM case_verdicts WHERE run_id = $2
           ), pair AS (
               SELECT case_id, a.verdict AS before, b.verdict AS now,
                      (a.outcome, a.signature) IS NOT DISTINCT FROM (b.outcome, b.signature)
                          AS same,
                      a.outcome AS outcome_before, b.outcome AS outcome_now, b.message, b.operator
               FROM a FULL JOIN b USING (case_id)
           )
           SELECT c.key AS "case!", pair.before AS "before?: Word<Verdict>",
                  pair.now AS "now?: Word<Verdict>", pair.same AS "same!",
                  pair.outcome_before AS "outcome_before?", pair.outcome_now AS "outcome_now?",
                  pair.message AS "message?", pair.operator AS "operator?"
           FROM pair JOIN cases c ON c.id = pair.case_id
           JOIN UNNEST($4::text[], $5::text[], $6::boolean[]) AS w (before, now, same)
             ON w.before = coalesce(pair.before, '') AND w.now = coalesce(pair.now, '')
                AND w.same = pair.same
           WHERE ($3::text IS NULL OR c.suite = $3) AND ($7::text IS NULL OR c.key > $7)
           ORDER BY c.key LIMIT $8"#,
        before,
        now,
        suite.as_ref().map(Suite::as_str),
        &befores,
        &nows,
        &sames,
        after,
        limit
    )
    .fetch_all(db)
    .await
}
