//! Which overloads the build of a run has, and how much of ATen that covers by named definitions.

use axum::Json as JsonBody;
use axum::extract::State;
use protocol::RunKey;
use protocol::coverage::{Definition, Usage};
use protocol::ingest_api::put_inventory;
use protocol::inventory::Inventory;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::AppState;
use crate::db::inventories;
use crate::error::{Error, Result};
use crate::extract::{AuthRunner, Path};
use crate::ingest;

/// The endpoints.
pub fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(put, show)).routes(routes!(coverage))
}

/// Sends which overloads the build has. Shards of one run send the same.
#[utoipa::path(put, path = "/runs/{run}/inventory", tag = "runners",
    params(("run" = RunKey, Path, description = "Key of the run")),
    request_body = Inventory,
    responses((status = 200, description = "Stored", body = put_inventory::Response)),
    security(("token" = ["ingest"])))]
async fn put(
    AuthRunner(_): AuthRunner,
    State(state): State<AppState>,
    Path(key): Path<RunKey>,
    request: axum::extract::Request,
) -> Result<JsonBody<put_inventory::Response>> {
    let inventory: Inventory = crate::extract::read_json(request).await?;
    Ok(JsonBody(ingest::put_inventory(&state, &key, &inventory).await?))
}

/// Which overloads the build of a run has, with their kernels.
#[utoipa::path(get, path = "/runs/{run}/inventory", tag = "runs",
    params(("run" = RunKey, Path, description = "Key of the run")),
    responses((status = 200, description = "As it was sent", body = Inventory)))]
async fn show(
    State(state): State<AppState>,
    Path(key): Path<RunKey>,
) -> Result<JsonBody<Inventory>> {
    Ok(JsonBody(find(&state, &key).await?))
}

/// A number with all that it is made of; the definitions are worded in `docs/coverage.md`.
#[derive(Debug, Serialize, ToSchema)]
struct CoverageBody {
    definition: Definition,
    counts: &'static str,
    unit: &'static str,
    numerator: u64,
    denominator: u64,
}

#[derive(Debug, Serialize, ToSchema)]
struct CoverageList {
    run: String,
    dispatch_key: String,
    coverage: Vec<CoverageBody>,
}

/// Coverage of ATen by the build of a run, by every definition that needs no results.
#[utoipa::path(get, path = "/runs/{run}/coverage", tag = "runs",
    params(("run" = RunKey, Path, description = "Key of the run")),
    responses((status = 200, description = "One number per definition", body = CoverageList)))]
async fn coverage(
    State(state): State<AppState>,
    Path(key): Path<RunKey>,
) -> Result<JsonBody<CoverageList>> {
    let inventory = find(&state, &key).await?;
    let numbers = Definition::ALL.iter().filter_map(|definition| {
        let counted = definition.count(&inventory, &Usage::default())?;
        Some(CoverageBody {
            definition: *definition,
            counts: definition.describe(),
            unit: counted.unit,
            numerator: counted.numerator,
            denominator: counted.denominator,
        })
    });
    let coverage = numbers.collect();
    let dispatch_key = inventory.dispatch_key.clone();
    Ok(JsonBody(CoverageList { run: key.to_string(), dispatch_key, coverage }))
}

async fn find(state: &AppState, key: &RunKey) -> Result<Inventory> {
    let run = super::runs::find(state, key).await?;
    let found = inventories::find(state.db.pool(), &[run.id]).await?;
    found.ok_or_else(|| Error::no_such("inventory of run", key))
}
