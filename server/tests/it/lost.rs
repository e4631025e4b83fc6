//! Lost shards, lost runners, late results.

use std::time::Duration;

use protocol::Outcome;
use sqlx::PgPool;

use super::builders::run;
use super::harness::scenario;

const SILENCE: Duration = Duration::from_secs(6 * 3600);

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_lost_shard_leaves_the_run_incomplete_until_it_arrives(pool: PgPool) {
    // TRIALS S03: three shards plan the same manifest, the second never reports.
    scenario(pool, async |world| {
        world
            .finish_run(
                &run("n1").started("2026-11-01T00:00:00Z").passes("a").passes("b").passes("c"),
            )
            .await;
        let whole = run("n2").passes("a").passes("b").passes("c");
        world.start_run(&whole).await;
        world.start_run(&whole).await;
        world.deliver(&whole.slice(0, 1)).await;
        world.deliver(&whole.slice(2, 1)).await;
        let sealed = world.seal(&whole, 2).await.json();
        assert_eq!(sealed["completeness"], "incomplete");
        assert_eq!(sealed["missing"], 1);
        let verdicts = world.verdicts(&whole).await;
        assert_eq!(verdicts[1].1, "missing", "an absence is no regression");
        let listed = world.get_json("/api/v1/runs?completeness=complete").await;
        assert_eq!(listed["runs"].as_array().unwrap().len(), 1, "only n1 is complete");
        // Late, after the seal: taken in and judged again.
        world.deliver(&whole.slice(1, 1)).await;
        assert_eq!(world.get_json("/api/v1/runs/n2").await["completeness"], "complete");
        assert_eq!(world.verdicts(&whole).await[1].1, "passed");
        world.check_tallies().await;
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_runner_that_died_leaves_an_incomplete_run_and_its_rerun_merges(pool: PgPool) {
    // TRIALS S20.
    scenario(pool, async |world| {
        let first = run("r1").passes("a").observes("b", Outcome::Crash).plans("c");
        world.start_run(&first).await;
        world.deliver(&first.slice(0, 1)).await;
        world.set_now("2026-11-30T17:00:00Z");
        let close =
            async || server::ingest::close_silent_runs(&world.state, SILENCE).await.unwrap();
        assert_eq!(close().await, 0, "five hours are not six");
        world.set_now("2026-11-30T19:00:00Z");
        assert_eq!(close().await, 1);
        assert_eq!(close().await, 0);
        let body = world.get_json("/api/v1/runs/r1").await;
        assert_eq!(body["state"], "sealed");
        assert_eq!(body["completeness"], "incomplete");
        assert_eq!(body["sealed_by"], "silence");

        // Its shard is executed again elsewhere, and then its own last batch arrives after all:
        // the same attempt number, so the second one is refused and the first one stays.
        let rerun = run("r1").passes("a").passes("b").passes("c");
        world.deliver(&rerun.slice(1, 2)).await;
        world.deliver(&first).await.refusal(409);
        let sealed = world.seal(&rerun, 3).await.json();
        assert_eq!(sealed["completeness"], "complete");
        assert_eq!(world.seal(&rerun, 3).await.json(), sealed);
        assert_eq!(world.get_json("/api/v1/runs/r1").await["sealed_by"], "runner");
        assert_eq!(world.count("SELECT attempts FROM runs").await, 3);
        world.check_tallies().await;
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_run_that_never_got_its_manifest_is_closed_too(pool: PgPool) {
    scenario(pool, async |world| {
        let script = run("r1").passes("a");
        world.announce(&script).await;
        world.set_now("2026-12-01T12:00:00Z");
        server::ingest::close_silent_runs(&world.state, SILENCE).await.unwrap();
        assert_eq!(world.get_json("/api/v1/runs/r1").await["completeness"], "incomplete");
        world.plan(&script).await;
        world.deliver(&script).await;
        let body = world.get_json("/api/v1/runs/r1").await;
        assert_eq!(body["completeness"], "complete");
        assert_eq!(body["state"], "sealed");
        world.check_tallies().await;
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_withdrawn_run_takes_nothing_in_and_stays_readable(pool: PgPool) {
    scenario(pool, async |world| {
        let script = run("r1").passes("a").passes("b");
        world.start_run(&script).await;
        let path = script.path("/void");
        let short = serde_json::json!({"reason": "bad"});
        world.post_json(&path, &short).await.refusal(400);
        let body = serde_json::json!({"reason": "the wrong wheel was installed"});
        assert_eq!(world.post_json(&path, &body).await.status.as_u16(), 204);
        let refusal = world.deliver(&script).await.refusal(409);
        assert!(refusal.contains("was withdrawn"), "{refusal}");
        world.seal(&script, 0).await.refusal(409);
        let body = world.get_json("/api/v1/runs/r1").await;
        assert_eq!(body["completeness"], "void");
        assert_eq!(body["sealed_by"], "person");
        let logged = world.count("SELECT count(*) FROM audit_log WHERE action = 'run.void'").await;
        assert_eq!(logged, 1);
    })
    .await;
}
