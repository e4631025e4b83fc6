//! What earlier runs say of cases: the last known pass and the last conclusive outcome.

use std::collections::{HashMap, HashSet};

use protocol::Outcome;
use sqlx::PgConnection;

use super::runs::LockedRun;
use super::word;
use crate::judge::baseline::History;

/// The history of one case, and the run that last passed it.
#[derive(Debug, Clone, Copy)]
pub struct Baseline {
    /// For judgement.
    pub history: History,
    /// Last known pass.
    pub passed_in: Option<i64>,
}

/// Histories of cases before `run`, on its device profile, over sealed runs that were not
/// withdrawn. A case that is absent from the answer is new.
///
/// The runs are looked at from the newest on, more of them each time, and only for the cases of
/// which no pass is known yet: one run answers for nearly all of them, however many there are.
pub async fn find(
    connection: &mut PgConnection,
    run: &LockedRun,
    case_ids: &[i64],
) -> sqlx::Result<HashMap<i64, Baseline>> {
    let mut found: HashMap<i64, Baseline> = HashMap::with_capacity(case_ids.len());
    let mut open: Vec<i64> = case_ids.to_vec();
    let earlier = list_earlier(connection, run).await?;
    let (mut rest, mut most) = (earlier.as_slice(), 1);
    while !rest.is_empty() && !open.is_empty() {
        let (runs, others) = rest.split_at(most.min(rest.len()));
        (rest, most) = (others, most * 2);
        for (case_id, run_id, outcome) in list_outcomes(connection, runs, &open).await? {
            let passed = outcome == Outcome::Pass;
            // The first line of a case is the newest.
            let baseline = found.entry(case_id).or_insert_with(|| Baseline {
                history: History::new(passed, Some(outcome)),
                passed_in: None,
            });
            if passed && baseline.passed_in.is_none() {
                baseline.passed_in = Some(run_id);
                if baseline.history == History::NeverPassed {
                    baseline.history = History::PassedBefore;
                }
            }
        }
        let known: HashSet<i64> = found
            .iter()
            .filter(|(_, baseline)| baseline.passed_in.is_some())
            .map(|(case_id, _)| *case_id)
            .collect();
        open.retain(|case_id| !known.contains(case_id));
    }
    let passed_in: HashSet<i64> = found.values().filter_map(|found| found.passed_in).collect();
    let there = hold(connection, passed_in).await?;
    for baseline in found.values_mut() {
        baseline.passed_in = baseline.passed_in.filter(|run_id| there.contains(run_id));
    }
    Ok(found)
}

/// Those of the runs that are there, and stay until the transaction ends: what a foreign key would
/// do for every verdict, done once.
async fn hold(connection: &mut PgConnection, run_ids: HashSet<i64>) -> sqlx::Result<HashSet<i64>> {
    let mut run_ids: Vec<i64> = run_ids.into_iter().collect();
    run_ids.sort_unstable();
    let there = sqlx::query_scalar!(
        "SELECT id FROM runs WHERE id = ANY ($1) ORDER BY id FOR KEY SHARE",
        &run_ids
    )
    .fetch_all(connection)
    .await?;
    Ok(there.into_iter().collect())
}

/// Runs that can be the baseline of a case of this one, the newest first.
async fn list_earlier(connection: &mut PgConnection, run: &LockedRun) -> sqlx::Result<Vec<i64>> {
    let suites: Vec<String> = run.suites.iter().map(|suite| suite.as_str().to_owned()).collect();
    sqlx::query_scalar!(
        "SELECT id FROM runs
         WHERE device_profile = $1 AND (started_at, id) < ($2, $3) AND suites && $4
           AND state = 'sealed' AND completeness <> 'void'
         ORDER BY started_at DESC, id DESC",
        run.device_profile,
        run.started_at,
        run.id,
        &suites
    )
    .fetch_all(connection)
    .await
}

/// Conclusive outcomes of those cases in those runs: case, run, outcome, in the order of the runs.
async fn list_outcomes(
    connection: &mut PgConnection,
    run_ids: &[i64],
    case_ids: &[i64],
) -> sqlx::Result<Vec<(i64, i64, Outcome)>> {
    let rows = sqlx::query!(
        r#"SELECT v.case_id, v.run_id, v.outcome AS "outcome!"
           FROM case_verdicts v JOIN UNNEST($1::bigint[]) WITH ORDINALITY AS w (run_id, place)
             ON w.run_id = v.run_id
           WHERE v.case_id = ANY ($2)
             AND v.outcome IN ('pass', 'mismatch', 'error', 'unsupported', 'fallback', 'crash',
                               'timeout', 'oom')
           ORDER BY w.place"#,
        run_ids,
        case_ids
    )
    .fetch_all(connection)
    .await?;
    rows.into_iter().map(|row| Ok((row.case_id, row.run_id, word(&row.outcome)?))).collect()
}
