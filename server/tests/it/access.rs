//! Who may do what, and what every answer carries.

use reqwest::{Method, StatusCode};
use server::db::tokens;
use sqlx::PgPool;

use super::builders::run;
use super::harness::{Options, scenario, scenario_with};

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_write_needs_a_token_with_the_scope(pool: PgPool) {
    scenario(pool, async |world| {
        let gate_only = tokens::new_secret();
        tokens::create(&world.pool, "ci", &gate_only, &[tokens::Scope::Gate]).await.unwrap();
        let revoked = tokens::new_secret();
        tokens::create(&world.pool, "old", &revoked, &[tokens::Scope::Ingest]).await.unwrap();
        assert!(tokens::revoke(&world.pool, "old").await.unwrap());
        assert!(!tokens::revoke(&world.pool, "old").await.unwrap());
        let body = run("r1").announcement();
        for (method, path) in [
            (Method::POST, "/api/v1/runs"),
            (Method::PUT, "/api/v1/runs/r1/manifest"),
            (Method::POST, "/api/v1/runs/r1/results"),
            (Method::POST, "/api/v1/runs/r1/seal"),
            (Method::POST, "/api/v1/runs/r1/void"),
        ] {
            let request = || world.request(method.clone(), path).json(&body);
            world.send(request()).await.refusal(401);
            world.send(request().header("authorization", "Basic eDp5")).await.refusal(401);
            for unknown in ["ttc_0", "", &revoked] {
                world.send(request().bearer_auth(unknown)).await.refusal(401);
            }
            let refusal = world.send(request().bearer_auth(&gate_only)).await.refusal(403);
            assert!(refusal.contains("token `ci` lacks the scope"), "{refusal}");
        }
        assert_eq!(world.count("SELECT count(*) FROM runs").await, 0);
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_secret_is_stored_only_as_its_hash(pool: PgPool) {
    let secret = tokens::new_secret();
    assert_eq!(secret.len(), 4 + 64);
    tokens::create(&pool, "a", &secret, &[tokens::Scope::Admin]).await.unwrap();
    assert!(!tokens::create(&pool, "a", "other", &[tokens::Scope::Admin]).await.unwrap());
    let dump: String =
        sqlx::query_scalar("SELECT tokens::text FROM tokens").fetch_one(&pool).await.unwrap();
    assert!(!dump.contains(&secret[4..]), "{dump}");
    let caller = tokens::find_by_secret(&pool, &secret).await.unwrap().unwrap();
    assert!(tokens::Scope::ALL.iter().all(|scope| caller.may(*scope)), "admin may do everything");
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn reading_can_need_a_token(pool: PgPool) {
    scenario_with(pool, Options { private: true, ..Options::default() }, async |world| {
        for path in ["/api/v1/runs", "/api/v1/gates", "/api/v1/runs/r1"] {
            world.get(path).await.refusal(401);
        }
        let answer = world.send(world.authorized(Method::GET, "/api/v1/runs")).await;
        assert_eq!(answer.status, StatusCode::OK);
        assert_eq!(world.get("/healthz").await.status, StatusCode::OK, "health is for everybody");
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn every_answer_has_its_headers_and_every_error_its_two_faces(pool: PgPool) {
    scenario(pool, async |world| {
        let mut ids = std::collections::HashSet::new();
        for (method, path, status) in [
            (Method::GET, "/healthz", 200),
            (Method::GET, "/readyz", 200),
            (Method::GET, "/api/v1/runs", 200),
            (Method::GET, "/api/v1/runs/nosuch", 404),
            (Method::GET, "/api/v1/runs/UPPER", 400),
            (Method::GET, "/api/v1/runs?limit=0", 400),
            (Method::GET, "/api/v1/runs?limit=1001", 400),
            (Method::GET, "/api/v1/runs?color=red", 400),
            (Method::GET, "/api/v1/runs?cursor=zz", 400),
            (Method::GET, "/api/v1/runs?suite=tier9", 400),
            (Method::GET, "/api/v1/nosuch", 404),
            (Method::DELETE, "/api/v1/runs", 405),
            (Method::GET, "/nosuch/<script>alert(1)</script>", 404),
        ] {
            let answer = world.send(world.request(method, path)).await;
            assert_eq!(answer.status.as_u16(), status, "{path}: {}", answer.text);
            let header = |name: &str| answer.headers[name].to_str().unwrap().to_owned();
            assert!(ids.insert(header("x-request-id")));
            assert_eq!(header("x-content-type-options"), "nosniff");
            let policy = header("content-security-policy");
            assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
            assert!(!policy.contains("unsafe"), "{policy}");
            if status >= 400 && path.starts_with("/api/") {
                answer.refusal(status);
                assert!(answer.text.contains(&header("x-request-id")));
            } else if status >= 400 {
                assert!(header("content-type").starts_with("text/html"));
                assert!(!answer.text.contains("<script>alert"), "{}", answer.text);
            }
        }
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_database_that_went_away_is_503_with_nothing_of_the_cause(pool: PgPool) {
    scenario(pool, async |world| {
        assert_eq!(world.get("/readyz").await.json()["ready"], true);
        world.pool.close().await;
        let answer = world.get("/api/v1/runs").await;
        let refusal = answer.refusal(503);
        assert!(refusal.starts_with("the database cannot be reached /"), "{refusal}");
        assert_eq!(answer.headers["retry-after"], "5");
        let ready = world.get("/readyz").await;
        assert_eq!(ready.status.as_u16(), 503);
        assert_eq!(ready.json()["database"], "down");
        assert_eq!(world.get("/healthz").await.status, StatusCode::OK);
        world.expect_server_error();
        world.expect_server_error();
    })
    .await;
}
