//! The gate over the API: never open by absence.

use protocol::Outcome;
use serde_json::Value;
use sqlx::PgPool;

use super::builders::{Script, run};
use super::harness::{Options, World, scenario_with};

fn gate(rules: &str) -> Options {
    let text = format!(
        "title = \"Nightly\"\n[[rule]]\nname = \"operators\"\nsuite = \"operators\"\n\
         planned_min = 1\nstale_hours = 26\n{rules}"
    );
    Options { gates: vec![("nightly", text)], ..Options::default() }
}

fn check<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let checks = answer["rules"][0]["checks"].as_array().unwrap();
    checks.iter().find(|check| check["check"] == name).unwrap()
}

fn night(key: &str, cases: usize, delivered: usize) -> Script {
    let mut script = run(key);
    for number in 0..cases {
        let name = format!("c{number}");
        script = if number < delivered { script.passes(&name) } else { script.plans(&name) };
    }
    script
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_fraction_of_the_plan_is_incomplete_whatever_passed(pool: PgPool) {
    // TRIALS S04.
    let options = gate("device = \"tpu\"\npass_rate_min = 0.0\nnew_fail_max = 0\n");
    scenario_with(pool, options, async |world| {
        for (key, cases, delivered) in [("ten", 10, 1), ("thousand", 1000, 3)] {
            world.finish_run(&night(key, cases, delivered)).await;
            let answer = world.gate("nightly", key).await;
            assert_eq!(answer["answer"], "incomplete");
            let completeness = check(&answer, "completeness_min");
            assert_eq!(completeness["answer"], "incomplete");
            let text = completeness["text"].as_str().unwrap();
            assert!(text.contains(&format!("({delivered} of {cases})")), "{text}");
            assert_eq!(completeness["blocking_total"], cases - delivered);
            assert_eq!(answer["rules"][0]["counts"]["missing"], cases - delivered);
        }
        world.finish_run(&night("full", 10, 10)).await;
        assert_eq!(world.gate("nightly", "full").await["answer"], "open");
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn nothing_at_all_is_incomplete(pool: PgPool) {
    // TRIALS S05, S11: a candidate that is not stored, one that still runs, none at all.
    scenario_with(pool, gate("device = \"tpu\"\nnew_fail_max = 0\n"), async |world| {
        let incomplete = async |candidate: &str, reason: &str| {
            let answer = world.gate("nightly", candidate).await;
            assert_eq!(answer["answer"], "incomplete", "{answer}");
            assert_eq!(check(&answer, "run")["reason"], reason, "{answer}");
        };
        incomplete("latest", "no-data").await;
        incomplete("nosuch", "no-data").await;
        let script = night("r1", 3, 3);
        world.start_run(&script).await;
        world.deliver(&script).await;
        incomplete("r1", "running").await;
        incomplete("latest", "running").await;
        world.seal(&script, 3).await;
        assert_eq!(world.gate("nightly", "latest").await["answer"], "open");
        let newer = night("r2", 3, 0).started("2026-11-30T03:00:00Z");
        world.start_run(&newer).await;
        incomplete("latest", "running").await;
        let refusal = world.get("/api/v1/gates/weekly").await.refusal(404);
        assert!(refusal.contains("there is no gate `weekly`"), "{refusal}");
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn an_old_run_is_stale(pool: PgPool) {
    // TRIALS S07.
    scenario_with(pool, gate("device = \"tpu\"\n"), async |world| {
        world.finish_run(&night("old", 3, 3).started("2026-11-22T12:00:00Z")).await;
        let answer = world.gate("nightly", "latest").await;
        assert_eq!(answer["answer"], "incomplete");
        assert_eq!(check(&answer, "stale_hours")["reason"], "stale");
        assert!(check(&answer, "stale_hours")["text"].as_str().unwrap().contains("192 hours"));
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_pinned_baseline_that_is_not_there_is_no_baseline(pool: PgPool) {
    // TRIALS S11.
    let options = gate("device = \"tpu\"\nnew_fail_max = 0\nbaseline = \"release-1\"\n");
    scenario_with(pool, options, async |world| {
        let night = |key: &str| run(key).passes("a").observes("b", Outcome::Error);
        world.finish_run(&night("r1")).await;
        let reason = async |world: &World| {
            let answer = world.gate("nightly", "r1").await;
            let check = check(&answer, "new_fail_max");
            (answer["answer"].clone(), check["reason"].clone())
        };
        assert_eq!(reason(&world).await, ("incomplete".into(), "no-baseline".into()));
        let release = run("release-1").started("2026-11-01T00:00:00Z").passes("a").passes("b");
        world.start_run(&release).await;
        world.deliver(&release).await;
        assert_eq!(reason(&world).await.1, "no-baseline", "it is still running");
        world.seal(&release, 2).await;
        assert_eq!(reason(&world).await, ("closed".into(), "above".into()));
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_regression_closes_it_and_is_named(pool: PgPool) {
    scenario_with(pool, gate("device = \"tpu\"\nnew_fail_max = 0\n"), async |world| {
        world.finish_run(&run("n1").started("2026-11-29T02:00:00Z").passes("a").passes("b")).await;
        let script = run("n2")
            .passes("a")
            .observes_with("b", Outcome::Crash, |a| a.message = "SIGABRT".to_owned())
            .observes("new", Outcome::Error);
        world.finish_run(&script).await;
        let answer = world.gate("nightly", "latest").await;
        assert_eq!(answer["answer"], "closed");
        let blocking = &check(&answer, "new_fail_max")["blocking"];
        assert_eq!(blocking.as_array().unwrap().len(), 1, "a new case has no baseline");
        assert_eq!(blocking[0]["case"], script.case("b").as_str());
        assert_eq!(blocking[0]["verdict"], "regressed");
        assert_eq!(blocking[0]["outcome"], "crash");
        assert_eq!(blocking[0]["message"], "SIGABRT");
        let page = world.get(blocking[0]["page"].as_str().unwrap()).await;
        assert_eq!(page.status.as_u16(), 200);
        assert!(page.text.contains("opinfo:b#0"), "the link leads to the case");
        let page = world.get(answer["rules"][0]["page"].as_str().unwrap()).await;
        assert_eq!(page.status.as_u16(), 200);
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_simulated_run_counts_only_where_the_gate_names_its_device(pool: PgPool) {
    let rules = |device: &str| {
        format!(
            "title = \"t\"\n[[rule]]\nname = \"r\"\nsuite = \"operators\"\n{device}\
             planned_min = 1\nstale_hours = 26\n"
        )
    };
    let gates = vec![("any", rules("")), ("named", rules("device = \"tpu-sim\"\n"))];
    let options = Options { gates, ..Options::default() };
    scenario_with(pool, options, async |world| {
        world.finish_run(&night("sim", 3, 3).on("tpu-sim")).await;
        assert_eq!(world.gate("any", "latest").await["answer"], "incomplete");
        let answer = world.gate("any", "sim").await;
        assert_eq!(check(&answer, "run")["reason"], "simulated");
        let by_query = world.get_json("/api/v1/gates/any?candidate=sim&device=tpu-sim").await;
        assert_eq!(by_query["answer"], "incomplete", "asking for it is not naming it");
        let answer = world.gate("named", "latest").await;
        assert_eq!(answer["answer"], "open");
        assert_eq!(answer["rules"][0]["simulated"], true);
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn the_same_question_gets_the_same_bytes_and_is_stored_once(pool: PgPool) {
    scenario_with(pool, gate("device = \"tpu\"\n"), async |world| {
        world.finish_run(&night("r1", 3, 2)).await;
        let path = "/api/v1/gates/nightly?candidate=r1";
        let first = world.get(path).await.text;
        assert_eq!(world.get(path).await.text, first);
        assert_eq!(world.count("SELECT count(*) FROM gate_evaluations").await, 1);
        world.deliver(&night("r1", 3, 3)).await;
        assert_ne!(world.get(path).await.text, first);
        assert_eq!(world.count("SELECT count(*) FROM gate_evaluations").await, 2);
        let listed = world.get_json("/api/v1/gates").await;
        assert_eq!(listed["gates"][0]["name"], "nightly");
    })
    .await;
}
