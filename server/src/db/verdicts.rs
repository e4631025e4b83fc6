//! The tables `case_verdicts` and `run_tallies`, which are derived and always change together.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use protocol::{CaseKey, Suite, Verdict};
use sqlx::{PgConnection, PgExecutor};

use super::runs::LockedRun;
use super::{count, word};
use crate::judge::completeness::Tally;

/// A planned case and the verdict it has now.
#[derive(Debug, Clone)]
pub struct Planned {
    /// Ours.
    pub case_id: i64,
    /// Full text of the key.
    pub key: String,
    /// Suite.
    pub suite: Suite,
    /// As stored.
    pub verdict: Verdict,
    /// Attempts it was judged over.
    pub attempts: i32,
    /// Run that last passed it, as stored.
    pub baseline_run_id: Option<i64>,
    /// Waiver that covers it, as stored.
    pub waiver_id: Option<i64>,
}

impl Planned {
    /// Whether storing that would change nothing. Attempts are only ever added, so the same number
    /// of them means the same ones.
    #[must_use]
    pub fn is_as(&self, judged: &Judged) -> bool {
        self.verdict == judged.verdict
            && self.attempts == judged.attempts
            && self.baseline_run_id == judged.baseline_run_id
            && self.waiver_id == judged.waiver_id
    }
}

/// All cases that the run has planned, by id.
pub async fn list_case_ids(
    connection: &mut PgConnection,
    run: &LockedRun,
) -> sqlx::Result<Vec<i64>> {
    sqlx::query_scalar!(
        "SELECT case_id FROM case_verdicts WHERE run_id = $1 ORDER BY case_id",
        run.id
    )
    .fetch_all(connection)
    .await
}

/// Those cases of the run (all when absent), in the order of the manifest.
pub async fn list_planned(
    connection: &mut PgConnection,
    run: &LockedRun,
    case_ids: Option<&[i64]>,
) -> sqlx::Result<Vec<Planned>> {
    let rows = sqlx::query_as!(
        PlannedRow,
        "SELECT v.case_id, c.key, c.suite, v.verdict, v.attempts, v.baseline_run_id, v.waiver_id
         FROM case_verdicts v JOIN cases c ON c.id = v.case_id
         WHERE v.run_id = $1 AND ($2::bigint[] IS NULL OR v.case_id = ANY ($2))
         ORDER BY v.position",
        run.id,
        case_ids
    )
    .fetch_all(connection)
    .await?;
    rows.into_iter().map(PlannedRow::read).collect()
}

/// Those of the given cases, by id, that the run has planned.
pub async fn find_planned(
    connection: &mut PgConnection,
    run: &LockedRun,
    cases: &HashMap<i64, &CaseKey>,
) -> sqlx::Result<Vec<Planned>> {
    let ids: Vec<i64> = cases.keys().copied().collect();
    let rows = sqlx::query!(
        "SELECT case_id, verdict, attempts, baseline_run_id, waiver_id FROM case_verdicts
         WHERE run_id = $1 AND case_id = ANY ($2)",
        run.id,
        &ids
    )
    .fetch_all(connection)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(Planned {
                case_id: row.case_id,
                key: cases[&row.case_id].to_string(),
                suite: cases[&row.case_id].suite(),
                verdict: word(&row.verdict)?,
                attempts: row.attempts,
                baseline_run_id: row.baseline_run_id,
                waiver_id: row.waiver_id,
            })
        })
        .collect()
}

/// [`Planned`] with its words not read yet.
struct PlannedRow {
    case_id: i64,
    key: String,
    suite: String,
    verdict: String,
    attempts: i32,
    baseline_run_id: Option<i64>,
    waiver_id: Option<i64>,
}

impl PlannedRow {
    fn read(self) -> sqlx::Result<Planned> {
        Ok(Planned {
            suite: word(&self.suite)?,
            verdict: word(&self.verdict)?,
            case_id: self.case_id,
            key: self.key,
            attempts: self.attempts,
            baseline_run_id: self.baseline_run_id,
            waiver_id: self.waiver_id,
        })
    }
}

/// A verdict to store.
#[derive(Debug, Clone)]
pub struct Judged {
    /// Ours.
    pub case_id: i64,
    /// The verdict.
    pub verdict: Verdict,
    /// The outcome that stands for all attempts.
    pub outcome: String,
    /// Whether some of one source passed and some did not.
    pub mixed: bool,
    /// Whether more than one source executed it.
    pub overlapping: bool,
    /// How many there are.
    pub attempts: i32,
    /// How many there were when it was judged before.
    pub attempts_before: i32,
    /// Number of the attempt whose details are shown.
    pub decisive_attempt: i32,
    /// Its stage.
    pub stage: Option<String>,
    /// Its error class.
    pub error_class: String,
    /// Its first line.
    pub message: String,
    /// Overload it blames.
    pub operator: Option<String>,
    /// Sum over the attempts.
    pub seconds: f64,
    /// What it clusters by.
    pub signature: Option<String>,
    /// Run that last passed it.
    pub baseline_run_id: Option<i64>,
    /// Waiver that covers it.
    pub waiver_id: Option<i64>,
    /// Ids of the overloads that attempts touched which are being stored, in order; those that
    /// attempts of before touched stay.
    pub operators: Vec<i64>,
}

/// Stores verdicts of cases with attempts; answers of how many. Where a case has other attempts than
/// those that were known, somebody else was faster, and its verdict stays.
pub async fn store(
    connection: &mut PgConnection,
    run: &LockedRun,
    judged: &[Judged],
    now: DateTime<Utc>,
) -> sqlx::Result<usize> {
    let texts = |of: &dyn Fn(&Judged) -> Option<String>| -> Vec<Option<String>> {
        judged.iter().map(of).collect()
    };
    let case_ids: Vec<i64> = judged.iter().map(|j| j.case_id).collect();
    let attempts: Vec<i32> = judged.iter().map(|j| j.attempts).collect();
    let before: Vec<i32> = judged.iter().map(|j| j.attempts_before).collect();
    let decisive: Vec<i32> = judged.iter().map(|j| j.decisive_attempt).collect();
    let seconds: Vec<f64> = judged.iter().map(|j| j.seconds).collect();
    let baselines: Vec<Option<i64>> = judged.iter().map(|j| j.baseline_run_id).collect();
    let mixed: Vec<bool> = judged.iter().map(|j| j.mixed).collect();
    let overlapping: Vec<bool> = judged.iter().map(|j| j.overlapping).collect();
    let waivers: Vec<Option<i64>> = judged.iter().map(|j| j.waiver_id).collect();
    // As text, since no array of arrays has rows of different lengths.
    let array = |ids: &[i64]| {
        let ids: Vec<String> = ids.iter().map(i64::to_string).collect();
        format!("{{{}}}", ids.join(","))
    };
    let operators: Vec<String> = judged.iter().map(|j| array(&j.operators)).collect();
    let stored = sqlx::query!(
        "UPDATE case_verdicts v SET
             verdict = new.verdict, outcome = new.outcome, attempts = new.attempts,
             decisive_attempt = new.decisive, stage = new.stage, error_class = new.error_class,
             message = new.message, operator = new.operator, seconds = new.seconds,
             signature = new.signature, baseline_run_id = new.baseline_run_id,
             waiver_id = new.waiver_id, mixed = new.mixed, overlapping = new.overlapping,
             operators = CASE
                 WHEN v.operators = '{}' THEN new.operators::bigint[]
                 WHEN new.operators = '{}' THEN v.operators
                 ELSE ARRAY (SELECT DISTINCT unnest(v.operators || new.operators::bigint[])
                             ORDER BY 1)
             END,
             judged_at = $19
         FROM UNNEST($2::bigint[], $3::text[], $4::text[], $5::integer[], $6::integer[],
                     $7::text[], $8::text[], $9::text[], $10::text[], $11::double precision[],
                     $12::text[], $13::bigint[], $14::bigint[], $15::boolean[],
                     $16::boolean[], $17::text[], $18::integer[])
              AS new (case_id, verdict, outcome, attempts, decisive, stage, error_class, message,
                      operator, seconds, signature, baseline_run_id, waiver_id, mixed, overlapping,
                      operators, attempts_before)
         WHERE v.run_id = $1 AND v.case_id = new.case_id AND v.attempts = new.attempts_before",
        run.id,
        &case_ids,
        &texts(&|j| Some(j.verdict.as_str().to_owned())) as &[Option<String>],
        &texts(&|j| Some(j.outcome.clone())) as &[Option<String>],
        &attempts,
        &decisive,
        &texts(&|j| j.stage.clone()) as &[Option<String>],
        &texts(&|j| Some(j.error_class.clone())) as &[Option<String>],
        &texts(&|j| Some(j.message.clone())) as &[Option<String>],
        &texts(&|j| j.operator.clone()) as &[Option<String>],
        &seconds,
        &texts(&|j| j.signature.clone()) as &[Option<String>],
        &baselines as &[Option<i64>],
        &waivers as &[Option<i64>],
        &mixed,
        &overlapping,
        &operators,
        &before,
        now
    )
    .execute(connection)
    .await?;
    Ok(usize::try_from(stored.rows_affected()).unwrap_or(usize::MAX))
}

/// Moves cases between verdicts in the tallies; `moves` are (suite, verdict, difference).
pub async fn move_tallies(
    connection: &mut PgConnection,
    run: &LockedRun,
    moves: &[(Suite, Verdict, i64)],
) -> sqlx::Result<()> {
    let suites: Vec<String> = moves.iter().map(|(s, ..)| s.as_str().to_owned()).collect();
    let verdicts: Vec<String> = moves.iter().map(|(_, v, _)| v.as_str().to_owned()).collect();
    let differences: Vec<i64> = moves.iter().map(|(.., difference)| *difference).collect();
    // A row is made at 0 first, because a negative difference could not be inserted.
    sqlx::query!(
        "INSERT INTO run_tallies (run_id, suite, verdict, cases)
         SELECT $1, suite, verdict, 0 FROM UNNEST($2::text[], $3::text[]) AS new (suite, verdict)
         ON CONFLICT DO NOTHING",
        run.id,
        &suites,
        &verdicts
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!(
        "UPDATE run_tallies t SET cases = t.cases + new.difference
         FROM UNNEST($2::text[], $3::text[], $4::bigint[]) AS new (suite, verdict, difference)
         WHERE t.run_id = $1 AND t.suite = new.suite AND t.verdict = new.verdict",
        run.id,
        &suites,
        &verdicts,
        &differences
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Cases per run, suite and verdict.
pub async fn list_tallies(
    db: impl PgExecutor<'_>,
    run_ids: &[i64],
) -> sqlx::Result<Vec<(i64, Suite, Verdict, u64)>> {
    let rows = sqlx::query!(
        "SELECT run_id, suite, verdict, cases FROM run_tallies
         WHERE run_id = ANY ($1) AND cases > 0 ORDER BY run_id, suite, verdict",
        run_ids
    )
    .fetch_all(db)
    .await?;
    rows.into_iter()
        .map(|row| Ok((row.run_id, word(&row.suite)?, word(&row.verdict)?, count(row.cases))))
        .collect()
}

/// Cases per verdict of one run, over all suites.
pub async fn tally(db: impl PgExecutor<'_>, run_id: i64) -> sqlx::Result<Tally> {
    let rows = list_tallies(db, &[run_id]).await?;
    Ok(rows.into_iter().map(|(_, _, verdict, cases)| (verdict, cases)).collect())
}
