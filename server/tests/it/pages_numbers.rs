//! Numbers on pages are those of the API, and every roll-up is the sum of its children.

use serde_json::Value;
use sqlx::PgPool;

use super::builders::run;
use super::harness::{Options, World, scenario, scenario_with};
use super::pages_world::{self, SECOND_NIGHT, TIER1};

/// `7 of 12` as two numbers.
#[track_caller]
pub(crate) fn ratio(text: &str) -> (u64, u64) {
    let (part, whole) = text.split_once(" of ").unwrap_or_else(|| panic!("`{text}`"));
    (number(part), number(whole))
}

#[track_caller]
pub(crate) fn number(text: &str) -> u64 {
    text.replace(',', "").parse().unwrap_or_else(|_| panic!("`{text}` is no number"))
}

/// Passed and rated of a matrix cell: `3/5 crash`; nothing where the text has no figures.
pub(crate) fn cell(text: &str) -> (u64, u64) {
    let figures = text.split(' ').next().unwrap_or_default();
    figures.split_once('/').map_or((0, 0), |(part, whole)| (number(part), number(whole)))
}

pub(crate) fn add((a, b): (u64, u64), (c, d): (u64, u64)) -> (u64, u64) {
    (a + c, b + d)
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn the_suites_of_a_run_add_up_and_equal_the_api(pool: PgPool) {
    scenario(pool, async |world| {
        pages_world::fill(&world).await;
        let api = world.get_json(&format!("/api/v1/runs/{SECOND_NIGHT}")).await;
        let page = world.page(&format!("/runs/{SECOND_NIGHT}")).await;
        let rows = page.table("Counts per suite");
        let (total, suites) = rows.split_last().unwrap();
        for column in [3, 4, 5] {
            let sum: u64 = suites.iter().map(|row| number(&row[column])).sum();
            assert_eq!(sum, number(&total[column]), "column {column}");
        }
        let sum = suites.iter().map(|row| ratio(&row[1])).fold((0, 0), add);
        assert_eq!(sum, ratio(&total[1]));
        check_against_api(&api, total);

        let cases = world.get_json(&format!("/api/v1/runs/{SECOND_NIGHT}/cases?limit=1000")).await;
        let of_api: Vec<(String, String)> = cases["cases"]
            .as_array()
            .unwrap()
            .iter()
            .map(|case| (case["case"].to_string(), case["verdict"].as_str().unwrap().to_owned()))
            .collect();
        let manifest = world.page(&format!("/runs/{SECOND_NIGHT}?order=manifest")).await;
        let of_page: Vec<String> =
            manifest.table("Cases with verdict").iter().map(|row| row[0].clone()).collect();
        assert_eq!(of_page, of_api.iter().map(|(_, verdict)| verdict.clone()).collect::<Vec<_>>());
        assert_eq!(of_page.len() as u64, number(&total[3]));
    })
    .await;
}

/// Looks for the counts wherever the API's answer keeps them.
fn check_against_api(api: &Value, total: &[String]) {
    let verdict = |word: &str| {
        let mut sum = 0;
        collect(api, word, &mut sum);
        sum
    };
    let passed = verdict("passed") + verdict("fixed") + verdict("unexpected pass");
    assert_eq!(passed, ratio(&total[1]).0, "{api:#}");
    assert_eq!(verdict("missing"), number(&total[5]), "{api:#}");
}

/// Sums the numbers under a verdict's word in every `verdicts` of the answer.
fn collect(value: &Value, word: &str, sum: &mut u64) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                if (name == "verdicts" || name == "counts") && inner.is_object() {
                    *sum += inner[word].as_u64().unwrap_or(0);
                } else {
                    collect(inner, word, sum);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, word, sum)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn the_entries_add_up_to_their_run(pool: PgPool) {
    scenario(pool, async |world| {
        pages_world::fill(&world).await;
        let page = world.page("/operators?view=entries&device=tpu-sim").await;
        let families = page.table("Families of operators");
        let (total, families) = families.split_last().unwrap();
        let entries = page.table("Entries of the operator database");
        for rows in [families, &entries] {
            let sums = rows.iter().map(|row| ratio(&row[1])).fold((0, 0), add);
            assert_eq!(sums, ratio(&total[1]));
            for column in 3..total.len() {
                let sums = rows.iter().map(|row| cell(&row[column])).fold((0, 0), add);
                assert_eq!(sums, cell(&total[column]), "column {column}");
            }
        }
        for row in families.iter().chain(&entries).chain([total]) {
            let cells = row[3..].iter().map(|text| cell(text)).fold((0, 0), add);
            assert_eq!(cells, ratio(&row[1]), "{row:?}");
        }
        let run_page = world.page(&format!("/runs/{SECOND_NIGHT}")).await;
        let rows = run_page.table("Counts per suite");
        assert_eq!(rows[0][1], total[1], "the operator suite of the run");
        let home = world.page("/").await;
        assert!(home.main_text().contains(&total[1]), "{}", home.main_text());
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn overloads_and_models_equal_the_api(pool: PgPool) {
    scenario(pool, async |world| {
        pages_world::fill(&world).await;
        for key in [SECOND_NIGHT, TIER1] {
            let api = world.get_json(&format!("/api/v1/operators?run={key}&limit=1000")).await;
            let page = world.page(&format!("/operators?view=overloads&sort=name&run={key}")).await;
            let rows = page.table("Overloads that cases dispatched");
            let of_api = api["operators"].as_array().unwrap();
            assert!(!of_api.is_empty());
            assert_eq!(rows.len(), of_api.len());
            for (row, of_api) in rows.iter().zip(of_api) {
                assert_eq!(row[0], of_api["overload"].as_str().unwrap());
                assert_eq!(number(&row[4]), of_api["fell_back"].as_u64().unwrap());
                let both = (of_api["passed"].as_u64().unwrap(), of_api["cases"].as_u64().unwrap());
                assert_eq!(ratio(&row[6]), both, "{row:?}");
                let calls = of_api["calls"].as_u64();
                assert_eq!(row[7].parse().ok(), calls, "{row:?}");
            }
        }
        let api = world.get_json(&format!("/api/v1/models?run={TIER1}&limit=1000")).await;
        let rows = world.page(&format!("/models?run={TIER1}")).await.table("Models by suite");
        let (total, rows) = rows.split_last().unwrap();
        let of_api = api["models"].as_array().unwrap();
        assert_eq!(rows.len(), of_api.len());
        for (row, of_api) in rows.iter().zip(of_api) {
            assert_eq!(row[0], of_api["model"].as_str().unwrap());
            let left_out =
                of_api["inconclusive"].as_u64().unwrap() + of_api["skipped"].as_u64().unwrap();
            let rated = of_api["planned"].as_u64().unwrap() - left_out;
            assert_eq!(ratio(&row[1]), (of_api["passed"].as_u64().unwrap(), rated), "{row:?}");
        }
        let sum = rows.iter().map(|row| ratio(&row[1])).fold((0, 0), add);
        assert_eq!(sum, ratio(&total[1]));
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn the_gate_page_says_what_the_api_says(pool: PgPool) {
    let gate = "title = \"N\"\n[[rule]]\nname = \"a\"\nsuite = \"operators\"\ndevice = \"tpu-sim\"\n\
                planned_min = 5\npass_rate_min = 0.9\nnew_fail_max = 0\nstale_hours = 26\n";
    let options = Options { gates: vec![("nightly", gate.to_owned())], ..Options::default() };
    scenario_with(pool, options, async |world| {
        pages_world::fill(&world).await;
        let api = world.gate("nightly", "latest").await;
        let page = world.page("/gates/nightly").await;
        assert_eq!(page.text("h1"), format!("nightly: {}", api["answer"].as_str().unwrap()));
        let checks = api["rules"][0]["checks"].as_array().unwrap();
        let rows = page.table("Checks of the rule a");
        assert_eq!(rows.len(), checks.len());
        for (row, check) in rows.iter().zip(checks) {
            let words = ["check", "answer", "reason", "text"].map(|f| check[f].as_str().unwrap());
            assert_eq!(row[..4], words);
            let blocking = check["blocking_total"].as_u64().unwrap();
            assert_eq!(row[4].parse().unwrap_or(0), blocking);
        }
        let list = world.page("/gates").await.table("Gates with their answers");
        assert_eq!(list[0][1], api["answer"].as_str().unwrap());
    })
    .await;
}

async fn headline(world: &World, card: &str) -> String {
    let page = world.page("/").await;
    page.text(&format!(".device:first-of-type .card:nth-of-type({card})"))
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_number_says_its_age_and_an_old_one_is_stale(pool: PgPool) {
    scenario(pool, async |world| {
        world.finish_run(&run("r1").passes("add")).await;
        let fresh = headline(&world, "1").await;
        assert!(fresh.contains("1 of 1 100 %") && !fresh.contains("stale"), "{fresh}");
        assert!(headline(&world, "2").await.contains("no data"), "no run of Tier 1");
        world.set_now("2026-12-01T14:00:00Z");
        assert!(!headline(&world, "1").await.contains("stale"), "26 hours are not yet too old");
        world.set_now("2026-12-01T14:00:01Z");
        let old = headline(&world, "1").await;
        assert!(old.contains("stale 1 d 2 h old"), "{old}");
        assert_eq!(world.page("/").await.count(".card.stale"), 1);
        assert!(world.page("/operators").await.text(".scope").contains("stale"));
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_run_of_the_best_cases_only_is_not_better(pool: PgPool) {
    scenario(pool, async |world| {
        let all = run("r1").started("2026-11-29T02:00:00Z").passes("add");
        let all = all.observes("mul", protocol::Outcome::Mismatch).passes("sub");
        world.finish_run(&all).await;
        world.finish_run(&run("r2").passes("add").passes("sub")).await;
        let card = headline(&world, "1").await;
        assert!(card.contains("2 of 2"), "{card}");
        assert!(card.contains("the same") || card.contains("over 2 common cases"), "{card}");
        assert!(card.contains("1 only before"), "{card}");
        assert!(card.contains("0 newly passing, 0 no longer"), "{card}");
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn only_a_run_that_is_not_sealed_is_read_again(pool: PgPool) {
    scenario(pool, async |world| {
        let script = run("r1").passes("add").plans("mul");
        world.start_run(&script).await;
        assert!(world.deliver(&script).await.status.is_success());
        let running = world.page("/runs/r1").await;
        assert_eq!(running.attributes("main", "data-refresh-secs"), ["5"]);
        assert_eq!(running.table("Counts per suite")[0][5], "1", "missing");
        world.seal(&script, 1).await;
        assert_eq!(world.page("/runs/r1").await.count("[data-refresh-secs]"), 0);
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_filter_and_a_page_number_stand_in_the_address(pool: PgPool) {
    scenario(pool, async |world| {
        let mut script = run("many");
        for place in 0..230 {
            script = script.passes(&format!("op{place:03}"));
        }
        let script = script.observes("odd", protocol::Outcome::Crash);
        world.finish_run(&script).await;
        let first = world.page("/runs/many").await;
        let rows = first.table("Cases with verdict");
        assert_eq!((rows.len(), rows[0][1].as_str()), (100, "crash"), "the worst first");
        assert_eq!(first.texts(".pager span")[0], "1–100 of 231");
        let last = world.page("/runs/many?page=3").await;
        assert_eq!(last.table("Cases with verdict").len(), 31);
        let narrow = world.page("/runs/many?text=OP00&page=1").await;
        assert_eq!(narrow.table("Cases with verdict").len(), 10);
        assert_eq!(narrow.attributes("input[name=text]", "value"), ["OP00"]);
        let none = world.page("/runs/many?outcome=oom").await;
        assert!(none.main_text().contains("No case matches"));
    })
    .await;
}
