//! What a model's, an entry's and a build's page say beyond verdicts: where a failure begins, errors
//! over runs, history, and coverage down to what is counted.

use protocol::evidence::{DivergingOperator, FirstDivergence};
use protocol::{Outcome, Suite};
use sqlx::PgPool;

use super::builders::run;
use super::harness::{Options, scenario, scenario_with};
use super::inventories;
use super::pages_world::comparison;

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_model_says_where_it_first_goes_wrong_and_how_to_see_it_again(pool: PgPool) {
    scenario(pool, async |world| {
        let night = |key: &str, day: &str| {
            run(key).of(Suite::Tier2).on("cuda").started(&format!("2026-11-{day}T02:00:00Z"))
        };
        world.finish_run(&night("n1", "28").passes("bert")).await;
        world.finish_run(&night("n2", "29").plans("bert")).await;
        let wrong = night("n3", "30").observes_with("bert", Outcome::Mismatch, |attempt| {
            let evidence = &mut attempt.evidence;
            evidence.comparisons = vec![comparison("", 0.25, 3)];
            evidence.repro = "import torch\nprint('again')\n".to_owned();
            evidence.stage_seconds =
                [("build".to_owned(), 1.5), ("execute".to_owned(), 0.25)].into();
            evidence.first_divergence = Some(FirstDivergence {
                module: "encoder.layer.3".to_owned(),
                kind: "BertLayer".to_owned(),
                call: 1,
                finding: "differs".to_owned(),
                max_abs_error: None,
                dtype: "float32".to_owned(),
                shape: vec![2],
                modules_agreed: 7,
                operator: Some(DivergingOperator {
                    overload: "aten::gelu".to_owned(),
                    call: 1,
                    finding: "2 of 4 elements differ".to_owned(),
                    max_abs_error: None,
                    dtype: "float32".to_owned(),
                    shape: vec![2],
                    inputs: vec!["float32[2]".to_owned()],
                    repro: String::new(),
                    repro_file: String::new(),
                }),
            });
        });
        world.finish_run(&wrong).await;
        let page = world.page("/models/opinfo%3Abert?device=cuda").await;
        let section = page.text("section.attempt");
        let key = "'tier2/opinfo:bert#0/float32.eager.forward'";
        for said in [
            "`aten::gelu` in `encoder.layer.3` (BertLayer): 2 of 4 elements differ",
            "logits: 3 of 64 elements differ",
            &format!("runner repro n3 {key}"),
            &format!("runner explain n3 {key}"),
            "print('again')",
        ] {
            assert!(section.contains(said), "{said} is not in {section}");
        }
        assert_eq!(page.count("section.attempt button[data-copy]"), 3);
        let timing = &page.table("Seconds per stage")[0];
        assert_eq!(timing[1..], ["1.5 s", "250 ms", "1.8 s"]);
        assert_eq!(page.texts("ol.strip li"), ["pass 1/1", "missing 0/1", "mismatch 0/1"]);
        let passed = world.page("/models/opinfo%3Abert?run=n1").await;
        assert_eq!(passed.count("section.attempt"), 0, "a pass is no failure");
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn an_entry_shows_its_errors_run_by_run(pool: PgPool) {
    scenario(pool, async |world| {
        for (key, day, error) in [("n1", "28", 1e-7), ("n2", "29", 2e-7), ("n3", "30", f64::NAN)] {
            let night = run(key).on("cuda").started(&format!("2026-11-{day}T02:00:00Z"));
            let night = night.observes_with("add", Outcome::Pass, |attempt| {
                attempt.evidence.comparisons = vec![comparison("", error, 0)];
            });
            world.finish_run(&night.passes("other")).await;
        }
        let page = world.page("/operators/add?device=cuda").await;
        let rows = page.table("Largest absolute error");
        let short: Vec<[&str; 2]> = rows.iter().map(|r| [r[0].as_str(), r[2].as_str()]).collect();
        assert_eq!(short, [["n3", "inf (4 ULP)"], ["n2", "2e-7 (4 ULP)"], ["n1", "1e-7 (4 ULP)"]]);
        assert_eq!(page.count("svg.errors circle"), 2);
        assert_eq!(page.count("svg.errors g.bad"), 1, "what is not finite is a cross");
        assert_eq!(page.texts("ol.strip li"), ["pass 1/1", "pass 1/1", "pass 1/1"]);
        let other = world.page("/operators/other?device=cuda").await;
        assert_eq!(other.count("svg.errors"), 0, "nothing was compared");
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn coverage_lists_what_it_counts_and_stands_behind_the_claim(pool: PgPool) {
    scenario(pool, async |world| {
        world.finish_run(&run("r1").passes("a")).await;
        let empty = world.page("/coverage?run=r1").await;
        assert!(empty.main_text().contains("No inventory"), "{}", empty.main_text());
        let (status, text) = inventories::put(&world, "r1", &inventories::build()).await;
        assert!(status.is_success(), "{text}");
        let names = async |query: &str| -> Vec<String> {
            let page = world.page(&format!("/coverage?run=r1&definition={query}")).await;
            page.table("What the definition counts").into_iter().map(|row| row[0].clone()).collect()
        };
        assert_eq!(names("registered").await, ["aten::addmv", "aten::relu"]);
        assert_eq!(names("registered&show=covered").await, ["aten::add.Tensor"]);
        assert_eq!(
            names("registered&show=all&text=add").await,
            ["aten::add.Tensor", "aten::addmv"]
        );
        assert_eq!(names("reachable").await, ["aten::addmv"]);
        world.page_with("/coverage?definition=none", 400).await;
        let none = world.page("/coverage?run=r1&definition=tier1-calls").await;
        assert!(none.main_text().contains("cannot be counted by it"), "{}", none.main_text());
        let never_run = world.page("/operators/aten%3A%3Aaddmv?run=r1").await;
        assert!(never_run.main_text().contains("missing"), "{}", never_run.main_text());

        for (query, figure) in [("", "1 of 2"), ("&definition=registered", "1 of 3")] {
            let claims = world.page(&format!("/claims?run=r1{query}")).await;
            let row = &claims.table("Published figures and ours")[0];
            assert!(row[2].starts_with(figure), "{row:?}");
            let links = claims.attributes("dd a", "href");
            assert!(
                links.iter().any(|href| href.starts_with("/operators/aten%3A%3Aaddmv")),
                "the difference is named: {links:?}"
            );
        }
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_gate_remembers_what_it_answered(pool: PgPool) {
    let gate = "title = \"N\"\n[[rule]]\nname = \"a\"\nsuite = \"operators\"\ndevice = \"tpu\"\n\
                planned_min = 1\npass_rate_min = 0.9\nstale_hours = 26\n";
    let options = Options { gates: vec![("nightly", gate.to_owned())], ..Options::default() };
    scenario_with(pool, options, async |world| {
        let bad = run("r1").started("2026-11-29T22:00:00Z").observes("add", Outcome::Crash);
        world.finish_run(&bad).await;
        for _ in 0..2 {
            world.gate("nightly", "latest").await;
        }
        world.set_now("2026-11-30T13:00:00Z");
        world.finish_run(&run("r2").passes("add")).await;
        let page = world.page("/gates/nightly").await;
        let rows = page.table("Answers that the gate gave");
        let short: Vec<[&str; 4]> =
            rows.iter().map(|row| [0, 1, 2, 3].map(|n| row[n].as_str())).collect();
        assert_eq!(
            short,
            [
                ["2026-11-30 13:00 UTC", "open", "latest", "r2"],
                ["2026-11-30 12:00 UTC", "closed", "latest", "r1"],
            ],
            "the same answer twice is one line, and the one given by the page is there"
        );
        let api = world.gate("nightly", "latest").await;
        let hash = api["rules_sha256"].as_str().unwrap();
        assert!(rows.iter().all(|row| hash.starts_with(&row[4])), "{hash}: {rows:?}");
    })
    .await;
}
