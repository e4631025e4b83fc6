//! Two runs side by side, on what both planned.

use protocol::Outcome;
use serde_json::json;
use sqlx::PgPool;

use super::builders::{Script, run};
use super::harness::scenario;

fn with(key: &str, day: u32, passing: &[&str], failing: &[&str]) -> Script {
    let mut script = run(key).started(&format!("2026-11-{day:02}T02:00:00Z"));
    for name in passing {
        script = script.passes(name);
    }
    for name in failing {
        script = script.observes(name, Outcome::Mismatch);
    }
    script
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn every_category_is_named_and_counted(pool: PgPool) {
    scenario(pool, async |world| {
        let a =
            with("a", 1, &["steady", "worse", "gone", "unlearnt"], &["better", "same", "other"])
                .observes("learnt", Outcome::Infra)
                .plans("never");
        let b = with("b", 2, &["steady", "better", "new", "learnt"], &["worse", "same"])
            .observes("other", Outcome::Crash)
            .plans("unlearnt")
            .plans("never");
        world.finish_run(&a).await;
        world.finish_run(&b).await;
        let body = world.get_json("/api/v1/compare?a=a&b=b").await;
        let counts = json!({
            "regressed": 1, "fixed": 1, "changed failure": 1, "still failing": 1,
            "still passing": 1, "new": 1, "gone": 1, "no longer learnt": 1, "newly learnt": 1,
            "nothing learnt": 1,
        });
        assert_eq!(body["counts"], counts);
        assert_eq!(body["cases"].as_array().unwrap().len(), 7, "what changed is listed");
        for (category, name) in [
            ("regressed", "worse"),
            ("fixed", "better"),
            ("changed%20failure", "other"),
            ("still%20failing", "same"),
            ("new", "new"),
            ("gone", "gone"),
            ("no%20longer%20learnt", "unlearnt"),
        ] {
            let path = format!("/api/v1/compare?a=a&b=b&category={category}");
            let cases = world.get_json(&path).await["cases"].clone();
            assert_eq!(cases.as_array().unwrap().len(), 1, "{category}");
            assert_eq!(cases[0]["case"], a.case(name).as_str());
        }
        // Page by page, and as CSV.
        let mut seen = 0;
        let mut cursor = String::new();
        loop {
            let page = world.get_json(&format!("/api/v1/compare?a=a&b=b&limit=3{cursor}")).await;
            seen += page["cases"].as_array().unwrap().len();
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(seen, 7);
        let csv = world.get("/api/v1/compare?a=a&b=b&format=csv&category=regressed").await;
        assert!(csv.headers["content-type"].to_str().unwrap().starts_with("text/csv"));
        assert_eq!(csv.text.lines().count(), 2, "{}", csv.text);
        world.get("/api/v1/compare?a=a&b=nosuch").await.refusal(404);
        world.get("/api/v1/compare?a=a").await.refusal(400);
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_run_of_the_best_cases_is_not_better(pool: PgPool) {
    // TRIALS S08: run A 10 models; run B only its 3 best; run C 12 models.
    scenario(pool, async |world| {
        let names: Vec<String> = (0..12).map(|number| format!("m{number:02}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        world.finish_run(&with("a", 1, &names[..7], &names[7..10])).await;
        world.finish_run(&with("b", 2, &names[..3], &[])).await;
        world.finish_run(&with("c", 3, &names[..8], &names[8..])).await;
        let b = world.get_json("/api/v1/compare?a=a&b=b").await;
        assert_eq!(b["common"], 3);
        assert_eq!(b["counted"], 3);
        assert_eq!(b["a"]["passed"], 3, "on the common set A is as good");
        assert_eq!(b["b"]["passed"], 3);
        assert_eq!(b["counts"]["gone"], 7);
        assert_eq!(b["counts"]["fixed"], json!(null));
        let coverage = b["coverage"].as_str().unwrap();
        assert!(coverage.contains("3 cases are in both plans, of 10 and 3"), "{coverage}");
        let c = world.get_json("/api/v1/compare?a=a&b=c").await;
        assert_eq!(c["common"], 10);
        assert_eq!(
            c["counts"],
            json!({
                "fixed": 1, "new": 2, "still failing": 2, "still passing": 7,
            })
        );
        // The rate of a run is over its own plan, which does not shrink with what finished.
        let shown = world.get_json("/api/v1/runs/a").await;
        assert_eq!(shown["suites"][0]["counted"], 10);
        assert_eq!(shown["suites"][0]["passed"], 7);
    })
    .await;
}
