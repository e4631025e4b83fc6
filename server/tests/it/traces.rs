//! Spans at a collector: what arrives there, and that nobody needs it to.

use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tokio::sync::mpsc;

use super::harness::client;
use super::programs::{Data, Server};

/// A collector, and the spans that it gets.
async fn collector() -> (String, mpsc::UnboundedReceiver<Span>) {
    let (spans, received) = mpsc::unbounded_channel();
    let take = move |body: Bytes| async move {
        let request = ExportTraceServiceRequest::decode(body).unwrap();
        for of_resource in request.resource_spans {
            let attributes = of_resource.resource.unwrap().attributes;
            assert!(attributes.iter().any(|pair| pair.key == "service.name"));
            for span in of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                let _ = spans.send(span);
            }
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let app = Router::new().route("/v1/traces", post(take));
    tokio::spawn(async move { axum::serve(listener, app).await });
    (address, received)
}

fn attribute(span: &Span, name: &str) -> Option<Value> {
    let pair = span.attributes.iter().find(|pair| pair.key == name)?;
    pair.value.clone()?.value
}

async fn start(endpoint: String) -> (Data, Server) {
    let start = move || {
        let data = Data::new();
        let server = Server::start_with(&data, &["--otlp-endpoint", &endpoint]);
        (data, server)
    };
    tokio::task::spawn_blocking(start).await.unwrap()
}

async fn ask(server: &Server, path: &str) -> (u16, String) {
    let answer = client().get(format!("http://{}{path}", server.address)).send().await.unwrap();
    let id = answer.headers()["x-request-id"].to_str().unwrap().to_owned();
    (answer.status().as_u16(), id)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_gets_the_span_of_a_request_with_its_id() {
    let (endpoint, mut received) = collector().await;
    let (data, server) = start(endpoint).await;
    let (status, id) = ask(&server, "/api/v1/runs/nosuch").await;
    assert_eq!(status, 404);
    let text = |text: &str| Some(Value::StringValue(text.to_owned()));
    let span = loop {
        let next = tokio::time::timeout(Duration::from_secs(30), received.recv());
        let span = next.await.expect("it arrives").unwrap();
        if attribute(&span, "id") == text(&id) {
            break span;
        }
    };
    assert_eq!(span.name, "GET /api/v1/runs/{run}");
    assert_eq!(span.kind, 2, "the kind `server`");
    assert_eq!(attribute(&span, "http.route"), text("/api/v1/runs/{run}"));
    assert_eq!(attribute(&span, "path"), text("/api/v1/runs/nosuch"));
    assert_eq!(attribute(&span, "http.response.status_code"), Some(Value::IntValue(404)));
    assert!(span.end_time_unix_nano > span.start_time_unix_nano);

    // What is left is sent at the end.
    let (_, last) = ask(&server, "/healthz").await;
    tokio::task::spawn_blocking(move || server.stop()).await.unwrap();
    let mut ids = Vec::new();
    while let Ok(span) = received.try_recv() {
        ids.push(attribute(&span, "id"));
    }
    assert!(ids.contains(&text(&last)), "{ids:?}");
    drop(data);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_or_never_answers_hurts_no_request() {
    // Takes connections, and says nothing.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    for endpoint in
        ["http://127.0.0.1:1".to_owned(), format!("http://{}", silent.local_addr().unwrap())]
    {
        let (data, server) = start(endpoint.clone()).await;
        // More than the queue of spans holds.
        let began = Instant::now();
        let client = client();
        for _ in 0..30 {
            let mut requests = tokio::task::JoinSet::new();
            for _ in 0..100 {
                let request = client.get(format!("http://{}/healthz", server.address));
                requests.spawn(async move { request.send().await.unwrap().status().as_u16() });
            }
            while let Some(status) = requests.join_next().await {
                assert_eq!(status.unwrap(), 200);
            }
        }
        if endpoint.ends_with(":1") {
            while !server.log.lock().unwrap().contains("the collector takes no spans") {
                assert!(
                    began.elapsed() < Duration::from_secs(30),
                    "{}",
                    server.log.lock().unwrap()
                );
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            let warnings = server.log.lock().unwrap().matches("takes no spans").count();
            assert_eq!(warnings, 1, "it is said once");
        }
        let stopping = Instant::now();
        tokio::task::spawn_blocking(move || server.stop()).await.unwrap();
        assert!(stopping.elapsed() < Duration::from_secs(20), "{:?}", stopping.elapsed());
        drop(data);
    }
}
