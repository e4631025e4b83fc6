//! JSON endpoints under `/api/v1`, described in `docs/api.md` and, from the code itself, in
//! `/api/v1/openapi.json` with an interactive page at `/api/docs/`.

use utoipa_axum::router::OpenApiRouter;

use crate::app::AppState;

pub mod artifacts;
pub mod badges;
pub mod cases;
pub mod compare;
mod document;
pub mod etag;
pub mod gates;
pub mod health;
pub mod imports;
pub mod ingest;
pub mod inventories;
pub mod metrics;
mod paging;
pub mod runs;
pub mod subjects;
mod table;
pub mod waivers;
pub mod webhooks;

pub use document::{DOCUMENT_PATH, PAGE_PATH, page, with_errors};

/// Every endpoint under `/api/v1`.
pub fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .merge(ingest::router())
        .merge(imports::router())
        .merge(runs::router())
        .merge(artifacts::router())
        .merge(inventories::router())
        .merge(cases::router())
        .merge(compare::router())
        .merge(subjects::router())
        .merge(gates::router())
        .merge(badges::router())
        .merge(waivers::router())
        .merge(webhooks::router())
}
