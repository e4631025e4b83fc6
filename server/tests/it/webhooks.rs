//! Telling others: what happened is said once, signed, tried again, and logged.

use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use protocol::Outcome;
use server::tasks::deliver::{client, deliver_due, watch_gates};
use server::webhooks::Webhooks;
use sqlx::PgPool;

use super::builders::run;
use super::harness::{Options, World, scenario_with};

/// What a listener heard: headers and body; and what it answers.
#[derive(Clone, Default)]
struct Heard {
    calls: Arc<Mutex<Vec<(HeaderMap, String)>>>,
    answer: Arc<Mutex<u16>>,
}

async fn listen() -> (String, Heard) {
    let heard = Heard::default();
    *heard.answer.lock().unwrap() = 200;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/hook", listener.local_addr().unwrap());
    let hear = async |State(heard): State<Heard>, headers: HeaderMap, body: String| {
        heard.calls.lock().unwrap().push((headers, body));
        StatusCode::from_u16(*heard.answer.lock().unwrap()).unwrap()
    };
    let router = axum::Router::new().route("/hook", post(hear)).with_state(heard.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, heard)
}

fn options(address: &str, events: &str) -> Options {
    let text = format!(
        "[[webhook]]\nname = \"chat\"\nurl = \"{address}\"\nsecret = \"0123456789abcdef\"\n\
         events = [{events}]\n"
    );
    let gate = "title = \"t\"\n[[rule]]\nname = \"r\"\nsuite = \"operators\"\ndevice = \"tpu\"\n\
                planned_min = 1\nnew_fail_max = 0\nstale_hours = 10000\n";
    Options {
        webhooks: Webhooks::parse("w.toml", &text).unwrap(),
        gates: vec![("nightly", gate.to_owned())],
        ..Options::default()
    }
}

fn said(heard: &Heard) -> Vec<serde_json::Value> {
    let calls = heard.calls.lock().unwrap();
    calls.iter().map(|(_, body)| serde_json::from_str(body).unwrap()).collect()
}

async fn log(world: &World) -> Vec<serde_json::Value> {
    let request = world.authorized(reqwest::Method::GET, "/api/v1/webhooks/deliveries");
    world.send(request).await.json()["deliveries"].as_array().unwrap().clone()
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn what_happened_is_told_once_and_signed(pool: PgPool) {
    let (address, heard) = listen().await;
    let options = options(&address, "\"run.sealed\", \"regression\", \"gate.changed\"");
    scenario_with(pool, options, async |world| {
        let client = client().unwrap();
        let deliver = async || deliver_due(&world.state, &client).await.unwrap();
        watch_gates(&world.state).await.unwrap();
        let n1 = run("n1").started("2026-11-29T02:00:00Z").passes("a").passes("b");
        world.finish_run(&n1).await;
        world.seal(&n1, 2).await;
        watch_gates(&world.state).await.unwrap();
        world.finish_run(&run("n2").passes("a").observes("b", Outcome::Crash)).await;
        watch_gates(&world.state).await.unwrap();
        watch_gates(&world.state).await.unwrap();
        assert_eq!(deliver().await, 5);
        assert_eq!(deliver().await, 0, "each is told once");
        let said = said(&heard);
        let events: Vec<&str> = said.iter().map(|body| body["event"].as_str().unwrap()).collect();
        let expected = ["run.sealed", "gate.changed", "run.sealed", "regression", "gate.changed"];
        assert_eq!(events, expected);
        assert_eq!(said[0]["run"], "n1");
        assert_eq!(said[0]["page"], "http://conformance.test/runs/n1");
        assert_eq!(said[1]["before"], "incomplete");
        assert_eq!(said[1]["answer"], "open");
        assert_eq!(said[3]["regressed"], 1);
        assert_eq!(said[3]["cases"][0]["baseline_run"], "n1");
        assert_eq!(said[4]["answer"], "closed");
        let (headers, body) = heard.calls.lock().unwrap()[0].clone();
        let delivery: i64 = headers["x-conformance-delivery"].to_str().unwrap().parse().unwrap();
        let expected = world.state.webhooks.find("chat").unwrap().sign(delivery, &body);
        assert_eq!(headers["x-conformance-signature"], expected.as_str());
        assert_eq!(headers["x-conformance-event"], "run.sealed");
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn who_does_not_answer_is_told_again_and_then_given_up(pool: PgPool) {
    let (address, heard) = listen().await;
    scenario_with(pool, options(&address, "\"run.sealed\""), async |world| {
        let client = client().unwrap();
        *heard.answer.lock().unwrap() = 503;
        world.finish_run(&run("n1").passes("a")).await;
        assert_eq!(deliver_due(&world.state, &client).await.unwrap(), 0);
        assert_eq!(deliver_due(&world.state, &client).await.unwrap(), 0, "not before its time");
        assert_eq!(heard.calls.lock().unwrap().len(), 1);
        let logged = log(&world).await;
        assert_eq!(logged[0]["status"], 503);
        assert_eq!(logged[0]["tries"], 1);
        assert!(logged[0]["next_try_at"].is_string(), "{}", logged[0]);
        *heard.answer.lock().unwrap() = 204;
        world.set_now("2026-11-30T12:00:16Z");
        assert_eq!(deliver_due(&world.state, &client).await.unwrap(), 1);
        let logged = log(&world).await;
        assert_eq!(logged[0]["problem"], serde_json::json!(null));
        assert!(logged[0]["delivered_at"].is_string() && logged[0]["next_try_at"].is_null());

        *heard.answer.lock().unwrap() = 500;
        world.finish_run(&run("n2").passes("a")).await;
        for hour in 0..60 {
            world.set_now(&format!("2026-12-{:02}T{:02}:00:00Z", 1 + hour / 6, hour % 6 * 4));
            deliver_due(&world.state, &client).await.unwrap();
        }
        let logged = log(&world).await;
        assert_eq!(logged[0]["tries"], 12);
        assert!(logged[0]["next_try_at"].is_null() && logged[0]["delivered_at"].is_null());
        // Of another scope, or of none, the log is not read.
        world.get("/api/v1/webhooks/deliveries").await.refusal(401);
    })
    .await;
}
