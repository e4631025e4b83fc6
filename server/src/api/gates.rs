//! The gate's answer, for CI: always 200, because the answer is in the body.

use axum::extract::State;
use axum::routing::get;
use axum::{Json as JsonBody, Router};
use serde::{Deserialize, Serialize};

use crate::app::AppState;
use crate::error::Result;
use crate::extract::{Path, Query};
use crate::gates;
use crate::judge::gate::GateAnswer;

/// The endpoints.
pub fn router() -> Router<AppState> {
    Router::new().route("/gates", get(list)).route("/gates/{name}", get(ask))
}

#[derive(Debug, Serialize)]
struct GateBody {
    name: String,
    title: String,
    rules: usize,
    rules_sha256: String,
}

#[derive(Debug, Serialize)]
struct GateList {
    gates: Vec<GateBody>,
}

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
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AskQuery {
    /// `latest`, or run keys with commas.
    candidate: Option<String>,
    /// Stands in for rules that name no device.
    device: Option<String>,
}

async fn ask(
    State(state): State<AppState>,
    Path(name): Path<String>,
    Query(query): Query<AskQuery>,
) -> Result<JsonBody<GateAnswer>> {
    let candidate = query.candidate.as_deref().unwrap_or("latest");
    let answer = gates::ask(&state, &name, candidate, query.device.as_deref()).await?;
    Ok(JsonBody(answer))
}
