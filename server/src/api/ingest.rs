//! Where runners write: `protocol::ingest_api`, endpoint by endpoint.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{post, put};
use axum::{Json as JsonBody, Router};
use protocol::RunKey;
use protocol::ingest_api::{create_run, post_results, put_manifest, seal_run};
use serde::Deserialize;
use tokio::sync::SemaphorePermit;

use crate::app::AppState;
use crate::error::{Error, Result};
use crate::extract::{AuthRunner, AuthTriage, Json, Path};
use crate::ingest;

/// How long a request waits for room before it is sent away with 429.
const PATIENCE: Duration = Duration::from_millis(250);
/// What `Retry-After` then says.
const RETRY_AFTER_SECS: u64 = 1;

/// The endpoints.
pub fn router() -> Router<AppState> {
    Router::new()
        .route("/runs", post(announce))
        .route("/runs/{run}/manifest", put(plan))
        .route("/runs/{run}/results", post(take_in))
        .route("/runs/{run}/seal", post(seal))
        .route("/runs/{run}/void", post(void))
}

/// Room for one more request that brings results, or 429. Taken before the body is read, because
/// the body is what fills memory.
#[derive(Debug)]
struct Room;

impl Room {
    async fn take(state: &AppState) -> Result<SemaphorePermit<'_>> {
        match tokio::time::timeout(PATIENCE, state.ingest_room.acquire()).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(Error::Busy { retry_after_secs: RETRY_AFTER_SECS }),
        }
    }
}

async fn announce(
    AuthRunner(caller): AuthRunner,
    State(state): State<AppState>,
    Json(request): Json<create_run::Request>,
) -> Result<(StatusCode, JsonBody<create_run::Response>)> {
    let response = ingest::create_run(&state, &caller, request).await?;
    let status = if response.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, JsonBody(response)))
}

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

async fn seal(
    AuthRunner(_): AuthRunner,
    State(state): State<AppState>,
    Path(key): Path<RunKey>,
    Json(request): Json<seal_run::Request>,
) -> Result<JsonBody<seal_run::Response>> {
    Ok(JsonBody(ingest::seal_run(&state, &key, request).await?))
}

/// Body of `POST /api/v1/runs/{run}/void`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct VoidRequest {
    reason: String,
}

async fn void(
    AuthTriage(caller): AuthTriage,
    State(state): State<AppState>,
    Path(key): Path<RunKey>,
    Json(request): Json<VoidRequest>,
) -> Result<StatusCode> {
    ingest::void_run(&state, &caller, &key, &request.reason).await?;
    Ok(StatusCode::NO_CONTENT)
}
