//! Files that attempts left: kept once by their hash, named by attempts, never more than a download.

use protocol::Outcome;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use server::retention;
use sha2::{Digest as _, Sha256};
use sqlx::PgPool;

use super::builders::run;
use super::harness::{Answer, World, at, scenario};

pub(super) fn hash(contents: &[u8]) -> String {
    hex::encode(Sha256::digest(contents))
}

pub(super) async fn put(world: &World, hash: &str, contents: &[u8]) -> Answer {
    let path = format!("/api/v1/artifacts/{hash}");
    world.send(world.authorized(Method::PUT, &path).body(contents.to_vec())).await
}

fn link(case: &str, name: &str, hash: &str) -> Value {
    json!({ "artifacts": [{ "case": case, "attempt": 1, "name": name, "sha256": hash }] })
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_file_is_kept_once_and_only_ever_a_download(pool: PgPool) {
    scenario(pool, async |world| {
        // TRIALS S15: an attachment that is a page.
        let page = b"<html><script>alert(1)</script></html>";
        let hash = hash(page);
        let script = run("r1").observes("a", Outcome::Crash).passes("b");
        world.finish_run(&script).await;
        assert_eq!(put(&world, &hash, page).await.status, StatusCode::CREATED);
        assert_eq!(put(&world, &hash, page).await.status, StatusCode::OK);
        for case in ["a", "b"] {
            let body = link(script.case(case).as_str(), "report.html", &hash);
            for _ in 0..2 {
                let named = world.post_json("/api/v1/runs/r1/artifacts", &body).await;
                assert_eq!(named.status, StatusCode::NO_CONTENT, "{}", named.text);
            }
        }
        assert_eq!(world.count("SELECT count(*) FROM artifacts").await, 1);
        assert_eq!(world.count("SELECT count(*) FROM attempt_artifacts").await, 2);

        let case = percent_encoding::utf8_percent_encode(
            script.case("a").as_str(),
            percent_encoding::NON_ALPHANUMERIC,
        )
        .to_string();
        let attempts = world.get_json(&format!("/api/v1/runs/r1/attempts?case={case}")).await;
        let file = &attempts["attempts"][0]["artifacts"][0];
        assert_eq!((&file["name"], &file["size"]), (&json!("report.html"), &json!(page.len())));
        let path = file["path"].as_str().unwrap();
        let shown = world.get(&format!("/runs/r1/cases/{case}")).await.text;
        assert!(shown.contains(&format!("href=\"{path}\" download")), "{shown}");

        let answer = world.get(path).await;
        assert_eq!(answer.text.as_bytes(), page);
        let header = |name: &str| answer.headers[name].to_str().unwrap().to_owned();
        assert_eq!(header("content-type"), "application/octet-stream");
        assert_eq!(
            header("content-disposition"),
            format!("attachment; filename=\"{}.bin\"", &hash[..16])
        );
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert!(header("content-security-policy").contains("sandbox"));
        assert!(!header("content-security-policy").contains("script-src"));
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn what_is_not_as_it_says_is_refused_and_nothing_is_kept_of_it(pool: PgPool) {
    scenario(pool, async |world| {
        let script = run("r1").passes("a");
        world.finish_run(&script).await;
        let (good, case) = (hash(b"x"), script.case("a"));
        put(&world, &hash(b"y"), b"x").await.refusal(400);
        for wrong in ["", "00", "..%2f..", &good.to_uppercase(), &format!("{good}00"), "%00"] {
            let answer = put(&world, wrong, b"x").await;
            assert!(answer.status.is_client_error(), "{wrong}: {}", answer.text);
        }
        put(&world, &hash(&vec![0; (8 << 20) + 1]), &vec![0; (8 << 20) + 1]).await.refusal(413);
        world.get(&format!("/api/v1/artifacts/{good}")).await.refusal(404);
        assert_eq!(world.count("SELECT count(*) FROM artifacts").await, 0);
        let post = async |body: &Value| world.post_json("/api/v1/runs/r1/artifacts", body).await;
        let early = post(&link(case.as_str(), "a.txt", &good)).await.refusal(409);
        assert!(early.contains("send the file first"), "{early}");
        put(&world, &good, b"x").await;
        put(&world, &hash(b"z"), b"z").await;
        for name in ["", "../a", ".a", "a b", "a/b", "é", &"x".repeat(101)] {
            post(&link(case.as_str(), name, &good)).await.refusal(400);
        }
        let stranger = script.case("nosuch");
        let mut body = link(case.as_str(), "a.txt", &good);
        body["artifacts"]
            .as_array_mut()
            .unwrap()
            .push(link(stranger.as_str(), "a.txt", &good)["artifacts"][0].clone());
        post(&body).await.refusal(409);
        assert_eq!(
            world.count("SELECT count(*) FROM attempt_artifacts").await,
            0,
            "all or nothing"
        );
        assert_eq!(post(&link(case.as_str(), "a.txt", &good)).await.status.as_u16(), 204);
        post(&link(case.as_str(), "a.txt", &hash(b"z"))).await.refusal(409);
        let path = format!("/api/v1/artifacts/{good}");
        world.send(world.request(Method::PUT, &path).body("x")).await.refusal(401);
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn retention_deletes_what_no_attempt_names_any_more(pool: PgPool) {
    scenario(pool, async |world| {
        let script = run("r1").passes("a");
        world.finish_run(&script).await;
        for contents in [&b"named"[..], b"never named"] {
            put(&world, &hash(contents), contents).await;
        }
        let body = link(script.case("a").as_str(), "a.txt", &hash(b"named"));
        world.post_json("/api/v1/runs/r1/artifacts", &body).await;
        let later = at("2026-12-02T00:00:00Z");
        let soon = at("2026-12-01T11:59:59Z");
        let delete =
            async |now| retention::delete_artifacts(&world.state.db, 1, now).await.unwrap();
        assert_eq!(delete(soon).await, 0, "a file waits a day for its attempt");
        assert_eq!(delete(later).await, 1);
        assert_eq!(world.get(&format!("/api/v1/artifacts/{}", hash(b"named"))).await.text, "named");
        let days = retention::Days { evidence: 0, nightly: 0, void: 0, other: 0 };
        let (none, much_later) = (Default::default(), at("2027-03-01T00:00:00Z"));
        let plan = retention::plan(&world.state.db, days, &none, much_later).await.unwrap();
        for planned in plan {
            retention::carry_out(&world.state.db, &planned, 10).await.unwrap();
        }
        assert_eq!(delete(later).await, 1, "its run is gone");
        assert_eq!(world.count("SELECT count(*) FROM artifacts").await, 0);
    })
    .await;
}
