//! JSON endpoints under `/api/v1`, described in `docs/api.md`.

use axum::Router;

use crate::app::AppState;

pub mod gates;
pub mod health;
pub mod ingest;
mod paging;
pub mod runs;
pub mod subjects;
pub mod waivers;

/// Every endpoint under `/api/v1`.
pub fn router() -> Router<AppState> {
    Router::new()
        .merge(ingest::router())
        .merge(runs::router())
        .merge(subjects::router())
        .merge(gates::router())
        .merge(waivers::router())
}
