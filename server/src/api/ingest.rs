//! Where runners write: `protocol::ingest_api`, endpoint by endpoint.

use std::time::Duration;

use axum::Json as JsonBody;
use axum::extract::State;
use axum::http::StatusCode;
use protocol::RunKey;
use protocol::ingest_api::{create_run, post_results, put_manifest, seal_run};
use serde::Deserialize;
use tokio::sync::SemaphorePermit;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::AppState;
use crate::error::{Error, Result};
use crate::extract::{AuthRunner, AuthTriage, Json, Path};
use crate::ingest;

/// How long a request waits for room before it is sent away with 429.
const PATIENCE: Duration = Duration::from_millis(250);
/// What `Retry-After` then says.
const RETRY_AFTER_SECS: u64 = 1;

/// The endpoints.
pub fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(announce))
        .routes(routes!(plan))
        .routes(routes!(take_in))
        .routes(routes!(seal))
        .routes(routes!(void))
}

/// Room for one more request that brings results, or 429. Taken before the body is read, because
/// the body is what fills memory.
#[derive(Debug)]
pub(super) struct Room;

impl Room {
    pub(super) async fn take(state: &AppState) -> Result<SemaphorePermit<'_>> {
        match tokio::time::timeout(PATIENCE, state.ingest_room.acquire()).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(Error::Busy {
                doing: "taking in other results",
                retry_after_secs: RETRY_AFTER_SECS,
            }),
        }
    }
}

/// Announces a run. Shards of one run announce it each; only `host` and `started_at` may differ.
#[utoipa::path(post, path = "/runs", tag = "runners",
    request_body = create_run::Request,
    responses((status = 201, description = "Stored now", body = create_run::Response),
        (status = 200, description = "It was there, with the same body", body = create_run::Response)),
    security(("token" = ["ingest"])))]
async fn announce(
    AuthRunner(caller): AuthRunner,
    State(state): State<AppState>,
    Json(request): Json<create_run::Request>,
) -> Result<(StatusCode, JsonBody<create_run::Response>)> {
    let response = ingest::create_run(&state, &caller, request).await?;
    let status = if response.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, JsonBody(response)))
}

/// Sends the ordered set of planned cases with its hash.
#[utoipa::path(put, path = "/runs/{run}/manifest", tag = "runners",
    params(("run" = RunKey, Path, description = "Key of the run")),
    request_body = put_manifest::Request,
    responses((status = 200, description = "Stored", body = put_manifest::Response)),
    security(("token" = ["ingest"])))]
async fn plan(
    AuthRunner(_): AuthRunner,
    State(state): State<AppState>,
    Path(key): Path<RunKey>,
    request: axum::extract::Request,
) -> Result<JsonBody<put_manifest::Response>> {
    let _room = Room::take(&state).await?;
    let request = crate::extract::read_json(request).await?;
    Ok(JsonBody(ingest::put_manifest(&state, &key, request).await?))
}

/// Sends attempts, all or nothing.
#[utoipa::path(post, path = "/runs/{run}/results", tag = "runners",
    params(("run" = RunKey, Path, description = "Key of the run")),
    request_body = post_results::Request,
    responses((status = 200, description = "Stored and judged", body = post_results::Response)),
    security(("token" = ["ingest"])))]
async fn take_in(
    AuthRunner(_): AuthRunner,
    State(state): State<AppState>,
    Path(key): Path<RunKey>,
    request: axum::extract::Request,
) -> Result<JsonBody<post_results::Response>> {
    let _room = Room::take(&state).await?;
    let request = crate::extract::read_json(request).await?;
    Ok(JsonBody(ingest::post_results(&state, &key, request).await?))
}

/// Says that a source has nothing more to send.
#[utoipa::path(post, path = "/runs/{run}/seal", tag = "runners",
    params(("run" = RunKey, Path, description = "Key of the run")),
    request_body = seal_run::Request,
    responses((status = 200, description = "What the run is worth", body = seal_run::Response)),
    security(("token" = ["ingest"])))]
async fn seal(
    AuthRunner(_): AuthRunner,
    State(state): State<AppState>,
    Path(key): Path<RunKey>,
    Json(request): Json<seal_run::Request>,
) -> Result<JsonBody<seal_run::Response>> {
    Ok(JsonBody(ingest::seal_run(&state, &key, request).await?))
}

/// Body of `POST /api/v1/runs/{run}/void`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct VoidRequest {
    reason: String,
}

/// Withdraws a run.
#[utoipa::path(post, path = "/runs/{run}/void", tag = "runners",
    params(("run" = RunKey, Path, description = "Key of the run")),
    request_body = VoidRequest,
    responses((status = 204, description = "Withdrawn")),
    security(("token" = ["triage"])))]
async fn void(
    AuthTriage(caller): AuthTriage,
    State(state): State<AppState>,
    Path(key): Path<RunKey>,
    Json(request): Json<VoidRequest>,
) -> Result<StatusCode> {
    ingest::void_run(&state, &caller, &key, &request.reason).await?;
    Ok(StatusCode::NO_CONTENT)
}
