//! The state that handlers share, the router, its layers, and serving until told to stop.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{FromRef, MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::decompression::RequestDecompressionLayer;
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::timeout::TimeoutLayer;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};
use utoipa_axum::router::OpenApiRouter;

use crate::api::metrics::Metrics;
use crate::args::Reads;
use crate::clock::Clock;
use crate::db::Db;
use crate::error::{self, Error};
use crate::gates::Gates;
use crate::popularity::Popularity;
use crate::rate::{TokenRate, UnknownRate};
use crate::traces;
use crate::webhooks::Webhooks;

/// Longest time for one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// What handlers share. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AppState {
    /// The database.
    pub db: Db,
    /// The time.
    pub clock: Clock,
    /// The gates, read at the start.
    pub gates: Arc<Gates>,
    /// Settings that handlers look at.
    pub settings: Arc<Settings>,
    /// Room for requests that bring results.
    pub ingest_room: Arc<Semaphore>,
    /// Who is told what happened.
    pub webhooks: Arc<Webhooks>,
    /// How popular models are, read at the start.
    pub popularity: Arc<Popularity>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// How much each token may still do.
    pub rate: Arc<TokenRate>,
    /// How many unknown tokens each address may still try.
    pub unknown_rate: Arc<UnknownRate>,
    /// Room for pages that are told while a run goes on.
    pub watchers: Arc<Semaphore>,
    /// Ends what would otherwise keep a connection open.
    pub stopping: CancellationToken,
}

/// Settings that handlers look at.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Address under which others reach this server, without a slash at its end.
    pub public_url: String,
    /// Who may read.
    pub reads: Reads,
    /// Requests with results handled at once.
    pub ingest_limit: usize,
    /// Requests that one token may make in a minute.
    pub token_requests_per_minute: NonZeroU32,
    /// Unknown tokens that one address may try in a minute.
    pub unknown_tokens_per_minute: NonZeroU32,
    /// Header in which the proxy in front says who asks.
    pub client_address_header: Option<HeaderName>,
}

impl AppState {
    /// Puts the parts together.
    #[must_use]
    pub fn new(db: Db, clock: Clock, gates: Gates, settings: Settings) -> Self {
        let ingest_room = Arc::new(Semaphore::new(settings.ingest_limit));
        let rate = Arc::new(TokenRate::new(settings.token_requests_per_minute));
        let unknown_rate = Arc::new(UnknownRate::new(
            settings.unknown_tokens_per_minute,
            settings.client_address_header.clone(),
        ));
        Self {
            db,
            clock,
            gates: Arc::new(gates),
            settings: Arc::new(settings),
            ingest_room,
            webhooks: Arc::default(),
            popularity: Arc::default(),
            metrics: Arc::default(),
            rate,
            unknown_rate,
            watchers: Arc::new(Semaphore::new(crate::pages::run_events::MOST_WATCHERS)),
            stopping: CancellationToken::new(),
        }
    }
}

impl AppState {
    /// The same with somebody to tell.
    #[must_use]
    pub fn with_webhooks(self, webhooks: Webhooks) -> Self {
        Self { webhooks: Arc::new(webhooks), ..self }
    }

    /// The same with model lists.
    #[must_use]
    pub fn with_popularity(self, popularity: Popularity) -> Self {
        Self { popularity: Arc::new(popularity), ..self }
    }
}

impl FromRef<AppState> for Db {
    fn from_ref(state: &AppState) -> Self {
        state.db.clone()
    }
}

/// Every endpoint that the API's document describes.
pub fn described() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().nest("/api/v1", crate::api::router()).merge(crate::api::metrics::router())
}

/// Every route with every layer.
pub fn router(state: AppState) -> Router {
    let (api, mut document) = described().split_for_parts();
    let (health, of_health) = crate::api::health::router().split_for_parts();
    document.merge(of_health);
    let readable = Router::new()
        .merge(crate::pages::router())
        .merge(api.layer(middleware::from_fn(crate::api::etag::tag)))
        .merge(crate::api::page(crate::api::with_errors(document)))
        .layer(middleware::from_fn_with_state(state.clone(), restrict_reads));
    let metrics = state.metrics.clone();
    Router::new()
        .merge(readable)
        .merge(crate::pages::open_router())
        .merge(health)
        .fallback(error::not_found)
        .with_state(state)
        .layer(RequestDecompressionLayer::new())
        .layer(RequestBodyLimitLayer::new(protocol::ingest_api::MAX_BODY_BYTES))
        .layer(TimeoutLayer::with_status_code(
            axum::http::StatusCode::SERVICE_UNAVAILABLE,
            REQUEST_TIMEOUT,
        ))
        .layer(CatchPanicLayer::new())
        .layer(middleware::from_fn_with_state(metrics, observe))
        .layer(CompressionLayer::new())
}

/// Outermost but for compression: names the request, gives errors their face, and sets the
/// headers that every answer carries.
async fn observe(State(metrics): State<Arc<Metrics>>, request: Request, next: Next) -> Response {
    let request_id = format!("{:016x}", rand::random::<u64>());
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or_else(|| "none".to_owned(), |matched| matched.as_str().to_owned());
    let span = tracing::info_span!(
        "request", id = %request_id, %method, path = %path,
        otel.name = Empty, otel.kind = Empty, otel.status_code = Empty
    );
    traces::describe(&span, method.as_str(), &route);
    let started = std::time::Instant::now();
    let mut response = async {
        let response = error::show(&path, &request_id, next.run(request).await);
        let (status, elapsed) = (response.status().as_u16(), started.elapsed());
        metrics.note_request(method.as_str(), &route, status, elapsed.as_secs_f64());
        traces::note_status(&Span::current(), status);
        tracing::info!(status, milliseconds = elapsed.as_millis(), route, "answered");
        response
    }
    .instrument(span)
    .await;
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&request_id) {
        headers.insert(HeaderName::from_static("x-request-id"), value);
    }
    for (name, value) in &SECURITY_HEADERS {
        headers.insert(name.clone(), HeaderValue::from_static(value));
    }
    if path.starts_with(crate::api::artifacts::PATH) {
        let policy = HeaderValue::from_static(ARTIFACT_POLICY);
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    if path.starts_with(crate::api::PAGE_PATH) {
        let policy = HeaderValue::from_static(DOCUMENT_PAGE_POLICY);
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}

/// A file from a runner: a browser that shows it after all runs nothing of it and gives it no
/// access to this server.
const ARTIFACT_POLICY: &str = "default-src 'none'; sandbox; frame-ancestors 'none'";

/// The page of the API's document: still nothing from elsewhere and no inline script, but its
/// style sheet has pictures in it.
const DOCUMENT_PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; \
    style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// No inline script or style, nothing from elsewhere, no framing, no guessing of types.
static SECURITY_HEADERS: [(HeaderName, &str); 4] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
         font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; \
         frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "same-origin"),
    (header::X_FRAME_OPTIONS, "DENY"),
];

/// Asks readers for a token where the setting says so. Writes ask for theirs in the handler.
async fn restrict_reads(
    State(state): State<AppState>,
    request: Request,
    next: Next,
) -> Result<Response, Error> {
    match state.settings.reads {
        Reads::Public => Ok(next.run(request).await),
        Reads::Token => {
            let (parts, body) = request.into_parts();
            // A cookie is enough to read. What writes asks for more, wherever it is.
            if crate::session::Session::find(&parts.headers, &state).await?.is_none() {
                crate::extract::find_caller(&parts, &state).await?;
            }
            Ok(next.run(Request::from_parts(parts, body)).await)
        }
    }
}

/// Serves until `stop` ends, then lets requests in flight finish for at most `drain`.
pub async fn serve(
    listener: tokio::net::TcpListener,
    state: AppState,
    stop: CancellationToken,
    drain: Duration,
) -> anyhow::Result<()> {
    let app = router(AppState { stopping: stop.clone(), ..state });
    let graceful = stop.clone();
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    let server = axum::serve(listener, app)
        .with_graceful_shutdown(async move { graceful.cancelled().await });
    let deadline = async {
        stop.cancelled().await;
        tokio::time::sleep(drain).await;
    };
    tokio::select! {
        ended = server => ended.map_err(Into::into),
        () = deadline => {
            tracing::warn!("some requests did not end in time and were cut off");
            Ok(())
        }
    }
}
