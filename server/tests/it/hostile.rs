//! Broken and hostile input: never a 5xx (the harness fails on one), never a part of a batch.

use std::fmt::Write as _;

use protocol::Outcome;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sqlx::PgPool;

use super::builders::run;
use super::harness::scenario;

/// A generator that gives the same numbers every time, so that a failure can be repeated.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

/// Pieces that have broken readers of JSON and writers of SQL before.
const PIECES: [&str; 18] = [
    "NaN",
    "-0",
    "1e999",
    "18446744073709551615",
    "-1",
    "null",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "[]",
    "{}",
    "\"",
    "'); DROP TABLE runs; --",
    "\u{feff}",
    "[[[[[[[[[[",
    "true",
    "1e-400",
    "\\",
    "/*",
];

pub(crate) fn mutate(text: &str, numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=numbers.below(3) {
        let place = numbers.below(bytes.len());
        match numbers.below(5) {
            0 => bytes[place] = u8::try_from(numbers.below(256)).unwrap(),
            1 => bytes.truncate(place.max(1)),
            2 => {
                let end = (place + numbers.below(40)).min(bytes.len());
                let piece = PIECES[numbers.below(PIECES.len())];
                bytes.splice(place..end, piece.bytes());
            }
            3 => {
                let end = (place + numbers.below(200)).min(bytes.len());
                let again = bytes[place..end].to_vec();
                bytes.splice(place..place, again);
            }
            _ => {
                bytes.remove(place);
            }
        }
        if bytes.is_empty() {
            bytes.push(b'{');
        }
    }
    bytes
}

/// Well-formed JSON in which one or two values are other ones, mostly of the same type.
fn exchange(text: &str, numbers: &mut Numbers) -> Vec<u8> {
    fn leaves(value: &Value, path: &str, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                for (key, inner) in map {
                    let key = key.replace('~', "~0").replace('/', "~1");
                    leaves(inner, &format!("{path}/{key}"), found);
                }
            }
            Value::Array(list) => {
                for (place, inner) in list.iter().enumerate() {
                    leaves(inner, &format!("{path}/{place}"), found);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                found.push(path.to_owned());
            }
        }
    }
    let mut value: Value = serde_json::from_str(text).unwrap();
    let mut found = Vec::new();
    leaves(&value, "", &mut found);
    for _ in 0..=numbers.below(2) {
        let leaf = value.pointer_mut(&found[numbers.below(found.len())]).unwrap();
        let texts = ["", "\u{0}", "<script>", "é".repeat(2_000).leak(), "aten::x\n", "../..", "'"];
        let figures = [json!(0), json!(1), json!(1e7), json!(u64::MAX), json!(-1), json!(1e300)];
        *leaf = match (&*leaf, numbers.below(8)) {
            (_, 0) => Value::Null,
            (Value::String(_), _) => json!(texts[numbers.below(texts.len())]),
            (Value::Number(_), _) => figures[numbers.below(figures.len())].clone(),
            (_, _) => json!([]),
        };
    }
    serde_json::to_vec(&value).unwrap()
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_mutilated_batch_is_stored_whole_or_refused_whole(pool: PgPool) {
    scenario(pool, async |world| {
        let mut numbers = Numbers(20_261_130);
        let mut taken = 0;
        for round in 0..200 {
            let mut script = run(&format!("r{round}")).passes("a");
            for name in ["b", "c"] {
                script = script.observes_with(name, Outcome::Crash, |attempt| {
                    attempt.operator = Some("aten::add.Tensor".to_owned());
                    attempt.evidence.operators = Some([("aten::mul.Tensor".to_owned(), 7)].into());
                    attempt.evidence.fallback_operators = vec!["aten::nonzero".to_owned()];
                    attempt.evidence.peak_memory_bytes = Some(4096);
                });
            }
            world.start_run(&script).await;
            let text = serde_json::to_string(&script.results()).unwrap();
            let path = script.path("/results");
            let change = if round % 3 == 0 { mutate } else { exchange };
            let request = world.authorized(Method::POST, &path).body(change(&text, &mut numbers));
            let answer = world.send(request).await;
            let stored = world.get_json(&script.path("")).await["attempts"].as_u64().unwrap();
            if answer.status == StatusCode::OK {
                taken += 1;
                assert_eq!(answer.json()["stored"], stored);
            } else {
                answer.refusal(answer.status.as_u16());
                assert_eq!(stored, 0, "{}", answer.text);
            }
            world.get_json(&script.path("/cases")).await;
            world.get_json(&format!("/api/v1/operators?run=r{round}")).await;
        }
        assert!((30..170).contains(&taken), "{taken} of 200 were still good");
        world.check_tallies().await;
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn hostile_addresses_are_refused(pool: PgPool) {
    scenario(pool, async |world| {
        world.finish_run(&run("r1").passes("a")).await;
        let nul = hex::encode("\u{0}");
        for path in [
            "/api/v1/runs?device=%00",
            "/api/v1/runs?cursor=00",
            "/api/v1/runs/%00",
            "/api/v1/runs/..%2f..%2fetc",
            "/api/v1/runs/r1/attempts?case=%00",
            "/api/v1/runs/r1/cases?verdict='%20OR%201=1",
            &format!("/api/v1/operators?run=r1&cursor={nul}"),
            &format!("/api/v1/models?run=r1&cursor={nul}"),
            "/api/v1/gates/..%2f..%2fCargo",
            "/api/v1/waivers?cursor=ff",
            &format!("/api/v1/runs?device={}", "x".repeat(5_000)),
        ] {
            let answer = world.get(path).await;
            let refused = answer.status.is_client_error();
            let empty =
                answer.status == StatusCode::OK && answer.json()["runs"] == serde_json::json!([]);
            assert!(refused || empty, "{path}: {} {}", answer.status, answer.text);
        }
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn counts_that_are_too_large_do_not_break_what_adds_them_up(pool: PgPool) {
    scenario(pool, async |world| {
        let mut script = run("r1");
        for name in ["a", "b", "c"] {
            script = script.observes_with(name, Outcome::Pass, |attempt| {
                attempt.evidence.operators = Some([("aten::x".to_owned(), u64::MAX)].into());
                attempt.seconds = 1e7;
            });
        }
        world.finish_run(&script).await;
        let body = world.get_json("/api/v1/operators").await;
        assert_eq!(body["operators"][0]["calls"], 3_000_000_000_000_i64);
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_body_nested_without_end_is_refused(pool: PgPool) {
    scenario(pool, async |world| {
        let script = run("r1").passes("a");
        world.start_run(&script).await;
        let mut body = String::new();
        for _ in 0..200_000 {
            body.write_str("{\"results\":[").unwrap();
        }
        let request = world.authorized(Method::POST, &script.path("/results")).body(body);
        world.send(request).await.refusal(400);
    })
    .await;
}
