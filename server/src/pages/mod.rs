//! HTML pages: one file per page, each with its `router()`.

use axum::Router;

use crate::app::AppState;

pub mod error;

/// Every page.
pub fn router() -> Router<AppState> {
    Router::new()
}
