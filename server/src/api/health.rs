//! `/healthz`: the process answers. `/readyz`: it can do its work, and if not, why.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::AppState;
use crate::db;

/// Both endpoints.
pub fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(healthz)).routes(routes!(readyz))
}

/// The process answers.
#[utoipa::path(get, path = "/healthz", tag = "health",
    responses((status = 200, description = "It does", body = String, content_type = "text/plain")))]
async fn healthz() -> &'static str {
    "ok\n"
}

/// Body of `/readyz`.
#[derive(Debug, Serialize, ToSchema)]
struct Readiness {
    ready: bool,
    database: &'static str,
    migrations: String,
}

/// The database answers and every migration is applied.
#[utoipa::path(get, path = "/readyz", tag = "health",
    responses((status = 200, description = "Ready", body = Readiness),
        (status = 503, description = "Not ready", body = Readiness)))]
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
