//! Judges cases of a run that is locked: loads what judgement needs, stores what it says.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Utc};
use protocol::waiver::Subject;
use protocol::{Outcome, RunKey, Suite, Verdict};
use sqlx::PgConnection;

use crate::app::AppState;
use crate::db::attempts::{self, Summary};
use crate::db::baselines::{self, Baseline};
use crate::db::runs::LockedRun;
use crate::db::verdicts::{self, Judged, Planned};
use crate::db::{rejudge, summaries, waivers};
use crate::error::{Error, Result};
use crate::judge::baseline::History;
use crate::judge::verdict::{Observed, judge, observe_sources};
use crate::judge::waiver::{Waiver, find_leave};

/// Newest runs in which the end of a waiver changes stored verdicts; older ones keep what was
/// judged.
pub(super) const RECENT_RUNS: i64 = 20;

/// Cases whose attempts are in memory at once.
const AT_ONCE: usize = 4096;

/// Judges those cases (all when absent) over all their attempts, and keeps the tallies in step.
pub async fn judge_cases(
    connection: &mut PgConnection,
    run: &LockedRun,
    case_ids: Option<&[i64]>,
    now: DateTime<Utc>,
) -> Result<()> {
    if run.evidence_dropped {
        // What is left of it would say something else.
        return Ok(());
    }
    let all = match case_ids {
        Some(_) => Vec::new(),
        None => verdicts::list_case_ids(connection, run).await?,
    };
    for case_ids in case_ids.unwrap_or(&all).chunks(AT_ONCE) {
        let attempts = attempts::list_summaries(connection, run, case_ids).await?;
        let planned = verdicts::list_planned(connection, run, Some(case_ids)).await?;
        judge_attempts(connection, run, &planned, attempts, HashMap::new(), now).await?;
    }
    Ok(())
}

/// The same when cases and attempts are known already; they must be all that there are at those
/// cases. `touched` are the overloads, by case, of attempts that are being stored.
pub(super) async fn judge_attempts(
    connection: &mut PgConnection,
    run: &LockedRun,
    planned: &[Planned],
    attempts: Vec<Summary>,
    mut touched: HashMap<i64, Vec<i64>>,
    now: DateTime<Utc>,
) -> Result<()> {
    let mut by_case: HashMap<i64, Vec<Summary>> = HashMap::new();
    for summary in attempts {
        by_case.entry(summary.case_id).or_default().push(summary);
    }
    let attempted: Vec<i64> = by_case.keys().copied().collect();
    let baselines = baselines::find(connection, run, &attempted).await?;
    let waivers = waivers::list_holding(&mut *connection, now.date_naive()).await?;

    let mut judged = Vec::with_capacity(attempted.len());
    let mut moves: BTreeMap<(Suite, Verdict), i64> = BTreeMap::new();
    for case in planned {
        // A case without an attempt is `missing` from the moment it is planned.
        let Some(attempts) = by_case.get(&case.case_id) else { continue };
        let baseline = baselines.get(&case.case_id).copied();
        let operators = touched.remove(&case.case_id).unwrap_or_default();
        let verdict =
            Judged { operators, ..judge_case(run, case, attempts, baseline, &waivers, now) };
        if verdict.verdict != case.verdict {
            *moves.entry((case.suite, case.verdict)).or_default() -= 1;
            *moves.entry((case.suite, verdict.verdict)).or_default() += 1;
        }
        if !case.is_as(&verdict) {
            judged.push(verdict);
        }
    }
    if !judged.is_empty() {
        if verdicts::store(connection, run, &judged, now).await? < judged.len() {
            return Err(Error::Overtaken(None));
        }
        // The run's own row comes last: others that share it wait from here on.
        summaries::forget(&mut *connection, run).await?;
    }
    let moves: Vec<(Suite, Verdict, i64)> = moves
        .into_iter()
        .map(|((suite, verdict), difference)| (suite, verdict, difference))
        .filter(|(.., difference)| *difference != 0)
        .collect();
    if !moves.is_empty() {
        verdicts::move_tallies(connection, run, &moves).await?;
    }
    Ok(())
}

fn judge_case(
    run: &LockedRun,
    case: &Planned,
    attempts: &[Summary],
    baseline: Option<Baseline>,
    waivers: &[Waiver],
    now: DateTime<Utc>,
) -> Judged {
    let observed = observe_sources(attempts.iter().map(|a| (a.source, a.outcome)));
    let outcome = observed.outcome().unwrap_or(Outcome::Infra);
    // Details are those of the first attempt that observed what stands for all of them. Which of
    // two sources came first must not matter.
    let decisive = attempts
        .iter()
        .filter(|attempt| attempt.outcome == outcome)
        .min_by(|a, b| (a.source_attempt, &a.body_sha256).cmp(&(b.source_attempt, &b.body_sha256)))
        .expect("the outcome is that of an attempt");
    let subject = Subject {
        case: &case.key,
        device_profile: &run.device_profile,
        device_kind: &run.device_kind,
        versions: &run.versions,
        operator: decisive.operator.as_deref(),
    };
    let (leave, waiver_id) = find_leave(waivers, subject, observed, now.date_naive());
    let history = baseline.map_or(History::New, |baseline| baseline.history);
    Judged {
        case_id: case.case_id,
        verdict: judge(observed, history, leave),
        outcome: outcome.as_str().to_owned(),
        mixed: matches!(observed, Observed::Mixed(_)),
        overlapping: attempts.iter().any(|attempt| attempt.source != attempts[0].source),
        attempts: i32::try_from(attempts.len()).unwrap_or(i32::MAX),
        attempts_before: case.attempts,
        decisive_attempt: decisive.attempt,
        stage: decisive.stage.clone(),
        error_class: decisive.error_class.clone(),
        message: decisive.message.clone(),
        operator: decisive.operator.clone(),
        seconds: attempts.iter().map(|attempt| attempt.seconds).sum(),
        signature: decisive.signature.clone(),
        baseline_run_id: baseline.and_then(|baseline| baseline.passed_in),
        waiver_id,
        operators: Vec::new(),
    }
}

/// Judges the runs again whose verdicts may no longer be right, one transaction each: what they
/// are compared with changed (a run pushed late, a run withdrawn), or a waiver ended. Answers how
/// many.
pub async fn judge_due_runs(state: &AppState) -> Result<usize> {
    let now = state.clock.now();
    let pool = state.db.pool();
    rejudge::push_ended_waivers(pool, now.date_naive(), RECENT_RUNS, now).await?;
    let mut judged = 0;
    loop {
        let due = rejudge::list(pool, 100).await?;
        if due.is_empty() {
            return Ok(judged);
        }
        judge_again(state, &due).await?;
        judged += due.len();
    }
}

/// Judges those of the runs again that are due, so that whoever reads them next reads no stale
/// verdict. Answers whether there was one.
pub async fn judge_if_due(state: &AppState, run_ids: &[i64]) -> Result<bool> {
    let due = rejudge::find(state.db.pool(), run_ids).await?;
    judge_again(state, &due).await?;
    Ok(!due.is_empty())
}

async fn judge_again(state: &AppState, keys: &[String]) -> Result<()> {
    for key in keys {
        let key: RunKey = key.parse().map_err(anyhow::Error::from)?;
        let mut transaction = state.db.pool().begin().await?;
        let run = super::lock(&mut transaction, &key).await?;
        rejudge::pop(&mut transaction, &run).await?;
        judge_cases(&mut transaction, &run, None, state.clock.now()).await?;
        transaction.commit().await?;
        tracing::info!(run = %key, "judged again");
    }
    Ok(())
}

/// Adds up the cases of sealed runs for pages, one transaction each, where that is to be done.
/// Answers how many.
pub async fn summarise_due_runs(state: &AppState) -> Result<usize> {
    let mut summarised = 0;
    loop {
        let due = summaries::list_due(state.db.pool(), 100).await?;
        if due.is_empty() {
            return Ok(summarised);
        }
        for key in &due {
            let key: RunKey = key.parse().map_err(anyhow::Error::from)?;
            summarise(state, &key).await?;
        }
        summarised += due.len();
    }
}

/// Adds up the cases of a run that is sealed.
pub(super) async fn summarise(state: &AppState, key: &RunKey) -> Result<()> {
    let mut transaction = state.db.pool().begin().await?;
    let run = super::lock(&mut transaction, key).await?;
    summaries::store(&mut transaction, &run).await?;
    transaction.commit().await?;
    Ok(())
}
