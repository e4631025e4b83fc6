//! Runs in shards: sealed one by one, lost, executed twice, contradicting each other.

use std::time::Duration;

use protocol::Outcome;
use serde_json::json;
use sqlx::PgPool;

use super::builders::{Script, run};
use super::harness::{Options, World, scenario, scenario_with};

const SILENCE: Duration = Duration::from_secs(6 * 3600);

/// Three cases, each of a shard of its own.
fn whole() -> Script {
    run("r1").passes("a").passes("b").passes("c")
}

/// Delivers one case of [`whole`] from a shard and seals that shard.
async fn finish_shard(world: &World, shard: u32) -> serde_json::Value {
    let first = usize::try_from(shard).unwrap() - 1;
    let script = whole().slice(first, 1).sent_as(&format!("j{shard}"), shard, 3);
    world.start_run(&script).await;
    assert_eq!(world.deliver(&script).await.json()["stored"], 1);
    let sealed = world.seal(&script, 1).await;
    assert_eq!(sealed.status.as_u16(), 200, "{}", sealed.text);
    sealed.json()
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_run_is_sealed_with_its_last_shard_and_runs_until_then(pool: PgPool) {
    let gate = "title = \"t\"\n[[rule]]\nname = \"r\"\nsuite = \"operators\"\ndevice = \"tpu\"\n\
                planned_min = 1\nstale_hours = 26\n";
    let options = Options { gates: vec![("nightly", gate.to_owned())], ..Options::default() };
    scenario_with(pool, options, async |world| {
        let sealed = finish_shard(&world, 3).await;
        assert_eq!(sealed["waiting_for"], json!([1, 2]));
        assert_eq!(sealed["completeness"], "incomplete");
        let sealed = finish_shard(&world, 1).await;
        assert_eq!(sealed["waiting_for"], json!([2]));
        let shown = world.get_json("/api/v1/runs/r1").await;
        assert_eq!(shown["state"], "running");
        assert_eq!(shown["completeness"], json!(null));
        assert_eq!(shown["sources"][0]["shard"], 3);
        let answer = world.gate("nightly", "latest").await;
        assert_eq!(answer["answer"], "incomplete");
        assert_eq!(answer["rules"][0]["checks"][0]["reason"], "running");
        let again = whole().slice(0, 1).sent_as("j1", 1, 3);
        assert_eq!(world.seal(&again, 1).await.json(), sealed, "it can be repeated");
        let sealed = finish_shard(&world, 2).await;
        assert_eq!(sealed["waiting_for"], json!(null));
        assert_eq!(sealed["completeness"], "complete");
        let shown = world.get_json("/api/v1/runs/r1").await;
        assert_eq!(shown["state"], "sealed");
        assert_eq!(shown["sealed_by"], "runner");
        assert_eq!(world.gate("nightly", "latest").await["answer"], "open");
        world.check_tallies().await;
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_lost_shard_is_closed_by_silence_and_completes_the_run_when_it_comes(pool: PgPool) {
    // TRIALS S03.
    scenario(pool, async |world| {
        finish_shard(&world, 1).await;
        finish_shard(&world, 3).await;
        world.set_now("2026-11-30T19:00:00Z");
        server::ingest::close_silent_runs(&world.state, SILENCE).await.unwrap();
        let shown = world.get_json("/api/v1/runs/r1").await;
        assert_eq!(shown["completeness"], "incomplete");
        assert_eq!(shown["sealed_by"], "silence");
        let verdicts = world.verdicts(&whole()).await;
        assert_eq!(verdicts[1], ("b".to_owned(), "missing".to_owned()), "no regression of it");
        finish_shard(&world, 2).await;
        let shown = world.get_json("/api/v1/runs/r1").await;
        assert_eq!(shown["completeness"], "complete");
        assert_eq!(shown["sealed_by"], "runner");
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn what_a_shard_lost_is_not_made_up_by_what_another_sent(pool: PgPool) {
    // TRIALS S02, with shards.
    scenario(pool, async |world| {
        let script = run("r1").passes("a").passes("b").passes("c").passes("d");
        let [first, second] = [1, 2].map(|n| script.clone().sent_as(&format!("j{n}"), n, 2));
        world.start_run(&first).await;
        world.deliver(&second.slice(2, 2)).await;
        world.seal(&second, 2).await;
        world.deliver(&first.slice(0, 1)).await;
        let refusal = world.seal(&first, 2).await.refusal(409);
        assert!(refusal.contains("has 1 attempts of shard 1 of 2 here"), "{refusal}");
        assert!(refusal.contains("the seal says 2"), "{refusal}");
        assert_eq!(world.get_json("/api/v1/runs/r1").await["state"], "running");
        world.deliver(&first.slice(0, 2)).await;
        assert_eq!(world.seal(&first, 2).await.json()["completeness"], "complete");
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn of_a_case_in_two_shards_the_worst_stands_and_is_flagged_and_a_gap_is_missing(
    pool: PgPool,
) {
    // TRIALS S17: case x in both, pass and fail; case y in neither.
    scenario(pool, async |world| {
        for (key, order) in [("r1", [0, 1]), ("r2", [1, 0])] {
            let plan = run(key).plans("x").plans("y").plans("z");
            let shards = [
                plan.clone().passes("x").passes("z").sent_as("j1", 1, 2),
                plan.clone().observes("x", Outcome::Mismatch).sent_as("j2", 2, 2),
            ];
            world.start_run(&plan).await;
            for place in order {
                let shard = &shards[place];
                world.start_run(shard).await;
                let answer = world.deliver(shard).await;
                assert_eq!(answer.json()["stored"], shard.len(), "{}", answer.text);
                assert_eq!(world.deliver(shard).await.json()["replayed"], shard.len());
                world.seal(shard, shard.len() as u64).await;
            }
            let shown = world.get_json(&plan.path("")).await;
            assert_eq!(shown["completeness"], "incomplete");
            assert_eq!(shown["attempts"], 3);
            let cases = world.get_json(&plan.path("/cases")).await;
            let [x, y, z] = [0, 1, 2].map(|place| cases["cases"][place].clone());
            assert_eq!(x["outcome"], "mismatch");
            assert_eq!(x["verdict"], "failed", "two shards that differ are no flake");
            assert_eq!(x["overlapping"], true);
            assert_eq!(x["attempts"], 2);
            assert_eq!(y["verdict"], "missing");
            assert_eq!(z["verdict"], "passed");
            assert_eq!(z["overlapping"], false);
        }
        world.check_tallies().await;
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn shards_that_planned_or_divided_differently_are_refused(pool: PgPool) {
    // TRIALS S17.
    scenario(pool, async |world| {
        let script = whole().sent_as("j1", 1, 3);
        world.start_run(&script).await;
        world.deliver(&script.slice(0, 1)).await;
        let other_plan = run("r1").plans("a").plans("b");
        let refusal = world.plan(&other_plan).await.refusal(409);
        assert!(refusal.contains("must plan the same cases"), "{refusal}");
        for (journal, shard, shards) in [("j1", 2, 3), ("j1", 1, 4), ("j2", 2, 4)] {
            let other = whole().slice(1, 1).sent_as(journal, shard, shards);
            let refusal = world.deliver(&other).await.refusal(409);
            assert!(
                refusal.contains("of another division into shards")
                    || refusal.contains("shard 1 of 3"),
                "{refusal}"
            );
            world.seal(&other, 0).await.refusal(409);
        }
        for (journal, shard, shards) in
            [("", 1, 3), ("a b", 1, 3), ("j9", 0, 3), ("j9", 4, 3), ("j9", 1, 0), ("j9", 1, 99_999)]
        {
            let bad = whole().sent_as(journal, shard, shards);
            world.deliver(&bad).await.refusal(400);
            world.seal(&bad, 0).await.refusal(400);
        }
        assert_eq!(world.count("SELECT count(*) FROM attempts").await, 1);
        assert_eq!(world.count("SELECT count(*) FROM run_sources").await, 1);
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_shard_executed_again_elsewhere_merges_and_the_late_result_of_the_first_is_kept(
    pool: PgPool,
) {
    // TRIALS S20: three shards, the runner of the second one is killed for good.
    scenario(pool, async |world| {
        finish_shard(&world, 1).await;
        finish_shard(&world, 3).await;
        let dead = run("r1").passes("a").observes("b", Outcome::Timeout).passes("c");
        let dead = dead.slice(1, 1).sent_as("dead", 2, 3);
        world.set_now("2026-11-30T19:00:00Z");
        server::ingest::close_silent_runs(&world.state, SILENCE).await.unwrap();
        assert_eq!(world.get_json("/api/v1/runs/r1").await["state"], "sealed");
        finish_shard(&world, 2).await;
        assert_eq!(world.get_json("/api/v1/runs/r1").await["completeness"], "complete");
        assert_eq!(world.verdicts(&whole()).await[1].1, "passed");
        // What the first one had left on its disk arrives after all: another attempt, once.
        assert_eq!(world.deliver(&dead).await.json()["stored"], 1);
        assert_eq!(world.deliver(&dead).await.json()["replayed"], 1);
        let cases = world.get_json("/api/v1/runs/r1/cases").await;
        assert_eq!(cases["cases"][1]["attempts"], 2);
        assert_eq!(cases["cases"][1]["outcome"], "timeout");
        assert_eq!(cases["cases"][1]["overlapping"], true);
        let shown = world.get_json("/api/v1/runs/r1").await;
        assert_eq!(shown["attempts"], 4);
        assert_eq!(shown["planned"], 3);
        assert_eq!(shown["judged"], 3);
        assert_eq!(finish_shard_again(&world).await, "complete");
        world.check_tallies().await;
    })
    .await;
}

async fn finish_shard_again(world: &World) -> serde_json::Value {
    let script = whole().slice(1, 1).sent_as("j2", 2, 3);
    world.seal(&script, 1).await.json()["completeness"].clone()
}

/// A generator that gives the same numbers every time, so that a failure can be repeated.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn any_order_split_and_repetition_of_the_batches_of_shards_gives_the_same_verdicts(
    pool: PgPool,
) {
    scenario(pool, async |world| {
        let mut numbers = Numbers(7);
        // Two shards that overlap, with retries, over every pair of outcomes that matters.
        let outcomes = Outcome::ALL;
        let fill = |round: u32, journal: u32| {
            // On a device of its own, so that rounds are not each other's history.
            let mut script = run(&format!("r{round}")).on(&format!("device-{round}"));
            for number in 0..outcomes.len() {
                script = script.plans(&format!("c{number}"));
            }
            for (number, outcome) in outcomes.iter().enumerate() {
                if number % 2 == 0 || journal == 1 {
                    script = script.observes(&format!("c{number}"), *outcome);
                }
                if number % 3 == 0 {
                    let second = outcomes[(number * 7 + journal as usize) % outcomes.len()];
                    script = script.observes(&format!("c{number}"), second);
                }
            }
            script.sent_as(&format!("j{journal}"), journal, 2)
        };
        let mut expected = None;
        for round in 0..25 {
            let shards = [fill(round, 1), fill(round, 2)];
            world.start_run(&shards[0]).await;
            // Every attempt in at least one batch, some in several, in any order.
            let mut batches: Vec<Script> = Vec::new();
            for shard in &shards {
                let mut places: Vec<usize> = (0..shard.len()).collect();
                for end in (1..places.len()).rev() {
                    places.swap(end, numbers.below(end + 1));
                }
                let mut rest = &places[..];
                while !rest.is_empty() {
                    let (now, later) = rest.split_at(1 + numbers.below(rest.len()));
                    batches.push(shard.pick(now));
                    rest = later;
                }
            }
            for _ in 0..3 {
                batches.push(batches[numbers.below(batches.len())].clone());
            }
            for end in (1..batches.len()).rev() {
                batches.swap(end, numbers.below(end + 1));
            }
            for batch in &batches {
                let answer = world.deliver(batch).await;
                assert_eq!(answer.status.as_u16(), 200, "{}", answer.text);
            }
            for shard in &shards {
                world.seal(shard, shard.len() as u64).await;
            }
            let cases = world.get_json(&shards[0].path("/cases")).await["cases"].clone();
            let expected = expected.get_or_insert_with(|| cases.clone());
            assert_eq!(*expected, cases, "round {round}");
        }
        world.check_tallies().await;
    })
    .await;
}
