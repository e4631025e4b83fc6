//! What webhooks were told, and how that went; for whoever has the scope `admin`.

use axum::Json as JsonBody;
use axum::extract::State;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::paging;
use crate::app::AppState;
use crate::db::webhooks;
use crate::error::Result;
use crate::extract::{AuthAdmin, Query};

/// The endpoint.
pub fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(list))
}

/// Query of the deliveries.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct DeliveriesQuery {
    limit: Option<u32>,
    cursor: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
struct DeliveryBody {
    delivery: i64,
    webhook: String,
    event: String,
    /// What was said, as text: the signature is over these bytes.
    body: String,
    created_at: DateTime<Utc>,
    tries: i32,
    /// Null when it was delivered or given up.
    next_try_at: Option<DateTime<Utc>>,
    delivered_at: Option<DateTime<Utc>>,
    /// HTTP status of the last answer.
    status: Option<i32>,
    /// What went wrong the last time.
    problem: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
struct DeliveryList {
    deliveries: Vec<DeliveryBody>,
    next: Option<String>,
}

/// Deliveries to webhooks, the newest first.
#[utoipa::path(get, path = "/webhooks/deliveries", tag = "webhooks", params(DeliveriesQuery),
    responses((status = 200, description = "A page of them", body = DeliveryList)),
    security(("token" = ["admin"])))]
async fn list(
    AuthAdmin(_): AuthAdmin,
    State(state): State<AppState>,
    Query(query): Query<DeliveriesQuery>,
) -> Result<JsonBody<DeliveryList>> {
    let limit = paging::limit(query.limit)?;
    let before = paging::read(query.cursor.as_deref())?
        .map(|text| text.parse().map_err(|_| paging::bad()))
        .transpose()?;
    let mut rows = webhooks::list(state.db.pool(), before, paging::fetch(limit)).await?;
    let next = paging::cut(&mut rows, limit, |row| row.id.to_string());
    let deliveries = rows
        .into_iter()
        .map(|row| DeliveryBody {
            delivery: row.id,
            webhook: row.webhook,
            event: row.event,
            body: row.body,
            created_at: row.created_at,
            tries: row.tries,
            next_try_at: row.next_try_at,
            delivered_at: row.delivered_at,
            status: row.status,
            problem: row.problem,
        })
        .collect();
    Ok(JsonBody(DeliveryList { deliveries, next }))
}
