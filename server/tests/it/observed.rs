//! What others see of the server: badges, metrics, tags of answers, limits of tokens.

use std::num::NonZeroU32;

use protocol::Outcome;
use reqwest::{Method, StatusCode};
use sqlx::PgPool;

use super::builders::run;
use super::harness::{Options, scenario, scenario_with};

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_badge_is_grey_when_what_it_says_is_stale_or_nothing(pool: PgPool) {
    // TRIALS S07.
    const GREY: &str = "#6e7781";
    let gate = "title = \"t\"\n[[rule]]\nname = \"r\"\nsuite = \"operators\"\ndevice = \"tpu\"\n\
                planned_min = 1\nnew_fail_max = 0\nstale_hours = 26\n";
    let options = Options { gates: vec![("nightly", gate.to_owned())], ..Options::default() };
    scenario_with(pool, options, async |world| {
        let badge = async |path: &str| {
            let answer = world.get(&format!("/api/v1/badges/{path}")).await;
            assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
            assert_eq!(answer.headers["content-type"], "image/svg+xml");
            answer.text
        };
        for path in ["gates/nightly", "suites/operators"] {
            let text = badge(path).await;
            assert!(text.contains("no data") && text.contains(GREY), "{text}");
        }
        world.finish_run(&run("n1").started("2026-11-30T01:00:00Z").passes("a").passes("b")).await;
        let text = badge("gates/nightly").await;
        assert!(text.contains("open") && text.contains("#1a7f37"), "{text}");
        let text = badge("suites/operators").await;
        assert!(text.contains("2 of 2 pass") && text.contains("#1a7f37"), "{text}");
        world.finish_run(&run("n2").passes("a").observes("b", Outcome::Crash)).await;
        assert!(badge("gates/nightly").await.contains("closed"));
        assert!(badge("suites/operators").await.contains("1 of 2 pass"));
        let sim = run("s1").on("tpu-sim").passes("a").plans("b");
        world.finish_run(&sim).await;
        assert!(badge("suites/operators").await.contains("1 of 2"), "simulated is not the figure");
        let text = badge("suites/operators?device=tpu-sim").await;
        assert!(text.contains("(simulated)") && text.contains("incomplete"), "{text}");
        world.set_now("2026-12-05T00:00:00Z");
        for path in ["gates/nightly", "suites/operators"] {
            assert!(badge(path).await.contains(GREY), "{path}");
        }
        world.get("/api/v1/badges/gates/nosuch").await.refusal(404);
        world.get("/api/v1/badges/suites/nosuch").await.refusal(400);
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn who_asks_again_for_what_has_not_changed_gets_no_body(pool: PgPool) {
    scenario(pool, async |world| {
        let script = run("r1").passes("a").plans("b");
        world.finish_run(&script).await;
        let path = "/api/v1/runs/r1/cases";
        let first = world.get(path).await;
        let tag = first.headers["etag"].to_str().unwrap().to_owned();
        let again = async |tag: &str| {
            let request = world.request(Method::GET, path).header("if-none-match", tag);
            world.send(request).await
        };
        for same in [tag.clone(), format!("\"x\", {tag}"), "*".to_owned()] {
            let answer = again(&same).await;
            assert_eq!(answer.status, StatusCode::NOT_MODIFIED, "{same}");
            assert_eq!(answer.text, "");
            assert_eq!(answer.headers["etag"], tag.as_str());
        }
        assert_eq!(again("W/\"other\"").await.text, first.text);
        world.deliver(&run("r1").plans("a").passes("b")).await;
        let changed = again(&tag).await;
        assert_eq!(changed.status, StatusCode::OK);
        assert_ne!(changed.headers["etag"], tag.as_str());
        let refused = world.get("/api/v1/runs/nosuch").await;
        assert!(!refused.headers.contains_key("etag"));
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn metrics_count_by_route_and_not_by_name(pool: PgPool) {
    scenario(pool, async |world| {
        for key in ["r1", "r2"] {
            let script = run(key).passes("a").passes("b");
            world.finish_run(&script).await;
            world.deliver(&script).await;
            world.get(&format!("/runs/{key}")).await;
        }
        world.start_run(&run("r3").passes("a")).await;
        let metrics = world.get("/metrics").await;
        assert!(metrics.headers["content-type"].to_str().unwrap().contains("openmetrics-text"));
        for line in [
            "conformance_results_stored_total 4",
            "conformance_results_replayed_total 4",
            "conformance_open_runs 1",
            "conformance_rejudge_waiting 0",
            "conformance_requests_total{method=\"GET\",route=\"/runs/{run}\",status=\"200\"} 2",
            "# EOF",
        ] {
            assert!(metrics.text.contains(line), "{line}:\n{}", metrics.text);
        }
        assert!(!metrics.text.contains("/runs/r1"), "{}", metrics.text);
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_token_that_asks_too_often_is_told_when_to_come_back(pool: PgPool) {
    let options = Options { token_requests_per_minute: NonZeroU32::new(5), ..Options::default() };
    scenario_with(pool, options, async |world| {
        let script = run("r1").passes("a");
        let mut refused = 0;
        for _ in 0..12 {
            let answer = world.announce(&script).await;
            if answer.status == StatusCode::TOO_MANY_REQUESTS {
                let text = answer.refusal(429);
                assert!(text.contains("token `scripted` makes too many requests"), "{text}");
                let wait: u64 = answer.headers["retry-after"].to_str().unwrap().parse().unwrap();
                assert!((1..=61).contains(&wait), "{wait}");
                refused += 1;
            }
        }
        assert!((5..=7).contains(&refused), "{refused} of 12");
        assert_eq!(world.get("/api/v1/runs").await.status, StatusCode::OK, "reading is public");
    })
    .await;
}
