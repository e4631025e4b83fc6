//! What pages can be switched to: classes, definitions and forms of operators, groups and places of
//! models, queries over the cases of a run. Whatever is chosen, a sum is that of its children.

use std::collections::BTreeSet;

use protocol::coverage::Definition;
use protocol::inventory::{Class, operator_of};
use protocol::{Outcome, Suite};
use serde_json::json;
use sqlx::PgPool;

use super::builders::{Script, run};
use super::harness::{Options, World, scenario, scenario_with};
use super::inventories;
use super::pages_dom::Page;
use super::pages_numbers::{add, number, ratio};
use super::pages_world::{self, SECOND_NIGHT, TIER1};

/// Columns of the families' table from the first class on.
fn classes(row: &[String]) -> Vec<u64> {
    row[row.len() - 5..].iter().map(|text| number(text)).collect()
}

/// The families' table: its last line is the sum of the others, its classes what is counted.
#[track_caller]
fn check_families(page: &Page, path: &str) -> Vec<String> {
    let rows = page.table("Families of ATen by class");
    let (total, families) = rows.split_last().unwrap();
    for column in 1..total.len() {
        if total[column].ends_with('%') || total[column] == "none" {
            continue;
        }
        let sum: u64 = families.iter().map(|row| number(&row[column])).sum();
        assert_eq!(sum, number(&total[column]), "{path}: column {column}");
    }
    for row in &rows {
        assert_eq!(classes(row).iter().sum::<u64>(), number(&row[1]), "{path}: {row:?}");
    }
    total.clone()
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn every_definition_and_class_adds_up_and_equals_the_api(pool: PgPool) {
    scenario(pool, async |world| {
        pages_world::fill(&world).await;
        let (status, text) = inventories::put(&world, SECOND_NIGHT, &inventories::build()).await;
        assert!(status.is_success(), "{text}");
        let api = world.get_json(&format!("/api/v1/runs/{SECOND_NIGHT}/coverage")).await;
        for definition in Definition::ALL {
            let path = format!(
                "/operators?view=overloads&sort=name&run={SECOND_NIGHT}&definition={definition}"
            );
            let page = world.page(&path).await;
            let Some(of_api) = api["coverage"]
                .as_array()
                .unwrap()
                .iter()
                .find(|one| one["definition"] == definition.as_str())
            else {
                continue;
            };
            if of_api["denominator"] == 0 {
                continue;
            }
            let total = check_families(&page, &path);
            assert_eq!(total[1], of_api["denominator"].to_string(), "{path}");
            assert_eq!(total[2], of_api["numerator"].to_string(), "{path}");
            // The lines below are the overloads that were counted, or those of the operators.
            let names: Vec<String> =
                page.table("Overloads that cases").into_iter().map(|row| row[0].clone()).collect();
            let counted: BTreeSet<&str> = match of_api["unit"].as_str().unwrap() {
                "operators" => names.iter().map(|name| operator_of(name)).collect(),
                _ => names.iter().map(String::as_str).collect(),
            };
            assert_eq!(counted.len().to_string(), total[1], "{path}: {names:?}");
        }
        let all = "/operators?view=overloads&device=tpu-sim";
        let total = check_families(&world.page(all).await, all);
        let by_class = classes(&total);
        for (place, class) in Class::ALL.iter().enumerate() {
            let path = format!("{all}&class={class}");
            let page = world.page(&path).await;
            let shown = if by_class[place] == 0 {
                assert!(page.main_text().contains("No overload matches"), "{path}");
                0
            } else {
                let own = check_families(&page, &path);
                assert_eq!(number(&own[1]), by_class[place], "{path}");
                page.table("Overloads that cases").len() as u64
            };
            assert_eq!(shown, by_class[place], "{path}");
        }
        assert!(by_class.iter().filter(|count| **count > 0).count() > 2, "{by_class:?}");
        world.page_with("/operators?view=overloads&definition=odd", 400).await;
        world.page_with("/operators?class=odd", 400).await;
    })
    .await;
}

/// Passed and rated of the line of sums; nothing where no entry is left.
fn total_of(page: &Page) -> (u64, u64) {
    let rows = page.table("Families of operators");
    let (total, families) = rows.split_last().unwrap();
    let sum = families.iter().map(|row| ratio(&row[1])).fold((0, 0), add);
    assert_eq!(sum, ratio(&total[1]));
    sum
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn entries_of_a_form_or_a_class_add_up(pool: PgPool) {
    scenario(pool, async |world| {
        let script = run("r1").on("tpu-sim").passes("add").observes("relu", Outcome::Error);
        let script = script.passes("odd").passes_as("add", "float32.eager.train");
        let script = script.passes_as("add", "float32.eager.forward.out");
        world.finish_run(&script).await;
        let (status, text) = inventories::put(&world, "r1", &inventories::build()).await;
        assert!(status.is_success(), "{text}");
        let all = total_of(&world.page("/operators?view=entries").await);
        assert_eq!(all, (4, 5));
        let mut sum = (0, 0);
        for form in ["forward", "train", "forward, out"] {
            let form = form.replace(", ", "%2C%20");
            sum = add(
                sum,
                total_of(&world.page(&format!("/operators?view=entries&form={form}")).await),
            );
        }
        assert_eq!(sum, all, "forms are parts of the whole");
        for (class, expected) in [("native", (3, 3)), ("composite-implicit", (0, 1))] {
            let page = world.page(&format!("/operators?view=entries&class={class}")).await;
            assert_eq!(total_of(&page), expected, "{class}");
            let entries = page.table("Entries of the operator database");
            assert!(entries.iter().all(|row| row[0].ends_with(class)), "{entries:?}");
        }
        let refused = world.page_with("/operators?view=entries&form=sideways", 400).await;
        assert!(refused.main_text().contains("forward, out"), "{}", refused.main_text());
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn an_operator_names_its_waivers_and_the_verdicts_of_its_models(pool: PgPool) {
    scenario(pool, async |world| {
        pages_world::fill(&world).await;
        for (pattern, operator, until) in [
            ("operators/opinfo:fft.rfft*", None, "2026-12-05"),
            ("*", Some("aten::_fft_r2c"), "2026-12-24"),
            ("operators/opinfo:topk*", None, "2026-12-24"),
        ] {
            let mut body = json!({
                "case_pattern": pattern, "outcomes": ["unsupported", "error"],
                "reason": "not implemented yet", "owner": "kernels",
                "issue": "https://example.org/1", "author": "somebody", "expires_on": until,
            });
            if let Some(operator) = operator {
                body["operator"] = json!(operator);
            }
            let answer = world.post_json("/api/v1/waivers", &body).await;
            assert_eq!(answer.status.as_u16(), 201, "{}", answer.text);
        }
        for (name, waivers) in [("fft.rfft", 2), ("aten%3A%3A_fft_r2c", 2), ("topk", 1)] {
            let page = world.page(&format!("/operators/{name}?device=tpu-sim")).await;
            let rows = page.table("Waivers that touch it");
            assert_eq!(rows.len(), waivers, "{name}: {rows:?}");
            let days: Vec<&str> = rows.iter().map(|row| row[1].as_str()).collect();
            assert!(days.is_sorted(), "those that end first come first: {days:?}");
        }
        let page = world.page("/operators/add?device=tpu-sim").await;
        assert!(!page.main_text().contains("Waivers that touch it"), "nothing touches it");
        let page = world.page("/operators/aten%3A%3Amm?device=tpu-sim").await;
        let rows = page.table("Models that dispatch it");
        let api = world.get_json(&format!("/api/v1/models?run={TIER1}&suite=tier1")).await;
        let bert = &api["models"].as_array().unwrap()[0];
        assert_eq!(rows.len(), 1);
        let passed = format!("{}/{} pass", bert["passed"], bert["planned"]);
        assert_eq!(rows[0][..5], ["opinfo:bert", "30", &passed, "no case", "0/1 mismatch"]);
    })
    .await;
}

fn graph(script: Script, name: &str, graph: &str, executed_as: Option<&str>) -> Script {
    let other = executed_as.map(|name| script.case(name));
    script.observes_with(name, Outcome::Pass, |attempt| {
        attempt.evidence.graph_signature = Some(graph.to_owned());
        attempt.evidence.executed_as = other;
    })
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn models_have_places_and_groups(pool: PgPool) {
    let mut popularity = server::popularity::Popularity::default();
    let place = |rank: u64, count: u64| {
        format!("{{ rank = {rank}, count = {count}, snapshot = \"2026-10\", source = \"list\" }}")
    };
    let text = format!(
        "models = [{{ id = \"opinfo:c\", popularity = {} }}, {{ id = \"opinfo:b\", popularity = {} }}]",
        place(2, 30_575_964),
        place(7, 12)
    );
    popularity.add(&text).unwrap();
    let options = Options { popularity, ..Options::default() };
    scenario_with(pool, options, async |world| {
        let script = run("r1").of(Suite::Tier1);
        let script = graph(script, "a", "g-one", None);
        let script = graph(script, "b", "g-two", None);
        let script = graph(script, "c", "g-one", Some("a")).observes("d", Outcome::Crash);
        world.finish_run(&script).await;
        let names = |page: &Page| -> Vec<String> {
            let rows = page.table("Models by suite");
            let (total, models) = rows.split_last().unwrap();
            let sum = models.iter().map(|row| ratio(&row[3])).fold((0, 0), add);
            assert_eq!(sum, ratio(&total[3]));
            models.iter().map(|row| row[0].clone()).collect()
        };
        let page = world.page("/models").await;
        assert_eq!(names(&page), ["opinfo:a", "opinfo:b", "opinfo:c", "opinfo:d"]);
        let rows = page.table("Models by suite");
        assert_eq!(rows[0][1..3], ["", "g-one 2 models"]);
        assert_eq!(rows[1][1..3], ["7 2026-10", "g-two alone"]);
        assert_eq!(rows[2][2], "g-one 2 models, executed as opinfo:a");
        assert!(page.main_text().contains("3 models have 2 different graphs"));
        assert!(page.main_text().contains("1 have that of another model"));
        for (query, expected) in [
            ("sort=popularity", &["c", "b", "a", "d"][..]),
            ("sort=failing", &["d", "a", "b", "c"]),
            ("sort=rate", &["d", "a", "b", "c"]),
            ("sort=graph", &["a", "c", "b", "d"]),
            ("graph=g-one", &["a", "c"]),
            ("show=shared", &["c"]),
            ("show=executed&sort=popularity", &["b", "a"]),
        ] {
            let page = world.page(&format!("/models?{query}")).await;
            let expected: Vec<String> = expected.iter().map(|n| format!("opinfo:{n}")).collect();
            assert_eq!(names(&page), expected, "{query}");
        }
        let page = world.page("/models/opinfo%3Ac").await;
        let text = page.main_text();
        assert!(text.contains("place 2 with 30,575,964 by list, 2026-10"), "{text}");
        assert_eq!(world.count("SELECT count(*) FROM case_graphs").await, 3);
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_query_selects_the_same_cases_on_the_page_as_in_the_api(pool: PgPool) {
    scenario(pool, async |world| {
        pages_world::fill(&world).await;
        let script = run("mixed").passes("a_b").observes("aXb", Outcome::Crash);
        let script = script.passes_as("a_b", "bfloat16.compile.train.out");
        world.finish_run(&script).await;
        let mut selected = BTreeSet::new();
        for key in [SECOND_NIGHT, TIER1, "mixed"] {
            for query in [
                "",
                "fft",
                "RFFT",
                "!fft",
                "a_b",
                "*a_b*",
                "op:a_b",
                "op:a?b",
                "op:add",
                "op:aten._fft_r2c",
                "op:scatter_reduce",
                "op:aten.scatter_reduce",
                "op:!cumprod",
                "suite:operators",
                "suite:!operators",
                "suite:tier*",
                "model:bert",
                "model:!bert",
                "model:*BERT*",
                "dtype:fp32",
                "dtype:bf16,fp16",
                "mode:eager",
                "direction:train",
                "layout:plain",
                "layout:out",
                "layout:!plain",
                "outcome:!pass",
                "outcome:crash,mismatch",
                "verdict:regressed",
                "stage:execute",
                "stage:!execute",
                "error:SIGABRT",
                "error:runtime*",
                "message:\"is not implemented\"",
                "message:!implemented",
                "message:\"3 of 64\"",
                "outcome:!pass verdict:!missing op:!topk",
                "100%",
            ] {
                let encoded: String = percent_encoding::utf8_percent_encode(
                    query,
                    percent_encoding::NON_ALPHANUMERIC,
                )
                .collect();
                let api = world
                    .get_json(&format!("/api/v1/runs/{key}/cases?limit=1000&q={encoded}"))
                    .await;
                let mut expected: Vec<String> = api["cases"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|case| case["case"].as_str().unwrap().to_owned())
                    .collect();
                let page = world.page(&format!("/runs/{key}?q={encoded}")).await;
                let mut shown: Vec<String> = page
                    .attributes("table.cases tbody th a", "href")
                    .iter()
                    .filter_map(|href| href.split("/cases/").nth(1))
                    .map(|part| {
                        let text = percent_encoding::percent_decode_str(part);
                        text.decode_utf8().unwrap().into_owned()
                    })
                    .collect();
                expected.sort();
                shown.sort();
                assert_eq!(shown, expected, "{key}: {query}");
                assert_eq!(page.attributes("input[name=q]", "value"), [query]);
                selected.insert(shown);
            }
        }
        assert!(selected.len() > 20, "the queries tell cases apart");
        let wrong = world.page_with("/runs/mixed?q=op%3Aadd%20dtype%3Aflaot", 400).await;
        let text = wrong.main_text();
        assert!(text.contains("`q` cannot be read at `flaot`, character 14"), "{text}");
    })
    .await;
}

/// Numbers of a timeline and of a distribution are those of the attempts.
#[sqlx::test(migrator = "server::MIGRATOR")]
async fn charts_hold_every_attempt_once(pool: PgPool) {
    scenario(pool, async |world: World| {
        pages_world::fill(&world).await;
        let page = world.page(&format!("/runs/{SECOND_NIGHT}/timeline")).await;
        let lanes = page.table("Attempts by lane");
        let sum: u64 = lanes.iter().map(|row| number(&row[1])).sum();
        let script = pages_world::second_night();
        assert_eq!(sum, script.len() as u64);
        let api = world.get_json(&format!("/api/v1/runs/{SECOND_NIGHT}")).await;
        assert_eq!(api["attempts"], sum);
        assert_eq!(page.table("Attempts, the longest first").len(), script.len());
        assert_eq!(page.count("svg.timeline"), 1);
        let empty = world.page("/runs/now-operators/timeline").await;
        assert_eq!(empty.count("svg.timeline"), 1, "a running one has what has arrived");

        let page = world.page("/operators/cumprod?device=tpu-sim").await;
        let rows = page.table("Outputs by distance in ULP");
        let outputs: u64 = rows[0][1..].iter().map(|text| number(text)).sum();
        assert_eq!((rows.len(), rows[0][0].as_str(), outputs), (1, "float32", 1));
        assert_eq!(page.count("svg.distribution"), 1);
    })
    .await;
}
