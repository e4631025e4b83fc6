//! Taking in runs: idempotent, all or nothing, and refusing what is wrong by name.

use async_compression::tokio::write::{GzipEncoder, ZstdEncoder};
use protocol::Outcome;
use reqwest::{Method, StatusCode};
use serde_json::json;
use sqlx::PgPool;
use tokio::io::AsyncWriteExt as _;

use super::builders::run;
use super::harness::{Options, World, scenario, scenario_with};

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn the_same_announcement_20_times_at_once_makes_one_run(pool: PgPool) {
    // TRIALS S01.
    scenario(pool, async |world| {
        let script = run("r1");
        let answers =
            futures_util::future::join_all((0..20).map(|_| world.announce(&script))).await;
        let created = answers.iter().filter(|a| a.status == StatusCode::CREATED).count();
        assert_eq!(created, 1);
        assert!(answers.iter().all(|a| a.status.is_success()));
        assert!(answers.iter().all(|a| a.json()["page"] == "/runs/r1"));
        assert_eq!(world.count("SELECT count(*) FROM runs").await, 1);
        let other = script.on("cuda");
        let refusal = world.announce(&other).await.refusal(409);
        assert!(refusal.contains("run `r1` exists with another body"), "{refusal}");
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn shards_that_began_at_different_times_add_to_one_run(pool: PgPool) {
    scenario(pool, async |world| {
        let first = run("r1").passes("relu").plans("add");
        let second = run("r1").plans("relu").passes("add").started("2026-11-30T02:30:00Z");
        for shard in [&first, &second] {
            assert!(world.announce(shard).await.status.is_success());
            assert!(world.plan(shard).await.status.is_success());
            assert!(world.deliver(shard).await.status.is_success());
        }
        assert_eq!(world.count("SELECT count(*) FROM runs").await, 1);
        assert_eq!(world.count("SELECT count(*) FROM attempts").await, 2);
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_whole_run_sent_again_changes_nothing(pool: PgPool) {
    scenario(pool, async |world| {
        let script = run("r1")
            .passes("relu")
            .observes("fft", Outcome::Unsupported)
            .observes("fft", Outcome::Unsupported)
            .plans("add");
        let first = world.finish_run(&script).await;
        let rows = "SELECT (SELECT count(*) FROM attempts) * 1000000
                    + (SELECT count(*) FROM manifest_entries) * 10000
                    + (SELECT count(*) FROM case_verdicts) * 100
                    + (SELECT count(*) FROM signatures)";
        let before = world.count(rows).await;
        assert_eq!(before, 3_030_301);
        let answer = world.deliver(&script).await;
        assert_eq!(answer.json(), json!({"stored": 0, "replayed": 3}));
        let again = world.finish_run(&script).await;
        assert_eq!(again, first);
        assert_eq!(
            first,
            json!({"completeness": "incomplete", "planned": 3, "judged": 2, "missing": 1})
        );
        assert_eq!(world.count(rows).await, before);
        world.check_tallies().await;
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn the_same_batch_many_times_at_once_is_stored_once(pool: PgPool) {
    scenario_with(pool, Options { ingest_limit: Some(64), ..Options::default() }, async |world| {
        let mut script = run("r1");
        for number in 0..50 {
            script = script.observes(&format!("c{number}"), Outcome::ALL[number % 8]);
        }
        world.start_run(&script).await;
        let halves = [script.slice(0, 30), script.slice(20, 30)];
        let sends = (0..12).map(|n| world.deliver(&halves[n % 2]));
        let answers = futures_util::future::join_all(sends).await;
        let stored: u64 = answers
            .iter()
            .map(|answer| {
                assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
                answer.json()["stored"].as_u64().unwrap()
            })
            .sum();
        assert_eq!(stored, 50);
        assert_eq!(world.count("SELECT count(*) FROM attempts").await, 50);
        assert_eq!(world.count("SELECT attempts FROM runs").await, 50);
        world.check_tallies().await;
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn another_body_under_the_same_attempt_is_refused_and_nothing_of_the_batch_stays(
    pool: PgPool,
) {
    scenario(pool, async |world| {
        let script = run("r1").passes("relu").plans("add");
        world.start_run(&script).await;
        world.deliver(&script).await;
        let clash = run("r1").observes("relu", Outcome::Crash).passes("add");
        let refusal = world.deliver(&clash).await.refusal(409);
        assert!(refusal.contains("attempt 1 at `operators/opinfo:relu#0"), "{refusal}");
        assert_eq!(world.count("SELECT count(*) FROM attempts").await, 1);
        let twice = script.slice(0, 1);
        let mut request = twice.results();
        request.results.push(clash.results().results[0].clone());
        let answer = world.post_json(&script.path("/results"), &request).await;
        answer.refusal(409);
        assert_eq!(world.verdicts(&script).await[0].1, "passed");
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_lost_batch_keeps_the_run_from_being_sealed(pool: PgPool) {
    // TRIALS S02.
    scenario(pool, async |world| {
        let mut script = run("r1");
        for number in 0..30 {
            script = script.passes(&format!("c{number}"));
        }
        world.start_run(&script).await;
        world.deliver(&script.slice(0, 10)).await;
        world.deliver(&script.slice(20, 10)).await;
        let refusal = world.seal(&script, 30).await.refusal(409);
        assert!(refusal.contains("has 20 attempts here, and the seal says 30"), "{refusal}");
        assert_eq!(world.get_json("/api/v1/runs/r1").await["state"], "running");
        world.deliver(&script.slice(10, 10)).await;
        let sealed = world.seal(&script, 30).await;
        assert_eq!(sealed.json()["completeness"], "complete");
        assert_eq!(world.seal(&script, 30).await.json(), sealed.json(), "it can be repeated");
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn the_manifest_is_what_may_be_reported(pool: PgPool) {
    scenario(pool, async |world| {
        let script = run("r1").passes("relu");
        let refusal = world.plan(&script).await.refusal(404);
        assert!(refusal.contains("there is no run `r1`"), "{refusal}");
        world.announce(&script).await;
        let refusal = world.deliver(&script).await.refusal(409);
        assert!(refusal.contains("has no manifest yet"), "{refusal}");
        world.seal(&script, 0).await.refusal(409);
        world.plan(&script).await;

        let stranger = run("r1").passes("relu").passes("exp").passes("log");
        let refusal = world.deliver(&stranger).await.refusal(400);
        assert!(refusal.contains("opinfo:exp#0"), "{refusal}");
        assert!(refusal.contains("2 of 3 cases are not"), "{refusal}");
        assert_eq!(world.count("SELECT count(*) FROM attempts").await, 0);
        let refusal = world.plan(&stranger).await.refusal(409);
        assert!(refusal.contains("has another manifest"), "{refusal}");
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_manifest_that_contradicts_itself_is_refused(pool: PgPool) {
    scenario(pool, async |world| {
        let script = run("r1").plans("relu").plans("add");
        world.announce(&script).await;
        let path = script.path("/manifest");
        let mut wrong_hash = script.manifest();
        wrong_hash.hash = "0".repeat(64);
        let mut twice = script.manifest();
        twice.cases.push(twice.cases[0].clone());
        let mut empty = script.manifest();
        empty.cases.clear();
        let foreign = script.clone().of(protocol::Suite::Tier1).bare().plans("m").manifest();
        for (request, problem) in [
            (wrong_hash, "`hash` is not the SHA-256"),
            (twice, "opinfo:relu#0/float32.eager.forward` twice"),
            (empty, "`cases` is empty"),
            (foreign, "of suite `tier1`, which run `r1` did not announce"),
        ] {
            let refusal = world.put_json(&path, &request).await.refusal(400);
            assert!(refusal.contains(problem), "{refusal}");
        }
        assert_eq!(world.count("SELECT count(*) FROM manifest_entries").await, 0);
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_bare_nan_is_refused_naming_the_field(pool: PgPool) {
    // TRIALS P01.
    scenario(pool, async |world| {
        let script = run("r1").observes("relu", Outcome::Mismatch);
        world.start_run(&script).await;
        let good = serde_json::to_string(&script.results()).unwrap();
        let path = script.path("/results");
        let send = async |body: String| {
            let request = world.authorized(Method::POST, &path).body(body);
            world.send(request).await
        };
        for (from, to, named) in [
            ("\"seconds\":0.25", "\"seconds\":NaN", "results[0].seconds"),
            ("\"seconds\":0.25", "\"seconds\":-1", "results[0].seconds"),
            ("\"seconds\":0.25", "\"seconds\":1e999", "results[0].seconds"),
            ("2026-11-30T02:00:01Z", "-9999-11-30T02:00:01Z", "results[0].started_at"),
            ("\"outcome\":\"mismatch\"", "\"outcome\":\"passed\"", "results[0].outcome"),
            ("\"attempt\":1", "\"attempt\":0", "results[0].attempt"),
            ("\"attempt\":1", "\"attempt\":4000000000", "results[0].attempt"),
            ("\"device_used\"", "\"device_abused\"", "results[0].evidence"),
            ("operators/opinfo", "nosuite/opinfo", "results[0].case"),
            ("{\"results\"", "{\"x\":1,\"results\"", "x"),
            ("]}", "]} x", "goes on after its end"),
        ] {
            let bad = good.replacen(from, to, 1);
            assert_ne!(bad, good, "{from}");
            let refusal = send(bad).await.refusal(400);
            assert!(refusal.contains(named), "{to}: {refusal}");
        }
        assert_eq!(world.count("SELECT count(*) FROM attempts").await, 0);
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn non_finite_figures_and_minus_zero_come_back_as_they_were_sent(pool: PgPool) {
    // TRIALS P01; the recorded message has inf, nan, -inf and -0.0 in it.
    scenario(pool, async |world| {
        let wire = |name: &str| {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../protocol/tests/wire/");
            std::fs::read_to_string(format!("{folder}{name}.json")).unwrap()
        };
        let send = async |method: Method, path: &str, name: &str| {
            let request = world.authorized(method, path).body(wire(name));
            let answer = world.send(request).await;
            assert!(answer.status.is_success(), "{name}: {}", answer.text);
            answer.json()
        };
        let run = "/api/v1/runs/20261130-051145-tpu-sim-7f3a2b";
        let read = |name: &str| serde_json::from_str::<serde_json::Value>(&wire(name)).unwrap();
        let created = send(Method::POST, "/api/v1/runs", "create_run.request").await;
        assert_eq!(created, read("create_run.response"));
        let planned = send(Method::PUT, &format!("{run}/manifest"), "put_manifest.request").await;
        assert_eq!(planned, read("put_manifest.response"));
        let stored = send(Method::POST, &format!("{run}/results"), "post_results.request").await;
        assert_eq!(stored, read("post_results.response"));
        let sealed = send(Method::POST, &format!("{run}/seal"), "seal_run.request").await;
        assert_eq!(sealed, read("seal_run.response"));

        let sent = read("post_results.request");
        let case = sent["results"][0]["case"].as_str().unwrap();
        let query = percent_encoding::utf8_percent_encode(case, percent_encoding::NON_ALPHANUMERIC);
        let answer = world.get(&format!("{run}/attempts?case={query}")).await;
        assert!(answer.text.contains("\"worst_expected\":-0.0"), "{}", answer.text);
        let evidence = &answer.json()["attempts"][0]["evidence"];
        assert_eq!(evidence, &sent["results"][0]["evidence"]);
    })
    .await;
}

async fn send_encoded(
    world: &World,
    path: &str,
    encoding: &str,
    body: Vec<u8>,
) -> super::harness::Answer {
    let request = world.authorized(Method::POST, path).header("content-encoding", encoding);
    world.send(request.body(body)).await
}

async fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzipEncoder::new(Vec::new());
    encoder.write_all(text).await.unwrap();
    encoder.shutdown().await.unwrap();
    encoder.into_inner()
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn compressed_bodies_are_read_and_a_cut_one_is_refused_whole(pool: PgPool) {
    // TRIALS S03: a batch whose gzip was cut short.
    scenario(pool, async |world| {
        let script = run("r1").passes("relu").passes("add");
        world.start_run(&script).await;
        let path = script.path("/results");
        let text = serde_json::to_vec(&script.results()).unwrap();
        let zipped = gzip(&text).await;
        let cut = zipped[..zipped.len() - 20].to_vec();
        let refusal = send_encoded(&world, &path, "gzip", cut).await.refusal(400);
        assert!(refusal.contains("cannot be read"), "{refusal}");
        send_encoded(&world, &path, "gzip", b"not gzip".to_vec()).await.refusal(400);
        send_encoded(&world, &path, "br", zipped.clone()).await.refusal(415);
        assert_eq!(world.count("SELECT count(*) FROM attempts").await, 0);
        let answer = send_encoded(&world, &path, "gzip", zipped).await;
        assert_eq!(answer.json(), json!({"stored": 2, "replayed": 0}));
        let mut encoder = ZstdEncoder::new(Vec::new());
        encoder.write_all(&text).await.unwrap();
        encoder.shutdown().await.unwrap();
        let answer = send_encoded(&world, &path, "zstd", encoder.into_inner()).await;
        assert_eq!(answer.json(), json!({"stored": 0, "replayed": 2}));
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_body_over_the_limit_is_refused_also_when_it_was_small_on_the_way(pool: PgPool) {
    scenario(pool, async |world| {
        let script = run("r1").passes("relu");
        world.start_run(&script).await;
        let path = script.path("/results");
        let big = vec![b' '; protocol::ingest_api::MAX_BODY_BYTES + 1];
        let zipped = gzip(&big).await;
        assert!(zipped.len() < 100_000);
        send_encoded(&world, &path, "gzip", zipped).await.refusal(413);
        let request = world.authorized(Method::POST, &path).body(big);
        world.send(request).await.refusal(413);
        let mut many = script.results();
        many.results = vec![many.results[0].clone(); protocol::ingest_api::MAX_BATCH_RESULTS + 1];
        let refusal = world.post_json(&path, &many).await.refusal(400);
        assert!(refusal.contains("1001 attempts"), "{refusal}");
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn under_pressure_the_answer_is_429_with_the_time_to_come_back(pool: PgPool) {
    scenario_with(pool, Options { ingest_limit: Some(1), ..Options::default() }, async |world| {
        let script = run("r1").passes("relu");
        world.start_run(&script).await;
        let taken = world.state.ingest_room.clone().acquire_owned().await.unwrap();
        let answer = world.deliver(&script).await;
        answer.refusal(429);
        assert_eq!(answer.headers["retry-after"], "1");
        drop(taken);
        assert_eq!(world.deliver(&script).await.status, StatusCode::OK);
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn hostile_text_is_stored_as_text(pool: PgPool) {
    // TRIALS S15, as far as the API goes; and what PostgreSQL cannot store.
    scenario(pool, async |world| {
        let markup = "<img src=x onerror=alert(1)>\u{0}\u{1b}[31m";
        let script = run("r1").observes_with("relu", Outcome::Error, |attempt| {
            attempt.message = format!("{markup}{}", "é".repeat(2_000));
            attempt.error_class = "E\u{0}".to_owned();
            attempt.evidence.log.head = markup.to_owned();
            attempt.evidence.traceback = "\u{0}\u{feff}".to_owned();
        });
        world.finish_run(&script).await;
        let answer = world.get(&script.path("/cases")).await;
        assert_eq!(answer.headers["content-type"], "application/json");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        let case = &answer.json()["cases"][0];
        let message = case["message"].as_str().unwrap();
        assert!(message.starts_with("<img src=x onerror=alert(1)>\u{fffd}"), "{message}");
        assert!(message.len() <= 1024);
        assert_eq!(case["error_class"], "E\u{fffd}");
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn an_announcement_must_make_sense(pool: PgPool) {
    scenario(pool, async |world| {
        let good = run("r1").announcement();
        let change = |change: &dyn Fn(&mut protocol::ingest_api::create_run::Request)| {
            let mut request = good.clone();
            change(&mut request);
            request
        };
        for (request, problem) in [
            (change(&|r| r.protocol_version = 2), "`protocol_version` is 2"),
            (change(&|r| r.suites.clear()), "`suites` is empty"),
            (change(&|r| r.device_profile = "<b>".to_owned()), "`device_profile` is not"),
            (change(&|r| r.simulated = true), "`simulated` is true, which `tpu` never is"),
            (change(&|r| r.device_profile = "tpu-sim".to_owned()), "`simulated` is false"),
            (
                change(&|r| r.started_at = super::harness::at("2026-12-24T00:00:00Z")),
                "and here it is",
            ),
            (
                change(&|r| r.started_at = super::harness::at("1970-01-01T00:00:00Z")),
                "no clock shows",
            ),
            (change(&|r| r.host = "h".repeat(300)), "`device_kind` or `host` is too long"),
            (
                change(&|r| r.labels = (0..101).map(|n| (n.to_string(), String::new())).collect()),
                "`labels` has too many",
            ),
        ] {
            let refusal = world.post_json("/api/v1/runs", &request).await.refusal(400);
            assert!(refusal.contains(problem), "{refusal}");
        }
        let request = change(&|r| {
            r.host = "h\u{0}".to_owned();
            r.versions.insert("torch\u{0}".to_owned(), "\u{0}".to_owned());
        });
        let answer = world.post_json("/api/v1/runs", &request).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text);
    })
    .await;
}
