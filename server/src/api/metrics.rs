//! `/metrics`, for Prometheus: what the server does, and how much waits.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::AppState;
use crate::db;
use crate::error::Result;

/// Limits of the classes of durations, in seconds.
const SECONDS: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// The endpoint.
pub fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(metrics))
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: String,
    route: String,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GateLabels {
    gate: String,
    answer: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    state: String,
}

/// What is counted. Cheap to share.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    request_seconds: Family<RouteLabels, Histogram>,
    results_stored: Counter,
    results_replayed: Counter,
    gate_answers: Family<GateLabels, Counter>,
    connections: Family<StateLabels, Gauge>,
    open_runs: Gauge,
    rejudge_waiting: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("conformance");
        let requests = Family::default();
        registry.register("requests", "Requests answered", requests.clone());
        let request_seconds =
            Family::new_with_constructor((|| Histogram::new(SECONDS)) as fn() -> Histogram);
        registry.register_with_unit(
            "request",
            "Time until a request was answered",
            Unit::Seconds,
            request_seconds.clone(),
        );
        let results_stored = Counter::default();
        registry.register("results_stored", "Attempts stored", results_stored.clone());
        let results_replayed = Counter::default();
        registry.register(
            "results_replayed",
            "Attempts that were there already",
            results_replayed.clone(),
        );
        let gate_answers = Family::default();
        registry.register("gate_answers", "Answers given by gates", gate_answers.clone());
        let connections = Family::default();
        registry.register(
            "database_connections",
            "Connections to the database",
            connections.clone(),
        );
        let open_runs = Gauge::default();
        registry.register("open_runs", "Runs that are not sealed", open_runs.clone());
        let rejudge_waiting = Gauge::default();
        registry.register(
            "rejudge_waiting",
            "Runs that wait to be judged again",
            rejudge_waiting.clone(),
        );
        Self {
            registry,
            requests,
            request_seconds,
            results_stored,
            results_replayed,
            gate_answers,
            connections,
            open_runs,
            rejudge_waiting,
        }
    }
}

impl Metrics {
    /// Counts a request. `route` is the pattern and not the path, so that the number of series
    /// does not grow with the number of runs.
    pub fn note_request(&self, method: &str, route: &str, status: u16, seconds: f64) {
        let labels = RequestLabels { method: method.to_owned(), route: route.to_owned(), status };
        self.requests.get_or_create(&labels).inc();
        let labels = RouteLabels { route: route.to_owned() };
        self.request_seconds.get_or_create(&labels).observe(seconds);
    }

    /// Counts a batch.
    pub fn note_results(&self, stored: u64, replayed: u64) {
        self.results_stored.inc_by(stored);
        self.results_replayed.inc_by(replayed);
    }

    /// Counts an answer.
    pub fn note_answer(&self, gate: &str, answer: &str) {
        let labels = GateLabels { gate: gate.to_owned(), answer: answer.to_owned() };
        self.gate_answers.get_or_create(&labels).inc();
    }
}

/// Figures for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "health",
    responses((status = 200, description = "In the OpenMetrics text format", body = String,
        content_type = "application/openmetrics-text")))]
async fn metrics(State(state): State<AppState>) -> Result<Response> {
    let metrics = &state.metrics;
    let pool = state.db.pool();
    let gauge = |state: &str| {
        metrics.connections.get_or_create(&StateLabels { state: state.to_owned() }).clone()
    };
    let idle = i64::try_from(pool.num_idle()).unwrap_or(i64::MAX);
    gauge("idle").set(idle);
    gauge("busy").set((i64::from(pool.size()) - idle).max(0));
    // What the database knows; while it is away, the rest is still told.
    if let Ok((open_runs, waiting)) = db::rejudge::count_waiting(pool).await {
        metrics.open_runs.set(open_runs);
        metrics.rejudge_waiting.set(waiting);
    }
    let mut text = String::new();
    encode(&mut text, &metrics.registry).map_err(anyhow::Error::from)?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}
