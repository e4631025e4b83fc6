//! Suites of their own, out of the JUnit reports of integrations: vLLM, SGLang, TorchTitan, Ray and
//! the like.

use std::collections::BTreeMap;

use axum::Json as JsonBody;
use axum::extract::State;
use axum::http::StatusCode;
use chrono::{DateTime, Utc};
use protocol::{Integration, RunKey};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::ingest::Room;
use crate::app::AppState;
use crate::error::{Error, Result};
use crate::extract::{AuthRunner, Query, read_body};
use crate::ingest::{self, About};

/// The endpoints.
pub fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(import_junit))
}

/// What the report itself does not say.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct ImportQuery {
    /// Key of the run to make.
    run: RunKey,
    /// Whose tests they are, as in `vllm`: the suite is then `junit:vllm`.
    #[param(pattern = "^[a-z0-9][a-z0-9._-]{0,31}$")]
    integration: String,
    /// Device profile that they were executed on.
    device: String,
    /// Model of the device as it names itself.
    #[serde(default)]
    device_kind: String,
    /// Whether the results are simulated; by the device profile when absent.
    simulated: Option<bool>,
    /// Version tuple, as in `torch=2.15.0,torch_tpu=0.2.0`.
    versions: Option<String>,
    /// Free labels, as in `branch=main,nightly=yes`.
    labels: Option<String>,
    /// Where it was executed, as you claim.
    #[serde(default)]
    host: String,
    /// When it began. Needed where the report gives no time with a time zone.
    started_at: Option<DateTime<Utc>>,
}

#[derive(Debug, Serialize, ToSchema)]
struct ImportedRun {
    run: String,
    page: String,
    suite: String,
    /// Whether this request created the run.
    created: bool,
    /// Executions stored now.
    stored: u64,
    /// Executions that were there already, with the same body.
    replayed: u64,
    completeness: String,
    planned: u64,
    judged: u64,
    missing: u64,
}

/// Makes a run of a JUnit report, sealed and judged.
#[utoipa::path(post, path = "/junit", tag = "runners",
    params(ImportQuery),
    request_body(content = String, content_type = "application/xml",
        description = "The JUnit XML, at most 8 MiB"),
    responses((status = 201, description = "Stored now", body = ImportedRun),
        (status = 200, description = "It was there, with the same report", body = ImportedRun)),
    security(("token" = ["ingest"])))]
async fn import_junit(
    AuthRunner(caller): AuthRunner,
    State(state): State<AppState>,
    Query(query): Query<ImportQuery>,
    request: axum::extract::Request,
) -> Result<(StatusCode, JsonBody<ImportedRun>)> {
    let about = about(query)?;
    let _room = Room::take(&state).await?;
    let report = read_body(request.into_body()).await?;
    let (run, integration) = (about.run.to_string(), about.integration);
    let imported = ingest::import_junit(&state, &caller, about, &report).await?;
    let status = if imported.created { StatusCode::CREATED } else { StatusCode::OK };
    let body = ImportedRun {
        run,
        page: imported.page,
        suite: protocol::Suite::Imported(integration).to_string(),
        created: imported.created,
        stored: imported.stored,
        replayed: imported.replayed,
        completeness: imported.sealed.completeness,
        planned: imported.sealed.planned,
        judged: imported.sealed.judged,
        missing: imported.sealed.missing,
    };
    Ok((status, JsonBody(body)))
}

fn about(query: ImportQuery) -> Result<About> {
    let integration = Integration::new(&query.integration).ok_or_else(|| {
        Error::bad_request(
            "`integration` is no name of one",
            "1 to 32 characters of `a-z`, `0-9`, `-`, `_`, `.`, beginning with a letter or digit",
        )
    })?;
    Ok(About {
        run: query.run,
        integration,
        device: query.device,
        device_kind: query.device_kind,
        simulated: query.simulated,
        versions: pairs("versions", query.versions.as_deref())?,
        labels: pairs("labels", query.labels.as_deref())?,
        host: query.host,
        started_at: query.started_at,
    })
}

/// `name=value`, separated by commas; no name twice.
fn pairs(field: &str, text: Option<&str>) -> Result<BTreeMap<String, String>> {
    let bad = |what: String| {
        Error::bad_request(format!("`{field}` {what}"), "write it as `name=value,name=value`")
    };
    let mut pairs = BTreeMap::new();
    for part in text.unwrap_or_default().split(',').filter(|part| !part.is_empty()) {
        let (name, value) = part
            .split_once('=')
            .filter(|(name, _)| !name.trim().is_empty())
            .ok_or_else(|| bad(format!("has `{part}`, which names nothing")))?;
        let name = name.trim().to_owned();
        if pairs.insert(name.clone(), value.trim().to_owned()).is_some() {
            return Err(bad(format!("has `{name}` twice")));
        }
    }
    Ok(pairs)
}
