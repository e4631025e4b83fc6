//! The gate's answer, for CI: always 200, because the answer is in the body.

use axum::Json as JsonBody;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::AppState;
use crate::error::Result;
use crate::extract::{Path, Query};
use crate::gates;
use crate::judge::gate::GateAnswer;

/// The endpoints.
pub fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(ask))
}

#[derive(Debug, Serialize, ToSchema)]
struct GateBody {
    name: String,
    title: String,
    rules: usize,
    rules_sha256: String,
}

#[derive(Debug, Serialize, ToSchema)]
struct GateList {
    gates: Vec<GateBody>,
}

/// The gates of this server.
#[utoipa::path(get, path = "/gates", tag = "gates",
    responses((status = 200, description = "All of them, by name", body = GateList)))]
async fn list(State(state): State<AppState>) -> JsonBody<GateList> {
    let gates = state
        .gates
        .iter()
        .map(|gate| GateBody {
            name: gate.name.clone(),
            title: gate.title.clone(),
            rules: gate.rules.len(),
            rules_sha256: hex::encode(gate.sha256),
        })
        .collect();
    JsonBody(GateList { gates })
}

/// Query of a gate.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct AskQuery {
    /// `latest`, or run keys with commas.
    candidate: Option<String>,
    /// Stands in for rules that name no device.
    device: Option<String>,
}

/// May it ship? Always 200: the answer is in the body.
#[utoipa::path(get, path = "/gates/{name}", tag = "gates",
    params(("name" = String, Path, description = "Name of the gate"), AskQuery),
    responses((status = 200, description = "Rule by rule", body = GateAnswer)))]
async fn ask(
    State(state): State<AppState>,
    Path(name): Path<String>,
    Query(query): Query<AskQuery>,
) -> Result<JsonBody<GateAnswer>> {
    let candidate = query.candidate.as_deref().unwrap_or("latest");
    let answer = gates::ask(&state, &name, candidate, query.device.as_deref()).await?;
    Ok(JsonBody(answer))
}
