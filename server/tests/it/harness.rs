//! A running server with its database, and what a test does with it.
//!
//! A test body is the story; start, stop, and "the server died first" are here. A scenario fails
//! when the server answered 5xx anywhere, unless the test said that it expects that.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use chrono::{DateTime, Utc};
use protocol::ingest_api::{create_run, post_results, put_manifest, seal_run};
use reqwest::{Method, StatusCode};
use serde_json::Value;
use server::app::{self, AppState, Settings};
use server::args::Reads;
use server::clock::Clock;
use server::db::{Db, tokens};
use server::gates::Gates;
use sqlx::PgPool;
use tokio_util::sync::CancellationToken;

use super::builders::Script;

/// The present, until a test moves it.
pub(crate) const NOW: &str = "2026-11-30T12:00:00Z";

/// What a test may choose before the server starts.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// Gates, by name and text.
    pub(crate) gates: Vec<(&'static str, String)>,
    /// Whether reading needs a token.
    pub(crate) private: bool,
    /// Room for requests with results.
    pub(crate) ingest_limit: Option<usize>,
    /// Who is told what happened.
    pub(crate) webhooks: server::webhooks::Webhooks,
    /// How popular models are.
    pub(crate) popularity: server::popularity::Popularity,
    /// Requests that one token may make in a minute.
    pub(crate) token_requests_per_minute: Option<std::num::NonZeroU32>,
    /// Unknown tokens that one address may try in a minute.
    pub(crate) unknown_tokens_per_minute: Option<std::num::NonZeroU32>,
}

/// A running server.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) url: String,
    pub(crate) pool: PgPool,
    pub(crate) state: AppState,
    token: String,
    client: reqwest::Client,
    now: Arc<AtomicI64>,
    server_errors: Arc<AtomicU64>,
}

/// An answer, read.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {}", self.text))
    }

    /// The title of an error, after checking that all of its fields are there.
    #[track_caller]
    pub(crate) fn refusal(&self, status: u16) -> String {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        let body: protocol::ingest_api::ErrorBody = serde_json::from_str(&self.text).unwrap();
        assert_eq!(body.status, status);
        assert!(!body.hint.is_empty() && !body.request_id.is_empty(), "{body:?}");
        format!("{} / {}", body.title, body.hint)
    }
}

/// An HTTP client.
pub(crate) fn client() -> reqwest::Client {
    static CRYPTO: Once = Once::new();
    CRYPTO.call_once(|| {
        rustls::crypto::ring::default_provider().install_default().expect("nobody else does");
    });
    reqwest::Client::new()
}

pub(crate) async fn scenario(pool: PgPool, story: impl AsyncFnOnce(World)) {
    scenario_with(pool, Options::default(), story).await;
}

pub(crate) async fn scenario_with(pool: PgPool, options: Options, story: impl AsyncFnOnce(World)) {
    let now = Arc::new(AtomicI64::new(at(NOW).timestamp_micros()));
    let shared = now.clone();
    let clock = Clock::from_fn(move || {
        DateTime::from_timestamp_micros(shared.load(Ordering::Relaxed)).unwrap()
    });
    let mut gates = Gates::default();
    for (name, text) in &options.gates {
        gates.add(name, &format!("{name}.toml"), text).unwrap();
    }
    let settings = Settings {
        public_url: "http://conformance.test".to_owned(),
        reads: if options.private { Reads::Token } else { Reads::Public },
        ingest_limit: options.ingest_limit.unwrap_or(8),
        token_requests_per_minute: options
            .token_requests_per_minute
            .unwrap_or(std::num::NonZeroU32::MAX),
        unknown_tokens_per_minute: options
            .unknown_tokens_per_minute
            .unwrap_or(std::num::NonZeroU32::MAX),
        client_address_header: None,
    };
    let token = tokens::new_secret();
    let scopes = [tokens::Scope::Ingest, tokens::Scope::Triage, tokens::Scope::Admin];
    assert!(tokens::create(&pool, "scripted", &token, &scopes).await.unwrap());
    let state = AppState::new(Db::new(pool.clone()), clock, gates, settings)
        .with_webhooks(options.webhooks.clone())
        .with_popularity(options.popularity);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let stop = CancellationToken::new();
    let server =
        tokio::spawn(app::serve(listener, state.clone(), stop.clone(), Duration::from_secs(5)));
    let server_errors = Arc::new(AtomicU64::new(0));
    let world = World {
        url,
        pool,
        state,
        token,
        client: client(),
        now,
        server_errors: server_errors.clone(),
    };
    story(world).await;
    assert!(!server.is_finished(), "the server ended before the test did");
    assert_eq!(server_errors.load(Ordering::Relaxed), 0, "the server answered 5xx");
    stop.cancel();
    server.await.unwrap().unwrap();
}

pub(crate) fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

impl World {
    pub(crate) fn set_now(&self, text: &str) {
        self.now.store(at(text).timestamp_micros(), Ordering::Relaxed);
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url))
    }

    pub(crate) fn authorized(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.request(method, path).bearer_auth(&self.token)
    }

    pub(crate) async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        if status.is_server_error() {
            self.server_errors.fetch_add(1, Ordering::Relaxed);
        }
        Answer { status, headers, text: response.text().await.unwrap() }
    }

    /// What the test is about is a 5xx.
    pub(crate) fn expect_server_error(&self) {
        self.server_errors.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path)).await
    }

    #[track_caller]
    pub(crate) fn get_json(&self, path: &str) -> impl Future<Output = Value> {
        let (world, path) = (self.clone(), path.to_owned());
        async move {
            let answer = world.get(&path).await;
            assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
            answer.json()
        }
    }

    pub(crate) async fn put_json(&self, path: &str, body: &impl serde::Serialize) -> Answer {
        self.send(self.authorized(Method::PUT, path).json(body)).await
    }

    pub(crate) async fn post_json(&self, path: &str, body: &impl serde::Serialize) -> Answer {
        self.send(self.authorized(Method::POST, path).json(body)).await
    }

    pub(crate) async fn announce(&self, script: &Script) -> Answer {
        let request: create_run::Request = script.announcement();
        self.post_json("/api/v1/runs", &request).await
    }

    pub(crate) async fn plan(&self, script: &Script) -> Answer {
        let request: put_manifest::Request = script.manifest();
        self.put_json(&script.path("/manifest"), &request).await
    }

    pub(crate) async fn deliver(&self, script: &Script) -> Answer {
        let request: post_results::Request = script.results();
        self.post_json(&script.path("/results"), &request).await
    }

    pub(crate) async fn seal(&self, script: &Script, attempts: u64) -> Answer {
        let source = script.source();
        let request = seal_run::Request { source, attempts, finished_at: at(NOW) };
        self.post_json(&script.path("/seal"), &request).await
    }

    /// Announced and planned.
    pub(crate) async fn start_run(&self, script: &Script) {
        let answer = self.announce(script).await;
        assert!(answer.status.is_success(), "{}", answer.text);
        let answer = self.plan(script).await;
        assert!(answer.status.is_success(), "{}", answer.text);
    }

    /// All of it: announced, planned, delivered, sealed.
    pub(crate) async fn finish_run(&self, script: &Script) -> Value {
        self.start_run(script).await;
        let answer = self.deliver(script).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        let answer = self.seal(script, script.results().results.len() as u64).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        answer.json()
    }

    /// Verdict of each case of a run, by the short names of the script.
    pub(crate) async fn verdicts(&self, script: &Script) -> Vec<(String, String)> {
        let body = self.get_json(&script.path("/cases?limit=1000")).await;
        let cases = body["cases"].as_array().unwrap();
        let text = |case: &Value, field: &str| case[field].as_str().unwrap().to_owned();
        cases.iter().map(|c| (script.short(&text(c, "case")), text(c, "verdict"))).collect()
    }

    /// Verdict of the only case of a run.
    pub(crate) async fn verdict(&self, script: &Script) -> String {
        let verdicts = self.verdicts(script).await;
        assert_eq!(verdicts.len(), 1);
        verdicts[0].1.clone()
    }

    pub(crate) async fn gate(&self, name: &str, candidate: &str) -> Value {
        self.get_json(&format!("/api/v1/gates/{name}?candidate={candidate}")).await
    }

    /// Tallies must be what the verdicts add up to.
    pub(crate) async fn check_tallies(&self) {
        let mismatches = "SELECT count(*) FROM (
                 SELECT v.run_id, c.suite, v.verdict, count(*) AS cases
                 FROM case_verdicts v JOIN cases c ON c.id = v.case_id GROUP BY 1, 2, 3
             ) counted FULL JOIN (SELECT * FROM run_tallies WHERE cases > 0) t
               USING (run_id, suite, verdict)
             WHERE counted.cases IS DISTINCT FROM t.cases";
        assert_eq!(self.count(mismatches).await, 0, "tallies differ from verdicts");
        let untouched = "SELECT count(*) FROM (
                 SELECT run_id, case_id, array_agg(operator_id ORDER BY operator_id) AS operators
                 FROM operator_cases GROUP BY run_id, case_id
             ) touched FULL JOIN (SELECT * FROM case_verdicts WHERE operators <> '{}') v
               USING (run_id, case_id)
             WHERE touched.operators IS DISTINCT FROM v.operators";
        assert_eq!(
            self.count(untouched).await,
            0,
            "verdicts name other operators than were touched"
        );
        let stale = "WITH kept AS (
                 SELECT to_jsonb(s) AS row FROM run_subjects s JOIN runs r ON r.id = run_id
                 WHERE r.summarised
                 UNION ALL
                 SELECT to_jsonb(o) FROM run_overloads o JOIN runs r ON r.id = run_id
                 WHERE r.summarised
                 UNION ALL
                 SELECT to_jsonb(o) FROM run_overload_variants o JOIN runs r ON r.id = run_id
                 WHERE r.summarised
             ), counted AS (
                 SELECT to_jsonb(s) AS row FROM counted_subjects s JOIN runs r ON r.id = run_id
                 WHERE r.summarised
                 UNION ALL
                 SELECT to_jsonb(o) FROM counted_overloads o JOIN runs r ON r.id = run_id
                 WHERE r.summarised
                 UNION ALL
                 SELECT to_jsonb(o) FROM counted_overload_variants o JOIN runs r ON r.id = run_id
                 WHERE r.summarised
             )
             SELECT count(*) FROM (
                 (TABLE kept EXCEPT ALL TABLE counted) UNION ALL (TABLE counted EXCEPT ALL TABLE kept)
             ) AS differences";
        assert_eq!(self.count(stale).await, 0, "what is added up for pages differs from verdicts");
    }

    pub(crate) async fn count(&self, query: &'static str) -> i64 {
        sqlx::query_scalar(query).fetch_one(&self.pool).await.unwrap()
    }
}
