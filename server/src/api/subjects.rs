//! What a run says of operators and of models.

use axum::extract::State;
use axum::response::Response;
use protocol::{RunKey, Suite};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::paging;
use super::table::{self, Format};
use crate::app::AppState;
use crate::db::cases;
use crate::db::runs::{self, Run, RunFilter};
use crate::error::{Error, Result};
use crate::extract::Query;
use crate::judge::completeness::RunState;

/// The endpoints.
pub fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(list_operators)).routes(routes!(list_models))
}

/// Query of both lists.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct SubjectsQuery {
    /// The run; the newest sealed one of the suite when absent.
    run: Option<RunKey>,
    suite: Option<Suite>,
    device: Option<String>,
    limit: Option<u32>,
    cursor: Option<String>,
    #[serde(default)]
    format: Format,
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
#[derive(Debug, Serialize, ToSchema)]
struct OperatorBody {
    overload: String,
    operator: String,
    cases: i64,
    passed: i64,
    /// What the pass rate is out of: cases without those skipped or inconclusive.
    counted: i64,
    blamed: i64,
    fell_back: i64,
    calls: Option<i64>,
}

#[derive(Debug, Serialize, ToSchema)]
struct OperatorList {
    run: String,
    simulated: bool,
    operators: Vec<OperatorBody>,
    next: Option<String>,
}

/// Overloads of a run, by name.
#[utoipa::path(get, path = "/operators", tag = "subjects",
    params(SubjectsQuery),
    responses((status = 200, description = "A page of them; with `format=csv` as CSV", body = OperatorList)))]
async fn list_operators(
    State(state): State<AppState>,
    Query(query): Query<SubjectsQuery>,
) -> Result<Response> {
    let limit = paging::limit(query.limit)?;
    let after = paging::read(query.cursor.as_deref())?;
    let run = choose_run(&state, &query).await?;
    let fetch = paging::fetch(limit);
    let after = after.as_deref();
    let pool = state.db.pool();
    let mut rows = cases::list_overloads(pool, run.id, query.suite, after, fetch).await?;
    let next = paging::cut(&mut rows, limit, |row| row.overload.clone());
    let operators: Vec<OperatorBody> = rows
        .into_iter()
        .map(|row| OperatorBody {
            overload: row.overload,
            operator: row.operator,
            cases: row.cases,
            passed: row.passed,
            counted: row.counted,
            blamed: row.blamed,
            fell_back: row.fell_back,
            calls: row.calls,
        })
        .collect();
    let list = OperatorList { run: run.key, simulated: run.simulated, operators, next };
    table::answer(query.format, "operators", &list, &list.operators, list.next.as_deref())
}

/// A model over its cases in one suite of a run.
#[derive(Debug, Serialize, ToSchema)]
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

#[derive(Debug, Serialize, ToSchema)]
struct ModelList {
    run: String,
    simulated: bool,
    models: Vec<ModelBody>,
    next: Option<String>,
}

/// Models of a run, by name and suite.
#[utoipa::path(get, path = "/models", tag = "subjects",
    params(SubjectsQuery),
    responses((status = 200, description = "A page of them; with `format=csv` as CSV", body = ModelList)))]
async fn list_models(
    State(state): State<AppState>,
    Query(query): Query<SubjectsQuery>,
) -> Result<Response> {
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
    let models: Vec<ModelBody> = rows
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
    let list = ModelList { run: run.key, simulated: run.simulated, models, next };
    table::answer(query.format, "models", &list, &list.models, list.next.as_deref())
}
