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
/// which it is still open whether they passed. What an earlier run was judged by answers that, when
/// it is sure to be right still; so one run answers for nearly all cases, however many there are.
pub async fn find(
    connection: &mut PgConnection,
    run: &LockedRun,
    case_ids: &[i64],
) -> sqlx::Result<HashMap<i64, Baseline>> {
    let mut found: HashMap<i64, Baseline> = HashMap::with_capacity(case_ids.len());
    let mut open: HashSet<i64> = case_ids.iter().copied().collect();
    let earlier = list_earlier(connection, run).await?;
    let is_settled: HashMap<i64, bool> =
        earlier.iter().map(|run| (run.id, run.is_settled)).collect();
    let (mut rest, mut most) = (earlier.as_slice(), 1);
    while !rest.is_empty() && !open.is_empty() {
        let (runs, others) = rest.split_at(most.min(rest.len()));
        (rest, most) = (others, most * 2);
        for seen in list_seen(connection, runs, &open).await? {
            if !open.contains(&seen.case_id) {
                continue;
            }
            let passed = seen.outcome == Outcome::Pass;
            let passed_in = if passed { Some(seen.run_id) } else { seen.baseline_run_id };
            // A last known pass that was withdrawn since is none.
            let passed_in = passed_in.filter(|run_id| is_settled.contains_key(run_id));
            // The first line of a case is the newest.
            let baseline = found.entry(seen.case_id).or_insert_with(|| Baseline {
                history: History::new(passed, Some(seen.outcome)),
                passed_in: None,
            });
            let is_whole = passed_in.is_some() || seen.baseline_run_id.is_none();
            if passed || (is_settled[&seen.run_id] && is_whole) {
                baseline.passed_in = passed_in;
                if passed_in.is_some() && baseline.history == History::NeverPassed {
                    baseline.history = History::PassedBefore;
                }
                open.remove(&seen.case_id);
            }
        }
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

/// A run that can be the baseline of a case of another one.
struct Earlier {
    id: i64,
    /// Whether its verdicts are what judging it now would give: nothing waits to be judged again,
    /// and there is all of its evidence to do that with.
    is_settled: bool,
}

/// Runs that can be the baseline of a case of this one, the newest first.
async fn list_earlier(
    connection: &mut PgConnection,
    run: &LockedRun,
) -> sqlx::Result<Vec<Earlier>> {
    let suites: Vec<String> = run.suites.iter().map(|suite| suite.as_str().to_owned()).collect();
    sqlx::query_as!(
        Earlier,
        r#"SELECT id, evidence_dropped_at IS NULL AND NOT EXISTS (
                    SELECT FROM rejudge_queue q WHERE q.run_id = runs.id) AS "is_settled!"
           FROM runs
           WHERE device_profile = $1 AND (started_at, id) < ($2, $3) AND suites && $4
             AND state = 'sealed' AND completeness <> 'void'
           ORDER BY started_at DESC, id DESC"#,
        run.device_profile,
        run.started_at,
        run.id,
        &suites
    )
    .fetch_all(connection)
    .await
}

/// What a run says of a case.
struct Seen {
    case_id: i64,
    run_id: i64,
    outcome: Outcome,
    /// Its own last known pass.
    baseline_run_id: Option<i64>,
}

/// What those runs conclusively say of those cases, in the order of the runs.
async fn list_seen(
    connection: &mut PgConnection,
    runs: &[Earlier],
    case_ids: &HashSet<i64>,
) -> sqlx::Result<Vec<Seen>> {
    let run_ids: Vec<i64> = runs.iter().map(|run| run.id).collect();
    let case_ids: Vec<i64> = case_ids.iter().copied().collect();
    let rows = sqlx::query!(
        r#"SELECT v.case_id, v.run_id, v.outcome AS "outcome!", v.baseline_run_id
           FROM case_verdicts v JOIN UNNEST($1::bigint[]) WITH ORDINALITY AS w (run_id, place)
             ON w.run_id = v.run_id
           WHERE v.case_id = ANY ($2)
             AND v.outcome IN ('pass', 'mismatch', 'error', 'unsupported', 'fallback', 'crash',
                               'timeout', 'oom')
           ORDER BY w.place"#,
        &run_ids,
        &case_ids
    )
    .fetch_all(connection)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(Seen {
                case_id: row.case_id,
                run_id: row.run_id,
                outcome: word(&row.outcome)?,
                baseline_run_id: row.baseline_run_id,
            })
        })
        .collect()
}
