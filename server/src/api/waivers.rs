//! Waivers: listed for everybody, made and ended with the scope `triage`.

use axum::Json as JsonBody;
use axum::extract::State;
use axum::http::StatusCode;
use chrono::{DateTime, NaiveDate, Utc};
use protocol::Suite;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::paging;
use crate::app::AppState;
use crate::db::waivers::{self, WaiverRow};
use crate::error::Result;
use crate::extract::{AuthTriage, Json, Path, Query, read_body};
use crate::ingest::{self, NewWaiver, SyncPlan, When};

/// The endpoints.
pub fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(list, create)).routes(routes!(sync)).routes(routes!(revoke))
}

#[derive(Debug, Serialize, ToSchema)]
struct WaiverBody {
    waiver: i64,
    case_pattern: String,
    suite: Option<Suite>,
    model: Option<String>,
    operator: Option<String>,
    when: When,
    outcomes: Vec<String>,
    reason: String,
    owner: String,
    issue: String,
    author: String,
    approver: String,
    created_at: DateTime<Utc>,
    expires_on: NaiveDate,
    revoked_at: Option<DateTime<Utc>>,
    /// Whether it is in the file that is kept with the code.
    from_file: bool,
    /// The one that it was before the file changed.
    replaces: Option<i64>,
    /// Whether it holds today.
    holds: bool,
}

impl WaiverBody {
    fn new(row: WaiverRow, today: NaiveDate) -> Result<Self> {
        let terms = row.terms()?;
        Ok(Self {
            holds: row.revoked_at.is_none() && today < row.expires_on,
            waiver: row.id,
            case_pattern: row.case_pattern,
            suite: terms.suite,
            model: row.model,
            operator: row.operator,
            when: When::of(terms.conditions),
            outcomes: row.outcomes,
            reason: row.reason,
            owner: row.owner,
            issue: row.issue,
            author: row.author,
            approver: row.approver,
            created_at: row.created_at,
            expires_on: row.expires_on,
            revoked_at: row.revoked_at,
            from_file: row.from_file,
            replaces: row.replaces,
        })
    }
}

#[derive(Debug, Serialize, ToSchema)]
struct WaiverList {
    waivers: Vec<WaiverBody>,
    next: Option<String>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct WaiversQuery {
    /// Only those that hold and end within so many days, the one that ends first first.
    #[param(minimum = 0, maximum = 366)]
    expiring_within_days: Option<u16>,
    limit: Option<u32>,
    cursor: Option<String>,
}

/// Waivers, the one that ends last first.
#[utoipa::path(get, path = "/waivers", tag = "waivers",
    params(WaiversQuery),
    responses((status = 200, description = "A page of them", body = WaiverList)))]
async fn list(
    State(state): State<AppState>,
    Query(query): Query<WaiversQuery>,
) -> Result<JsonBody<WaiverList>> {
    let limit = paging::limit(query.limit)?;
    let today = state.clock.today();
    if let Some(days) = query.expiring_within_days {
        let until = today + chrono::Duration::days(i64::from(days));
        let rows = waivers::list_expiring(state.db.pool(), today, until).await?;
        let waivers =
            rows.into_iter().map(|row| WaiverBody::new(row, today)).collect::<Result<_>>()?;
        return Ok(JsonBody(WaiverList { waivers, next: None }));
    }
    let after = paging::read(query.cursor.as_deref())?.map(|text| read_place(&text)).transpose()?;
    let mut rows = waivers::list(state.db.pool(), after, paging::fetch(limit)).await?;
    let next = paging::cut(&mut rows, limit, |row| format!("{} {}", row.expires_on, row.id));
    let waivers = rows.into_iter().map(|row| WaiverBody::new(row, today)).collect::<Result<_>>()?;
    Ok(JsonBody(WaiverList { waivers, next }))
}

fn read_place(text: &str) -> Result<(NaiveDate, i64)> {
    let (day, id) = text.split_once(' ').ok_or_else(paging::bad)?;
    Ok((day.parse().map_err(|_| paging::bad())?, id.parse().map_err(|_| paging::bad())?))
}

/// The new waiver's id.
#[derive(Debug, Serialize, ToSchema)]
struct CreatedWaiver {
    waiver: i64,
}

/// Makes a waiver; whoever sends it approves it.
#[utoipa::path(post, path = "/waivers", tag = "waivers",
    request_body = NewWaiver,
    responses((status = 201, description = "Made", body = CreatedWaiver)),
    security(("token" = ["triage"])))]
async fn create(
    AuthTriage(caller): AuthTriage,
    State(state): State<AppState>,
    Json(new): Json<NewWaiver>,
) -> Result<(StatusCode, JsonBody<CreatedWaiver>)> {
    let waiver = ingest::create_waiver(&state, &caller, new).await?;
    Ok((StatusCode::CREATED, JsonBody(CreatedWaiver { waiver })))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct SyncQuery {
    /// Only say what would be done.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Debug, Serialize, ToSchema)]
struct SyncAnswer {
    dry_run: bool,
    #[serde(flatten)]
    plan: SyncPlan,
}

/// Brings the waivers in step with the file that is kept with the code, all or nothing; whoever
/// sends it approves what is new in it. Waivers made otherwise stay as they are.
#[utoipa::path(put, path = "/waivers/file", tag = "waivers",
    params(SyncQuery),
    request_body(content = String, content_type = "application/toml",
        description = "The whole file, as `runner --waivers` reads it"),
    responses((status = 200, description = "What was done, or would be", body = SyncAnswer)),
    security(("token" = ["triage"])))]
async fn sync(
    AuthTriage(caller): AuthTriage,
    State(state): State<AppState>,
    Query(query): Query<SyncQuery>,
    request: axum::extract::Request,
) -> Result<JsonBody<SyncAnswer>> {
    let file = read_body(request.into_body()).await?;
    let plan = ingest::sync_waivers(&state, &caller, &file, query.dry_run).await?;
    Ok(JsonBody(SyncAnswer { dry_run: query.dry_run, plan }))
}

/// Ends a waiver now.
#[utoipa::path(post, path = "/waivers/{waiver}/revoke", tag = "waivers",
    params(("waiver" = i64, Path, description = "Its number")),
    responses((status = 204, description = "Ended")),
    security(("token" = ["triage"])))]
async fn revoke(
    AuthTriage(caller): AuthTriage,
    State(state): State<AppState>,
    Path(waiver): Path<i64>,
) -> Result<StatusCode> {
    ingest::revoke_waiver(&state, &caller, waiver).await?;
    Ok(StatusCode::NO_CONTENT)
}
