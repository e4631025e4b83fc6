//! Lists: filters, pages, and what they count.

use protocol::evidence::LastOperator;
use protocol::{Outcome, Suite};
use serde_json::{Value, json};
use sqlx::PgPool;

use super::builders::run;
use super::harness::{World, scenario};

/// Follows `next` to the end.
async fn all(world: &World, path: &str, field: &str) -> (Vec<Value>, usize) {
    let mut lines = Vec::new();
    let mut pages = 0;
    let mut cursor = String::new();
    loop {
        let body = world.get_json(&format!("{path}{cursor}")).await;
        lines.extend(body[field].as_array().unwrap().iter().cloned());
        pages += 1;
        match body["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return (lines, pages),
        }
    }
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn runs_are_listed_newest_first_in_pages(pool: PgPool) {
    scenario(pool, async |world| {
        for number in 1..=5 {
            // Two of them start at the same moment.
            let started = format!("2026-11-0{}T00:00:00Z", number.min(4));
            world.finish_run(&run(&format!("r{number}")).started(&started).passes("a")).await;
        }
        let (runs, pages) = all(&world, "/api/v1/runs?limit=2", "runs").await;
        let keys: Vec<&str> = runs.iter().map(|run| run["run"].as_str().unwrap()).collect();
        assert_eq!(keys, ["r5", "r4", "r3", "r2", "r1"]);
        assert_eq!(pages, 3);
        let (none, _) = all(&world, "/api/v1/runs?device=cuda", "runs").await;
        assert!(none.is_empty());
        let (tier1, _) = all(&world, "/api/v1/runs?suite=tier1", "runs").await;
        assert!(tier1.is_empty());
        let (running, _) = all(&world, "/api/v1/runs?state=running", "runs").await;
        assert!(running.is_empty());
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_run_shows_what_the_server_knows_apart_from_what_the_runner_claims(pool: PgPool) {
    scenario(pool, async |world| {
        let script = run("r1").passes("a").observes("b", Outcome::Skipped).plans("c");
        world.finish_run(&script).await;
        let body = world.get_json("/api/v1/runs/r1").await;
        assert_eq!(body["created_by"], "scripted");
        assert_eq!(body["claimed_host"], "tpu-host-3");
        assert_eq!(body["versions"], json!({"torch": "2.15.0"}));
        assert_eq!(body["suites"][0]["verdicts"], json!({"passed": 1, "skipped": 1, "missing": 1}));
        assert_eq!(body["suites"][0]["pass_rate"], 0.5);
        let (cases, pages) = all(&world, &script.path("/cases?limit=1"), "cases").await;
        assert_eq!((cases.len(), pages), (3, 3));
        let order: Vec<String> =
            cases.iter().map(|c| script.short(c["case"].as_str().unwrap())).collect();
        assert_eq!(order, ["a", "b", "c"], "the order of the manifest");
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn operators_count_the_cases_that_touched_them(pool: PgPool) {
    scenario(pool, async |world| {
        let script = run("r1")
            .observes_with("a", Outcome::Pass, |attempt| {
                attempt.evidence.operators = Some(
                    [("aten::add.Tensor".to_owned(), 2), ("aten::mul.Tensor".to_owned(), 1)].into(),
                );
            })
            .observes_with("b", Outcome::Unsupported, |attempt| {
                attempt.operator = Some("aten::_fft_r2c".to_owned());
            })
            .observes_with("c", Outcome::Crash, |attempt| {
                attempt.evidence.operators = Some([("aten::add.Tensor".to_owned(), 3)].into());
                attempt.evidence.last_operator = Some(LastOperator {
                    overload: "aten::add.Tensor".to_owned(),
                    source: "rerun".to_owned(),
                });
            })
            .observes_with("d", Outcome::Fallback, |attempt| {
                attempt.evidence.fallback_operators = vec!["aten::nonzero".to_owned()];
            });
        world.finish_run(&script).await;
        let (operators, pages) = all(&world, "/api/v1/operators?limit=3", "operators").await;
        assert_eq!(pages, 2);
        let line = |overload: &str| {
            let found = operators.iter().find(|o| o["overload"] == overload).unwrap();
            ["cases", "passed", "blamed", "fell_back", "calls"].map(|field| found[field].clone())
        };
        assert_eq!(line("aten::add.Tensor"), [json!(2), json!(1), json!(1), json!(0), json!(5)]);
        assert_eq!(line("aten::mul.Tensor"), [json!(1), json!(1), json!(0), json!(0), json!(1)]);
        assert_eq!(line("aten::_fft_r2c"), [json!(1), json!(0), json!(1), json!(0), json!(null)]);
        assert_eq!(line("aten::nonzero"), [json!(1), json!(0), json!(0), json!(1), json!(null)]);
        let cases = world.get_json(&script.path("/cases?outcome=crash")).await;
        assert_eq!(cases["cases"][0]["operator"], "aten::add.Tensor", "the breadcrumb is blamed");
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn models_are_counted_by_name_and_suite(pool: PgPool) {
    scenario(pool, async |world| {
        world.get("/api/v1/models").await.refusal(404);
        let script = run("r1")
            .of(Suite::Tier1)
            .passes("resnet")
            .observes("bert", Outcome::Error)
            .plans("vit");
        world.finish_run(&script).await;
        let (models, pages) = all(&world, "/api/v1/models?run=r1&limit=1", "models").await;
        assert_eq!(pages, 3);
        assert_eq!(models[0]["model"], "opinfo:bert");
        assert_eq!(models[0]["failed"], 1);
        assert_eq!(models[1]["passed"], 1);
        assert_eq!(models[2]["missing"], 1);
    })
    .await;
}
