//! `/healthz`: the process answers. `/readyz`: it can do its work, and if not, why.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;

use crate::app::AppState;
use crate::db;

/// Both endpoints.
pub fn router() -> Router<AppState> {
    Router::new().route("/healthz", get(healthz)).route("/readyz", get(readyz))
}

async fn healthz() -> &'static str {
    "ok\n"
}

/// Body of `/readyz`.
#[derive(Debug, Serialize)]
struct Readiness {
    ready: bool,
    database: &'static str,
    migrations: String,
}

async fn readyz(State(state): State<AppState>) -> (StatusCode, Json<Readiness>) {
    let readiness = match db::applied_migrations(state.db.pool()).await {
        Err(_) => Readiness { ready: false, database: "down", migrations: "unknown".to_owned() },
        Ok(applied) => {
            let known = crate::MIGRATOR.iter().filter(|m| m.migration_type.is_up_migration());
            let missing: Vec<_> =
                known.filter(|m| !applied.contains(&m.version)).map(|m| m.version).collect();
            Readiness {
                ready: missing.is_empty(),
                database: "up",
                migrations: if missing.is_empty() {
                    "applied".to_owned()
                } else {
                    format!("not applied: {missing:?}")
                },
            }
        }
    };
    let status = if readiness.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(readiness))
}
