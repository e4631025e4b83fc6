//! Runs, their cases and attempts.

use std::collections::BTreeMap;

use axum::Json as JsonBody;
use axum::extract::State;
use chrono::{DateTime, Utc};
use protocol::{CaseKey, RunKey, Suite, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::paging;
use crate::app::AppState;
use crate::db::artifacts::{self, ArtifactRow};
use crate::db::cases;
use crate::db::runs::{self, Run, RunFilter};
use crate::db::{sources, verdicts};
use crate::error::{Error, Result};
use crate::extract::{Path, Query};
use crate::judge::completeness::{Completeness, RunState, Tally};
use crate::judge::rates;

/// The endpoints.
pub fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(show)).routes(routes!(list_attempts))
}

/// A run as the API shows it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RunBody {
    run: String,
    page: String,
    state: RunState,
    completeness: Option<Completeness>,
    device_profile: String,
    device_kind: String,
    simulated: bool,
    versions: BTreeMap<String, String>,
    labels: BTreeMap<String, String>,
    /// As the runner claims it.
    claimed_host: String,
    /// Name of the token, which the server knows.
    created_by: String,
    started_at: DateTime<Utc>,
    finished_at: Option<DateTime<Utc>>,
    created_at: DateTime<Utc>,
    sealed_at: Option<DateTime<Utc>>,
    sealed_by: Option<String>,
    planned: u64,
    judged: u64,
    missing: u64,
    attempts: u64,
    suites: Vec<SuiteBody>,
    /// Only where one run is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    sources: Option<Vec<SourceBody>>,
}

/// One journal from which results of the run came.
#[derive(Debug, Serialize, ToSchema)]
struct SourceBody {
    journal: String,
    shard: Option<u32>,
    shards: Option<u32>,
    attempts: u64,
    sealed_at: Option<DateTime<Utc>>,
}

/// One suite of a run.
#[derive(Debug, Serialize, ToSchema)]
struct SuiteBody {
    suite: Suite,
    planned: u64,
    judged: u64,
    missing: u64,
    /// Passed, of `counted`: planned without skipped and inconclusive.
    passed: u64,
    counted: u64,
    /// From 0 to 1; null when nothing is counted.
    pass_rate: Option<f64>,
    verdicts: BTreeMap<Verdict, u64>,
}

impl SuiteBody {
    fn new(suite: Suite, tally: &Tally) -> Self {
        let rate = rates::pass_rate(tally);
        Self {
            suite,
            planned: tally.planned(),
            judged: tally.judged(),
            missing: tally.count(Verdict::Missing),
            passed: rate.part,
            counted: rate.whole,
            pass_rate: rate.value(),
            verdicts: tally.counts(),
        }
    }
}

fn body(run: Run, tallies: &BTreeMap<(i64, Suite), Tally>) -> RunBody {
    let suites: Vec<SuiteBody> = run
        .suites
        .iter()
        .map(|suite| match tallies.get(&(run.id, *suite)) {
            Some(tally) => SuiteBody::new(*suite, tally),
            None => SuiteBody::new(*suite, &Tally::default()),
        })
        .collect();
    RunBody {
        page: format!("/runs/{}", run.key),
        run: run.key,
        state: run.state,
        completeness: run.completeness,
        device_profile: run.device_profile,
        device_kind: run.device_kind,
        simulated: run.simulated,
        versions: run.versions,
        labels: run.labels,
        claimed_host: run.claimed_host,
        created_by: run.created_by,
        started_at: run.started_at,
        finished_at: run.finished_at,
        created_at: run.created_at,
        sealed_at: run.sealed_at,
        sealed_by: run.sealed_by,
        planned: run.planned,
        judged: suites.iter().map(|suite| suite.judged).sum(),
        missing: suites.iter().map(|suite| suite.missing).sum(),
        attempts: run.attempts,
        suites,
        sources: None,
    }
}

async fn load_tallies(state: &AppState, runs: &[Run]) -> Result<BTreeMap<(i64, Suite), Tally>> {
    let ids: Vec<i64> = runs.iter().map(|run| run.id).collect();
    let mut tallies: BTreeMap<(i64, Suite), Tally> = BTreeMap::new();
    for (run_id, suite, verdict, cases) in verdicts::list_tallies(state.db.pool(), &ids).await? {
        tallies.entry((run_id, suite)).or_default().add(verdict, cases);
    }
    Ok(tallies)
}

/// Query of the list of runs.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct RunsQuery {
    suite: Option<Suite>,
    device: Option<String>,
    state: Option<RunState>,
    completeness: Option<Completeness>,
    limit: Option<u32>,
    cursor: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
struct RunList {
    runs: Vec<RunBody>,
    next: Option<String>,
}

/// Runs, newest start first.
#[utoipa::path(get, path = "/runs", tag = "runs",
    params(RunsQuery),
    responses((status = 200, description = "A page of them", body = RunList)))]
async fn list(
    State(state): State<AppState>,
    Query(query): Query<RunsQuery>,
) -> Result<JsonBody<RunList>> {
    let limit = paging::limit(query.limit)?;
    let after = paging::read(query.cursor.as_deref())?.map(|text| read_place(&text)).transpose()?;
    let filter = RunFilter {
        suite: query.suite,
        device_profile: query.device,
        state: query.state,
        completeness: query.completeness,
        after,
        ..RunFilter::default()
    };
    let mut found = runs::list(state.db.pool(), &filter, paging::fetch(limit)).await?;
    let next = paging::cut(&mut found, limit, |run| {
        format!("{} {}", run.started_at.timestamp_micros(), run.id)
    });
    let tallies = load_tallies(&state, &found).await?;
    let runs = found.into_iter().map(|run| body(run, &tallies)).collect();
    Ok(JsonBody(RunList { runs, next }))
}

fn read_place(text: &str) -> Result<(DateTime<Utc>, i64)> {
    let (micros, id) = text.split_once(' ').ok_or_else(paging::bad)?;
    let started_at = micros.parse().ok().and_then(DateTime::from_timestamp_micros);
    Ok((started_at.ok_or_else(paging::bad)?, id.parse().map_err(|_| paging::bad())?))
}

/// The run of that key, or 404.
pub(super) async fn find(state: &AppState, key: &RunKey) -> Result<Run> {
    runs::find(state.db.pool(), key.as_str()).await?.ok_or_else(|| Error::no_such("run", key))
}

/// One run.
#[utoipa::path(get, path = "/runs/{run}", tag = "runs",
    params(("run" = RunKey, Path, description = "Key of the run")),
    responses((status = 200, description = "The run", body = RunBody)))]
async fn show(State(state): State<AppState>, Path(key): Path<RunKey>) -> Result<JsonBody<RunBody>> {
    let run = find(&state, &key).await?;
    let tallies = load_tallies(&state, std::slice::from_ref(&run)).await?;
    let sources = sources::list(state.db.pool(), run.id).await?;
    let sources = sources.into_iter().map(|row| SourceBody {
        journal: row.journal,
        shard: row.part.map(|(shard, _)| shard),
        shards: row.part.map(|(_, shards)| shards),
        attempts: row.received,
        sealed_at: row.sealed_at,
    });
    let sources = Some(sources.collect());
    Ok(JsonBody(RunBody { sources, ..body(run, &tallies) }))
}

/// Query of the attempts at a case.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct AttemptsQuery {
    case: CaseKey,
}

#[derive(Debug, Serialize, ToSchema)]
struct AttemptBody {
    attempt: i32,
    outcome: String,
    stage: Option<String>,
    error_class: String,
    message: String,
    operator: Option<String>,
    started_at: DateTime<Utc>,
    received_at: DateTime<Utc>,
    seconds: f64,
    signature: Option<String>,
    /// `protocol::Evidence`, as it came.
    #[schema(value_type = protocol::Evidence)]
    evidence: Box<RawValue>,
    /// Files that it left.
    artifacts: Vec<ArtifactBody>,
}

/// A file that an attempt left.
#[derive(Debug, Clone, Serialize, ToSchema)]
struct ArtifactBody {
    name: String,
    sha256: String,
    /// In bytes.
    size: i64,
    /// Where it can be downloaded.
    path: String,
}

impl ArtifactBody {
    fn new(row: &ArtifactRow) -> Self {
        let sha256 = hex::encode(&row.sha256);
        let path = format!("{}/{sha256}", super::artifacts::PATH);
        Self { name: row.name.clone(), sha256, size: row.size, path }
    }
}

#[derive(Debug, Serialize, ToSchema)]
struct AttemptList {
    attempts: Vec<AttemptBody>,
}

/// Every attempt at one case, with its whole evidence.
#[utoipa::path(get, path = "/runs/{run}/attempts", tag = "runs",
    params(("run" = RunKey, Path, description = "Key of the run"), AttemptsQuery),
    responses((status = 200, description = "By number", body = AttemptList)))]
async fn list_attempts(
    State(state): State<AppState>,
    Path(key): Path<RunKey>,
    Query(query): Query<AttemptsQuery>,
) -> Result<JsonBody<AttemptList>> {
    let run = find(&state, &key).await?;
    let files = artifacts::list(state.db.pool(), run.id, query.case.as_str()).await?;
    let attempts = cases::list_attempts(state.db.pool(), run.id, query.case.as_str())
        .await?
        .into_iter()
        .map(|row| {
            let evidence = RawValue::from_string(row.evidence).map_err(anyhow::Error::from)?;
            let own = files.iter().filter(|file| file.attempt == row.attempt);
            Ok(AttemptBody {
                artifacts: own.map(ArtifactBody::new).collect(),
                attempt: row.attempt,
                outcome: row.outcome,
                stage: row.stage,
                error_class: row.error_class,
                message: row.message,
                operator: row.operator,
                started_at: row.started_at,
                received_at: row.received_at,
                seconds: row.seconds,
                signature: row.signature,
                evidence,
            })
        })
        .collect::<Result<_>>()?;
    Ok(JsonBody(AttemptList { attempts }))
}
