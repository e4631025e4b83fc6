//! Batches of one run that come at the same time, and what is held for them.

use axum::http::StatusCode;
use futures_util::future::join_all;
use protocol::Outcome;
use sqlx::PgPool;

use super::builders::{Script, run};
use super::harness::{Options, scenario, scenario_with};

const SOURCES: u32 = 4;
const CASES: usize = 40;

/// What one of the sources saw: the same cases as the others, but not the same.
fn seen_by(key: &str, source: u32) -> Script {
    let mut script = run(key);
    for number in 0..CASES {
        let outcome = if number % SOURCES as usize == source as usize {
            Outcome::Crash
        } else {
            Outcome::Pass
        };
        script = script.observes_with(&format!("c{number}"), outcome, |attempt| {
            let own = format!("aten::op{source}.Tensor");
            let calls = [("aten::add.Tensor".to_owned(), u64::from(source) + 1), (own, 1)];
            attempt.evidence.operators = Some(calls.into());
        });
    }
    script.sent_as(&format!("j{source}"), source + 1, SOURCES)
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn sources_that_execute_the_same_cases_at_once_lose_nothing(pool: PgPool) {
    scenario_with(pool, Options { ingest_limit: Some(64), ..Options::default() }, async |world| {
        let (at_once, in_turn) = ("at-once", "in-turn");
        for key in [at_once, in_turn] {
            world.start_run(&seen_by(key, 0)).await;
        }
        let whole = |key| (0..SOURCES).map(move |source| seen_by(key, source));
        let batches: Vec<Script> = whole(at_once)
            .flat_map(|script| (0..CASES).step_by(8).map(move |from| script.slice(from, 8)))
            .collect();
        // Twice, as when an answer is lost.
        let sends = batches.iter().chain(&batches).map(|batch| world.deliver(batch));
        for answer in join_all(sends).await {
            assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        }
        for script in whole(in_turn) {
            world.deliver(&script).await;
        }
        let attempts = "SELECT count(DISTINCT (run_id, case_id, source)) FROM attempts";
        assert_eq!(world.count(attempts).await, 2 * 160);
        let numbers =
            "SELECT count(*) FROM case_verdicts v WHERE attempts = 4 AND operators <> '{}'
                       AND 4 = (SELECT max(attempt) FROM attempts a
                                WHERE a.run_id = v.run_id AND a.case_id = v.case_id)";
        assert_eq!(world.count(numbers).await, 2 * 40);
        let calls = "SELECT count(*) FROM operator_cases t JOIN operators o ON o.id = operator_id
                     WHERE overload = 'aten::add.Tensor' AND calls = 4";
        assert_eq!(world.count(calls).await, 2 * 40, "the most of all of them stands");
        let received = "SELECT count(*) FROM run_sources WHERE received = 40";
        assert_eq!(world.count(received).await, 2 * 4);
        let script = seen_by(at_once, 0);
        assert_eq!(world.verdicts(&script).await, world.verdicts(&seen_by(in_turn, 0)).await);
        world.check_tallies().await;
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_seal_between_batches_counts_what_is_there(pool: PgPool) {
    scenario_with(pool, Options { ingest_limit: Some(64), ..Options::default() }, async |world| {
        let script = seen_by("r1", 0);
        world.start_run(&script).await;
        let parts: Vec<Script> = (0..CASES).step_by(4).map(|from| script.slice(from, 4)).collect();
        let sends = join_all(parts.iter().map(|part| world.deliver(part)));
        let seals = join_all((0..6).map(|_| world.seal(&script, CASES as u64)));
        let (sent, sealed) = futures_util::join!(sends, seals);
        assert!(sent.iter().all(|answer| answer.status == StatusCode::OK));
        let whole = [StatusCode::OK, StatusCode::CONFLICT];
        assert!(sealed.iter().all(|answer| whole.contains(&answer.status)));
        let last = world.seal(&script, CASES as u64).await;
        assert_eq!(last.status, StatusCode::OK, "{}", last.text);
        assert_eq!(last.json()["judged"], CASES);
        world.check_tallies().await;
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn what_was_derived_for_a_run_goes_with_it(pool: PgPool) {
    scenario(pool, async |world| {
        let touching = |script: Script| {
            script.observes_with("a", Outcome::Pass, |attempt| {
                attempt.evidence.operators = Some([("aten::add.Tensor".to_owned(), 1)].into());
            })
        };
        world.finish_run(&touching(run("r1")).observes("b", Outcome::Crash)).await;
        let later = run("r2").started("2026-12-01T02:00:00Z");
        world.finish_run(&touching(later)).await;
        let with_baseline = "SELECT count(*) FROM case_verdicts WHERE baseline_run_id IS NOT NULL";
        assert_eq!(world.count(with_baseline).await, 1);
        let delete = "WITH gone AS (DELETE FROM runs WHERE key = 'r1' RETURNING id)
                      SELECT count(*) FROM gone";
        assert_eq!(world.count(delete).await, 1);
        let left = "SELECT (SELECT count(*) FROM operator_cases) * 10000
                         + (SELECT count(*) FROM manifest_entries) * 100
                         + (SELECT count(*) FROM case_verdicts)";
        assert_eq!(world.count(left).await, 10_101);
        assert_eq!(world.count(with_baseline).await, 0);
    })
    .await;
}
