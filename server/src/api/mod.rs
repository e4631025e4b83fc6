//! JSON endpoints under `/api/v1`, described in `docs/api.md`.

use axum::Router;

use crate::app::AppState;

pub mod health;
pub mod ingest;

/// Every endpoint under `/api/v1`.
pub fn router() -> Router<AppState> {
    Router::new().merge(ingest::router())
}
