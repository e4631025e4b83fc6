//! Sends a span of every request to an OpenTelemetry collector, where a setting names one: OTLP over
//! HTTP, in batches, from a thread of its own. What the collector does not take in time is dropped;
//! no request ever waits for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{KeyValue, Value};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider, SpanLimits,
};
use tokio::runtime::Handle;
use tracing::{Level, Span, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;

use crate::trouble::OrTrouble as _;

/// Longest time that one batch may take to be sent.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time between a span and its batch.
const BATCH_DELAY: Duration = Duration::from_secs(1);
/// Longest time that what is left may take when the server ends.
const END_TIMEOUT: Duration = Duration::from_secs(2);

static SENT: AtomicBool = AtomicBool::new(false);

/// The way to the collector.
#[derive(Debug)]
pub struct Traces(SdkTracerProvider);

impl Traces {
    /// To the collector at that address; `runtime` does the sending.
    pub fn new(endpoint: &str, runtime: Handle) -> anyhow::Result<Self> {
        // Fails only when one is installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let unusable = "spans cannot be sent to `--otlp-endpoint`";
        let hint = "it looks like `http://127.0.0.1:4318`; `/v1/traces` is added to it";
        let client = reqwest::Client::builder().timeout(SEND_TIMEOUT).build();
        let client = client.or_trouble(unusable, hint)?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Sender { client, runtime, failing: AtomicBool::new(false) })
            .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
            .with_timeout(SEND_TIMEOUT)
            .build()
            .or_trouble(unusable, hint)?;
        let batches = BatchConfigBuilder::default().with_scheduled_delay(BATCH_DELAY).build();
        let processor = BatchSpanProcessor::builder(exporter).with_batch_config(batches).build();
        let resource = Resource::builder()
            .with_service_name("torchtpu-conformance")
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor)
            .with_resource(resource)
            .with_span_limits(SpanLimits::default())
            .build();
        SENT.store(true, Ordering::Relaxed);
        Ok(Self(provider))
    }

    /// Takes the spans of this crate, whatever the log shows.
    pub fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let tracer = self.0.tracer("server");
        let ours = Targets::new().with_target("server", Level::INFO);
        tracing_opentelemetry::layer()
            .with_tracer(tracer)
            .with_location(false)
            .with_threads(false)
            .with_filter(ours)
    }

    /// Sends what is left, for as long as that takes, within limits.
    pub fn end(self) {
        if let Err(error) = self.0.shutdown_with_timeout(END_TIMEOUT) {
            tracing::debug!(%error, "the last spans were not sent");
        }
    }
}

/// What only collectors want to know of a request's span: log lines stay as short as they were.
pub fn describe(span: &Span, method: &str, route: &str) {
    if SENT.load(Ordering::Relaxed) {
        span.record("otel.name", format!("{method} {route}"));
        span.record("otel.kind", "server");
        attribute(span, "http.request.method", method.to_owned());
        attribute(span, "http.route", route.to_owned());
    }
}

/// How the request was answered.
pub fn note_status(span: &Span, status: u16) {
    if SENT.load(Ordering::Relaxed) {
        attribute(span, "http.response.status_code", i64::from(status));
        if status >= 500 {
            span.record("otel.status_code", "ERROR");
        }
    }
}

fn attribute(span: &Span, name: &'static str, value: impl Into<Value>) {
    use tracing_opentelemetry::OpenTelemetrySpanExt as _;
    span.set_attribute(name, value);
}

/// Sends on the server's own threads for the one that makes batches, and says once when that fails
/// and once when it works again.
#[derive(Debug)]
struct Sender {
    client: reqwest::Client,
    runtime: Handle,
    failing: AtomicBool,
}

#[async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let sent = self.runtime.spawn(async move {
            let answer = client.execute(request.try_into()?).await?;
            let status = answer.status();
            let mut response = Response::new(answer.bytes().await?);
            *response.status_mut() = status;
            Ok::<_, reqwest::Error>(response)
        });
        let sent: Result<_, HttpError> = match sent.await {
            Ok(answer) => answer.map_err(Into::into),
            Err(stopped) => Err(stopped.into()),
        };
        let problem = match &sent {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(answer.status().to_string()),
            Err(error) => Some(error.to_string()),
        };
        let was_failing = self.failing.swap(problem.is_some(), Ordering::Relaxed);
        match problem {
            Some(problem) if !was_failing => {
                tracing::warn!(
                    problem,
                    "the collector takes no spans; they are dropped until it does"
                );
            }
            None if was_failing => tracing::info!("the collector takes spans again"),
            Some(_) | None => {}
        }
        sent
    }
}
