//! The text of every page, as somebody who cannot see its colours reads it.

use super::builders::run;
use super::harness::{Options, World, scenario, scenario_with};
use super::pages_world::{self, DYNAMISM, FIRST_NIGHT, RUNNING, SECOND_NIGHT};
use protocol::Outcome;
use sqlx::PgPool;

const GATE: &str = r#"title = "Nightly"
[[rule]]
name = "operators"
suite = "operators"
device = "tpu-sim"
planned_min = 5
pass_rate_min = 0.9
new_fail_max = 0
stale_hours = 26

[[rule]]
name = "tier2"
suite = "tier2"
planned_min = 1
stale_hours = 26
"#;

/// Snapshots the text of a page's `<main>`; times and addresses in it are fixed by the test.
async fn check(world: &World, name: &str, path: &str) {
    let page = world.page(path).await;
    insta::assert_snapshot!(name, page.main_text(), &format!("GET {path}"));
}

pub(crate) fn case_path(run: &str, name: &str) -> String {
    format!("/runs/{run}/cases/operators%2Fopinfo%3A{name}%230%2Ffloat32.eager.forward")
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn every_page_reads_as_it_should(pool: PgPool) {
    let options = Options { gates: vec![("nightly", GATE.to_owned())], ..Options::default() };
    scenario_with(pool, options, async |world| {
        pages_world::fill(&world).await;
        for (name, path) in [
            ("home", "/".to_owned()),
            ("runs", "/runs".to_owned()),
            ("run", format!("/runs/{SECOND_NIGHT}")),
            ("run_filtered", format!("/runs/{SECOND_NIGHT}?verdict=regressed")),
            ("run_running", format!("/runs/{RUNNING}")),
            ("case_crash", case_path(SECOND_NIGHT, "scatter_reduce.sum")),
            ("case_mismatch", case_path(SECOND_NIGHT, "cumprod")),
            ("case_missing", case_path(SECOND_NIGHT, "linalg.svd")),
            (
                "case_sweep",
                format!(
                    "/runs/{DYNAMISM}/cases/dynamism%2Fopinfo%3Abert%230%2Ffloat32.eager.forward"
                ),
            ),
            ("operators", "/operators?device=tpu-sim".to_owned()),
            ("operators_family", "/operators?device=tpu-sim&family=general".to_owned()),
            ("entries", "/operators?view=entries&device=tpu-sim".to_owned()),
            ("overloads", "/operators?view=overloads&device=tpu-sim".to_owned()),
            ("operator_entry", "/operators/add?device=tpu-sim".to_owned()),
            ("operator_overload", "/operators/aten%3A%3A_fft_r2c?device=tpu-sim".to_owned()),
            ("models", "/models?device=tpu-sim".to_owned()),
            ("model", "/models/opinfo%3Abert?device=tpu-sim".to_owned()),
            ("gates", "/gates".to_owned()),
            ("compare", format!("/compare?a={FIRST_NIGHT}&b={SECOND_NIGHT}")),
            ("claims", "/claims?device=tpu-sim".to_owned()),
            ("devices", "/devices".to_owned()),
            ("search", "/search?q=fft".to_owned()),
            ("gate", "/gates/nightly".to_owned()),
        ] {
            check(&world, name, &path).await;
        }
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn an_empty_server_says_what_to_do(pool: PgPool) {
    scenario(pool, async |world| {
        for (name, path) in [
            ("empty_home", "/"),
            ("empty_runs", "/runs"),
            ("empty_operators", "/operators"),
            ("empty_entries", "/operators?view=entries"),
            ("empty_overloads", "/operators?view=overloads"),
            ("empty_models", "/models"),
            ("empty_gates", "/gates"),
            ("empty_blockers", "/blockers"),
            ("empty_compare", "/compare"),
            ("empty_waivers", "/waivers"),
            ("empty_claims", "/claims"),
            ("empty_devices", "/devices"),
            ("empty_search", "/search"),
        ] {
            check(&world, name, path).await;
        }
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_wrong_address_gets_a_page_that_helps(pool: PgPool) {
    scenario(pool, async |world| {
        world.finish_run(&run("r1").observes("add", Outcome::Pass)).await;
        let mut seen = String::new();
        for (path, status) in [
            ("/nothing", 404),
            ("/runs/no-such-run", 404),
            ("/runs/r1/cases/operators%2Fnothing", 404),
            ("/operators/aten%3A%3Anothing", 404),
            ("/models/nothing", 404),
            ("/gates/nothing", 404),
            ("/operators?run=no-such-run", 404),
            ("/runs?suite=tier9", 400),
            ("/runs?state=odd", 400),
            ("/runs?page=0", 400),
            ("/runs/r1?verdict=good", 400),
            ("/operators?view=odd", 400),
        ] {
            let page = world.page_with(path, status).await;
            let text = page.main_text();
            let id = page.text("main code");
            assert_eq!(id.len(), 16, "{id}");
            seen.push_str(&format!("GET {path}\n{}\n", text.replace(&id, "[request id]")));
        }
        insta::assert_snapshot!("errors", seen);
    })
    .await;
}
