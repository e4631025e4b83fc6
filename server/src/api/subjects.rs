//! What a run says of operators and of models.

use axum::extract::State;
use axum::routing::get;
use axum::{Json as JsonBody, Router};
use protocol::{RunKey, Suite};
use serde::{Deserialize, Serialize};

use super::paging;
use crate::app::AppState;
use crate::db::cases;
use crate::db::runs::{self, Run, RunFilter};
use crate::error::{Error, Result};
use crate::extract::Query;
use crate::judge::completeness::RunState;

/// The endpoints.
pub fn router() -> Router<AppState> {
    Router::new().route("/operators", get(list_operators)).route("/models", get(list_models))
}

/// Query of both lists.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SubjectsQuery {
    /// The run; the newest sealed one of the suite when absent.
    run: Option<RunKey>,
    suite: Option<Suite>,
    device: Option<String>,
    limit: Option<u32>,
    cursor: Option<String>,
}

/// The run that is asked about.
async fn choose_run(state: &AppState, query: &SubjectsQuery) -> Result<Run> {
    if let Some(key) = &query.run {
        return super::runs::find(state, key).await;
    }
    let filter = RunFilter {
        device_profile: query.device.clone(),
        suite: query.suite,
        state: Some(RunState::Sealed),
        without_void: true,
        without_reruns: true,
        ..RunFilter::default()
    };
    let newest = runs::list(state.db.pool(), &filter, 1).await?.pop();
    newest.ok_or_else(|| Error::no_such("run", "newest sealed one"))
}

/// An overload over the cases of a run.
#[derive(Debug, Serialize)]
struct OperatorBody {
    overload: String,
    operator: String,
    cases: i64,
    passed: i64,
    blamed: i64,
    fell_back: i64,
    calls: Option<i64>,
}

#[derive(Debug, Serialize)]
struct OperatorList {
    run: String,
    simulated: bool,
    operators: Vec<OperatorBody>,
    next: Option<String>,
}

async fn list_operators(
    State(state): State<AppState>,
    Query(query): Query<SubjectsQuery>,
) -> Result<JsonBody<OperatorList>> {
    let limit = paging::limit(query.limit)?;
    let after = paging::read(query.cursor.as_deref())?;
    let run = choose_run(&state, &query).await?;
    let fetch = paging::fetch(limit);
    let mut rows = cases::list_overloads(state.db.pool(), run.id, after.as_deref(), fetch).await?;
    let next = paging::cut(&mut rows, limit, |row| row.overload.clone());
    let operators = rows
        .into_iter()
        .map(|row| OperatorBody {
            overload: row.overload,
            operator: row.operator,
            cases: row.cases,
            passed: row.passed,
            blamed: row.blamed,
            fell_back: row.fell_back,
            calls: row.calls,
        })
        .collect();
    Ok(JsonBody(OperatorList { run: run.key, simulated: run.simulated, operators, next }))
}

/// A model over its cases in one suite of a run.
#[derive(Debug, Serialize)]
struct ModelBody {
    model: String,
    suite: String,
    planned: i64,
    passed: i64,
    failed: i64,
    inconclusive: i64,
    skipped: i64,
    missing: i64,
}

#[derive(Debug, Serialize)]
struct ModelList {
    run: String,
    simulated: bool,
    models: Vec<ModelBody>,
    next: Option<String>,
}

async fn list_models(
    State(state): State<AppState>,
    Query(query): Query<SubjectsQuery>,
) -> Result<JsonBody<ModelList>> {
    let limit = paging::limit(query.limit)?;
    let cursor = paging::read(query.cursor.as_deref())?;
    let after = match &cursor {
        // A subject has no control characters.
        Some(text) => Some(text.split_once('\n').ok_or_else(paging::bad)?),
        None => None,
    };
    let run = choose_run(&state, &query).await?;
    let fetch = paging::fetch(limit);
    let mut rows = cases::list_models(state.db.pool(), run.id, after, fetch).await?;
    let next = paging::cut(&mut rows, limit, |row| format!("{}\n{}", row.subject, row.suite));
    let models = rows
        .into_iter()
        .map(|row| ModelBody {
            model: row.subject,
            suite: row.suite,
            planned: row.planned,
            passed: row.passed,
            failed: row.failed,
            inconclusive: row.inconclusive,
            skipped: row.skipped,
            missing: row.missing,
        })
        .collect();
    Ok(JsonBody(ModelList { run: run.key, simulated: run.simulated, models, next }))
}
