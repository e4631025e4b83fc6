//! Cases of a run: a page of them, or all that a query selects as JSON, CSV or JUnit.

use std::borrow::Cow;
use std::time::Duration;

use axum::Json as JsonBody;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use protocol::query::{Field, Queried, Query as CaseQuery};
use protocol::{CaseKey, Outcome, RunKey, Suite, Verdict};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::table::{self, Format};
use super::{paging, runs};
use crate::app::AppState;
use crate::db::cases::{self, CaseFilter, CaseRow};
use crate::db::runs::Run;
use crate::error::Result;
use crate::extract::{Path, Query};
use crate::queries;

/// Lines read from the database at once.
const PAGE: i64 = 2_000;

/// The endpoints.
pub fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(list_cases)).routes(routes!(export_cases))
}

/// Query of the cases of a run.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct CasesQuery {
    verdict: Option<Verdict>,
    outcome: Option<Outcome>,
    suite: Option<Suite>,
    /// The query grammar of the runner: `op:aten.add dtype:bf16 outcome:!pass`.
    q: Option<String>,
    limit: Option<u32>,
    cursor: Option<String>,
}

/// Query of an export.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct ExportQuery {
    verdict: Option<Verdict>,
    outcome: Option<Outcome>,
    suite: Option<Suite>,
    /// The query grammar of the runner: `op:aten.add dtype:bf16 outcome:!pass`.
    q: Option<String>,
    /// How it is written.
    #[serde(default)]
    format: Format,
}

#[derive(Debug, Serialize, ToSchema)]
struct CaseBody {
    case: String,
    suite: String,
    verdict: String,
    outcome: Option<String>,
    attempts: i32,
    stage: Option<String>,
    error_class: String,
    message: String,
    operator: Option<String>,
    seconds: f64,
    signature: Option<String>,
    baseline_run: Option<String>,
    waiver: Option<i64>,
    /// More than one shard or runner executed it; the worst of what they say stands.
    overlapping: bool,
}

#[derive(Debug, Serialize, ToSchema)]
struct CaseList {
    cases: Vec<CaseBody>,
    next: Option<String>,
}

impl From<CaseRow> for CaseBody {
    fn from(row: CaseRow) -> Self {
        Self {
            case: row.case,
            suite: row.suite,
            verdict: row.verdict,
            outcome: row.outcome,
            attempts: row.attempts,
            stage: row.stage,
            error_class: row.error_class,
            message: row.message,
            operator: row.operator,
            seconds: row.seconds,
            signature: row.signature,
            baseline_run: row.baseline_run,
            waiver: row.waiver,
            overlapping: row.overlapping,
        }
    }
}

impl Queried for CaseRow {
    fn values(&self, field: Field) -> Vec<Cow<'_, str>> {
        let planned = |field| {
            let key: Result<CaseKey, _> = self.case.parse();
            let owned = |value: &Cow<'_, str>| Cow::Owned(value.clone().into_owned());
            key.map(|key| key.values(field).iter().map(owned).collect()).unwrap_or_default()
        };
        match field {
            Field::Case
            | Field::Suite
            | Field::Model
            | Field::Dtype
            | Field::Mode
            | Field::Direction
            | Field::Layout => planned(field),
            Field::Operator => {
                let mut values: Vec<Cow<'_, str>> = planned(field);
                values.extend(one(self.operator.as_deref()));
                values
            }
            Field::Outcome => one(self.outcome.as_deref()),
            Field::Verdict => one(Some(&self.verdict)),
            Field::Stage => one(self.stage.as_deref()),
            Field::Error => one(Some(&self.error_class)),
            Field::Message => one(Some(&self.message)),
        }
    }
}

fn one(text: Option<&str>) -> Vec<Cow<'_, str>> {
    text.map(Cow::Borrowed).into_iter().collect()
}

/// At most `limit` cases that the query selects, in the order of the manifest.
async fn collect(
    state: &AppState,
    run: &Run,
    mut filter: CaseFilter,
    query: &CaseQuery,
    limit: usize,
) -> Result<Vec<CaseRow>> {
    let mut found = Vec::new();
    loop {
        // What no query narrows is not read in vain.
        let wanted = i64::try_from(limit - found.len()).unwrap_or(PAGE);
        let page = if query.terms.is_empty() { wanted.min(PAGE) } else { PAGE };
        let rows = cases::list(state.db.pool(), run.id, filter, page).await?;
        let is_last = rows.len() < usize::try_from(page).unwrap_or(usize::MAX);
        filter.after = rows.last().map(|row| row.position).or(filter.after);
        found.extend(rows.into_iter().filter(|row| query.matches(row)).take(limit - found.len()));
        if is_last || found.len() >= limit {
            return Ok(found);
        }
    }
}

/// Cases of a run in the order of the manifest.
#[utoipa::path(get, path = "/runs/{run}/cases", tag = "runs",
    params(("run" = RunKey, Path, description = "Key of the run"), CasesQuery),
    responses((status = 200, description = "A page of them", body = CaseList)))]
async fn list_cases(
    State(state): State<AppState>,
    Path(key): Path<RunKey>,
    Query(query): Query<CasesQuery>,
) -> Result<JsonBody<CaseList>> {
    let limit = paging::limit(query.limit)?;
    let after = paging::read(query.cursor.as_deref())?
        .map(|text| text.parse().map_err(|_| paging::bad()))
        .transpose()?;
    let case_query = queries::read(query.q.as_deref())?;
    let run = runs::find(&state, &key).await?;
    let filter =
        CaseFilter { verdict: query.verdict, outcome: query.outcome, suite: query.suite, after };
    let mut rows = collect(&state, &run, filter, &case_query, limit + 1).await?;
    let next = paging::cut(&mut rows, limit, |row| row.position.to_string());
    let cases = rows.into_iter().map(CaseBody::from).collect();
    Ok(JsonBody(CaseList { cases, next }))
}

/// Every case of a run that a query selects, as a file.
#[utoipa::path(get, path = "/runs/{run}/export", tag = "runs",
    params(("run" = RunKey, Path, description = "Key of the run"), ExportQuery),
    responses((status = 200, description = "As `format` says", content(
        (CaseList = "application/json"), (String = "text/csv"), (String = "application/xml")))))]
async fn export_cases(
    State(state): State<AppState>,
    Path(key): Path<RunKey>,
    Query(query): Query<ExportQuery>,
) -> Result<Response> {
    let case_query = queries::read(query.q.as_deref())?;
    let run = runs::find(&state, &key).await?;
    let filter = CaseFilter {
        verdict: query.verdict,
        outcome: query.outcome,
        suite: query.suite,
        after: None,
    };
    let rows = collect(&state, &run, filter, &case_query, usize::MAX).await?;
    match query.format {
        Format::Json => {
            let cases = rows.into_iter().map(CaseBody::from).collect();
            Ok(JsonBody(CaseList { cases, next: None }).into_response())
        }
        Format::Csv => {
            let cases: Vec<CaseBody> = rows
                .into_iter()
                .map(|row| {
                    let message = table::cell(&row.message);
                    let error_class = table::cell(&row.error_class);
                    CaseBody { message, error_class, ..CaseBody::from(row) }
                })
                .collect();
            let body = table::csv(&cases)?;
            Ok(table::download(body, "text/csv; charset=utf-8", &run.key, "csv"))
        }
        Format::Junit => {
            let body = junit(&run, &rows)?;
            Ok(table::download(body, "application/xml", &run.key, "xml"))
        }
    }
}

/// One test suite per suite. What is not plainly good is a failure or an error, so that an absence
/// of data cannot look green.
fn junit(run: &Run, rows: &[CaseRow]) -> Result<Vec<u8>> {
    let mut report = Report::new(format!("torchtpu-conformance {}", run.key));
    let mut suites = run.suites.clone();
    suites.sort();
    for suite in &suites {
        let of_suite: Vec<&CaseRow> =
            rows.iter().filter(|row| row.suite == suite.as_str()).collect();
        if of_suite.is_empty() {
            continue;
        }
        let mut junit = TestSuite::new(suite.as_str());
        junit.add_property(("run", run.key.as_str()));
        junit.add_property(("device.profile", run.device_profile.as_str()));
        junit.add_property(("device.simulated", if run.simulated { "true" } else { "false" }));
        junit.add_test_cases(of_suite.into_iter().map(test_case));
        report.add_test_suite(junit);
    }
    Ok(report.to_string().map_err(anyhow::Error::from)?.into_bytes())
}

fn test_case(row: &CaseRow) -> TestCase {
    let name = row.case.split_once('/').map_or(row.case.as_str(), |(_, name)| name);
    let mut case = TestCase::new(name, status(row));
    case.set_classname(row.suite.as_str());
    case.set_time(Duration::try_from_secs_f64(row.seconds).unwrap_or_default());
    case.add_property(("verdict", row.verdict.as_str()));
    case
}

fn status(row: &CaseRow) -> TestCaseStatus {
    let bad = |kind: NonSuccessKind| {
        let mut status = TestCaseStatus::non_success(kind);
        status.set_message(row.message.as_str());
        status.set_type(row.outcome.as_deref().unwrap_or(&row.verdict));
        status
    };
    match row.verdict.parse() {
        Ok(Verdict::Passed | Verdict::Fixed) => TestCaseStatus::success(),
        Ok(Verdict::Skipped) => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(row.message.as_str());
            status
        }
        Ok(
            Verdict::Failed
            | Verdict::Regressed
            | Verdict::Flaky
            | Verdict::Waived
            | Verdict::UnexpectedPass,
        ) => bad(NonSuccessKind::Failure),
        Ok(Verdict::Inconclusive | Verdict::Missing) | Err(_) => bad(NonSuccessKind::Error),
    }
}
