//! Queries in the runner's grammar, and what they select as JSON, CSV and JUnit.

use protocol::{Outcome, Suite};
use sqlx::PgPool;

use super::builders::run;
use super::harness::scenario;

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn the_runners_query_selects_here_as_well(pool: PgPool) {
    scenario(pool, async |world| {
        let mut script = run("r1").passes("add").observes("fft", Outcome::Unsupported);
        script = script.observes_with("mul", Outcome::Crash, |attempt| {
            attempt.operator = Some("aten::mul.Tensor".to_owned());
            attempt.message = "SIGABRT, in the middle".to_owned();
        });
        world.finish_run(&script.plans("exp")).await;
        for (query, expected) in [
            ("", 4),
            ("outcome:!pass", 3),
            ("outcome:crash", 1),
            ("op:aten.mul", 1),
            ("verdict:missing", 1),
            ("dtype:fp32 mode:eager", 4),
            ("dtype:bf16", 0),
            ("message:sigabrt", 1),
            ("fft", 1),
        ] {
            let q =
                percent_encoding::utf8_percent_encode(query, percent_encoding::NON_ALPHANUMERIC);
            for limit in ["1000", "1"] {
                let path = format!("/api/v1/runs/r1/cases?q={q}&limit={limit}");
                let mut found = 0;
                let mut cursor = String::new();
                loop {
                    let body = world.get_json(&format!("{path}{cursor}")).await;
                    found += body["cases"].as_array().unwrap().len();
                    match body["next"].as_str() {
                        Some(next) => cursor = format!("&cursor={next}"),
                        None => break,
                    }
                }
                assert_eq!(found, expected, "{query}");
            }
            let exported = world.get_json(&format!("/api/v1/runs/r1/export?q={q}")).await;
            assert_eq!(exported["cases"].as_array().unwrap().len(), expected, "{query}");
        }
        let refusal = world.get("/api/v1/runs/r1/cases?q=colour:red").await.refusal(400);
        assert!(refusal.contains("colour"), "{refusal}");
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn an_export_says_the_same_in_every_format(pool: PgPool) {
    scenario(pool, async |world| {
        let script = run("r1")
            .of(Suite::Tier1)
            .passes("good")
            .observes("skipped", Outcome::Skipped)
            .observes("busy", Outcome::Infra)
            .observes_with("bad", Outcome::Crash, |attempt| {
                attempt.message = "=cmd|' /C calc'!A0 <b>&\u{1b}[31m".to_owned();
            })
            .plans("missing");
        world.finish_run(&script).await;
        let csv = world.get("/api/v1/runs/r1/export?format=csv").await;
        assert_eq!(csv.text.lines().count(), 6, "{}", csv.text);
        assert!(csv.text.starts_with("case,suite,verdict,outcome,attempts,"), "{}", csv.text);
        assert!(csv.text.contains("'=cmd|"), "a spreadsheet must not calculate it: {}", csv.text);
        let attached = csv.headers["content-disposition"].to_str().unwrap();
        assert_eq!(attached, "attachment; filename=\"r1.csv\"");
        assert_eq!(csv.headers["x-content-type-options"], "nosniff");
        let junit = world.get("/api/v1/runs/r1/export?format=junit").await.text;
        for part in [
            "tests=\"5\"",
            "failures=\"1\"",
            "errors=\"2\"",
            "<testsuite name=\"tier1\"",
            "&lt;b&gt;&amp;",
            "<skipped",
        ] {
            assert!(junit.contains(part), "{part}: {junit}");
        }
        assert!(!junit.contains('\u{1b}'), "XML has no such character");
        let only = world.get("/api/v1/runs/r1/export?format=junit&q=verdict:missing").await.text;
        assert!(only.contains("tests=\"1\"") && only.contains("errors=\"1\""), "{only}");
        let subjects = world.get("/api/v1/models?run=r1&format=csv&limit=2").await;
        assert_eq!(subjects.text.lines().count(), 3);
        assert!(subjects.headers.contains_key("x-next-cursor"));
        world.get("/api/v1/models?run=r1&format=junit").await.refusal(400);
        world.get("/api/v1/runs/r1/export?format=pdf").await.refusal(400);
    })
    .await;
}
