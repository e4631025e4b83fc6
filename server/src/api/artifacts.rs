//! Files that attempts left, by the hash of what they hold: stored once, named by attempts, and
//! handed out as downloads that no browser shows.

use axum::Json as JsonBody;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use protocol::RunKey;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::ingest::Room;
use crate::app::AppState;
use crate::db::artifacts;
use crate::error::{Error, Result};
use crate::extract::{AuthRunner, Json, Path, read_body};
use crate::ingest::{self, LinkRequest};

/// Where they are.
pub const PATH: &str = "/api/v1/artifacts";

/// The endpoints.
pub fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(put, fetch)).routes(routes!(link))
}

#[derive(Debug, Serialize, ToSchema)]
struct StoredArtifact {
    sha256: String,
    /// In bytes.
    size: usize,
}

/// Stores a file of at most 8 MiB under the hash of what it holds.
#[utoipa::path(put, path = "/artifacts/{sha256}", tag = "runners",
    params(("sha256" = String, Path, description = "SHA-256 of the body, 64 hex digits")),
    request_body(content = String, content_type = "application/octet-stream",
        description = "The file as it is"),
    responses((status = 201, description = "Stored now", body = StoredArtifact),
        (status = 200, description = "It was there", body = StoredArtifact)),
    security(("token" = ["ingest"])))]
async fn put(
    AuthRunner(caller): AuthRunner,
    State(state): State<AppState>,
    Path(sha256): Path<String>,
    request: axum::extract::Request,
) -> Result<(StatusCode, JsonBody<StoredArtifact>)> {
    let hash = ingest::read_hash(&sha256)?;
    let _room = Room::take(&state).await?;
    let contents = read_body(request.into_body()).await?;
    let created = ingest::store_artifact(&state, &caller, &hash, &contents).await?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, JsonBody(StoredArtifact { sha256, size: contents.len() })))
}

/// The file, as a download.
#[utoipa::path(get, path = "/artifacts/{sha256}", tag = "runs",
    params(("sha256" = String, Path, description = "SHA-256 of it, 64 hex digits")),
    responses((status = 200, description = "The file",
        body = String, content_type = "application/octet-stream")))]
async fn fetch(State(state): State<AppState>, Path(sha256): Path<String>) -> Result<Response> {
    let contents = artifacts::find(state.db.pool(), &ingest::read_hash(&sha256)?)
        .await?
        .ok_or_else(|| Error::no_such("artifact", &sha256))?;
    let mut response = contents.into_response();
    let headers = response.headers_mut();
    // Never what its sender calls it: a page or a picture with a script would run here.
    let kind = HeaderValue::from_static("application/octet-stream");
    headers.insert(header::CONTENT_TYPE, kind);
    let name = format!("attachment; filename=\"{}.bin\"", &sha256[..16]);
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_str(&name).expect("hex digits"));
    // What has this hash never changes; who may read it can.
    let cache = HeaderValue::from_static("private, max-age=31536000, immutable");
    headers.insert(header::CACHE_CONTROL, cache);
    Ok(response)
}

/// Names files of attempts, all or nothing.
#[utoipa::path(post, path = "/runs/{run}/artifacts", tag = "runners",
    params(("run" = RunKey, Path, description = "Key of the run")),
    request_body = LinkRequest,
    responses((status = 204, description = "They are named so")),
    security(("token" = ["ingest"])))]
async fn link(
    AuthRunner(_): AuthRunner,
    State(state): State<AppState>,
    Path(key): Path<RunKey>,
    Json(request): Json<LinkRequest>,
) -> Result<StatusCode> {
    ingest::link_artifacts(&state, &key, &request).await?;
    Ok(StatusCode::NO_CONTENT)
}
