//! Verdicts that are no longer right: judged again when what they rest on changes.

use protocol::Outcome;
use serde_json::json;
use sqlx::PgPool;

use super::builders::{Script, run};
use super::harness::{Options, World, scenario, scenario_with};

fn night(key: &str, day: u32) -> Script {
    run(key).started(&format!("2026-11-{day:02}T02:00:00Z"))
}

async fn settle(world: &World) -> usize {
    server::ingest::judge_due_runs(&world.state).await.unwrap()
}

fn options() -> Options {
    let gate = "title = \"t\"\n[[rule]]\nname = \"r\"\nsuite = \"operators\"\ndevice = \"tpu\"\n\
                planned_min = 1\nnew_fail_max = 0\nstale_hours = 10000\n";
    Options { gates: vec![("nightly", gate.to_owned())], ..Options::default() }
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_run_pushed_late_changes_what_later_runs_are_compared_with(pool: PgPool) {
    scenario_with(pool, options(), async |world| {
        let last = night("n3", 28).observes("a", Outcome::Crash).passes("b");
        world.finish_run(&last).await;
        let other_device = night("c3", 28).on("cuda").observes("a", Outcome::Crash);
        world.finish_run(&other_device).await;
        assert_eq!(world.verdicts(&last).await[0].1, "failed");
        assert_eq!(settle(&world).await, 0);

        // From the disk of a runner that was offline for two nights.
        world.finish_run(&night("n1", 26).passes("a").observes("b", Outcome::Error)).await;
        assert_eq!(settle(&world).await, 1, "only the later run on the same device");
        let verdicts = world.verdicts(&last).await;
        assert_eq!(verdicts[0].1, "regressed");
        assert_eq!(verdicts[1].1, "fixed");
        let cases = world.get_json(&last.path("/cases")).await;
        assert_eq!(cases["cases"][0]["baseline_run"], "n1");
        assert_eq!(settle(&world).await, 0);

        // A result that comes after the seal changes it as well.
        let middle = night("n2", 27).passes("b").passes("a");
        world.start_run(&middle).await;
        world.deliver(&middle.slice(0, 1)).await;
        world.seal(&middle, 1).await;
        settle(&world).await;
        let baseline = async || {
            let cases = world.get_json(&last.path("/cases")).await;
            cases["cases"][0]["baseline_run"].clone()
        };
        assert_eq!(baseline().await, "n1");
        world.deliver(&middle.slice(1, 1)).await;
        settle(&world).await;
        assert_eq!(baseline().await, "n2");

        // Withdrawn, it is nobody's baseline.
        let reason = json!({"reason": "the wrong wheel was installed"});
        for key in ["n1", "n2"] {
            world.post_json(&format!("/api/v1/runs/{key}/void"), &reason).await;
        }
        settle(&world).await;
        assert_eq!(world.verdicts(&last).await[0].1, "failed");
        assert_eq!(world.verdict(&other_device).await, "failed");
        world.check_tallies().await;
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn the_gate_does_not_wait_for_the_periodic_job(pool: PgPool) {
    scenario_with(pool, options(), async |world| {
        world.finish_run(&night("n2", 28).observes("a", Outcome::Crash)).await;
        assert_eq!(world.gate("nightly", "latest").await["answer"], "open", "it never passed");
        world.finish_run(&night("n1", 27).passes("a")).await;
        assert_eq!(world.count("SELECT count(*) FROM rejudge_queue").await, 1);
        assert_eq!(world.gate("nightly", "latest").await["answer"], "closed");
        assert_eq!(world.count("SELECT count(*) FROM rejudge_queue").await, 0);
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn the_end_of_a_waiver_changes_the_stored_verdicts(pool: PgPool) {
    scenario(pool, async |world| {
        let script = night("n1", 29).observes("fft", Outcome::Unsupported).passes("rfft");
        world.finish_run(&script).await;
        for name in ["fft", "rfft"] {
            let waiver = json!({
                "case_pattern": script.case(name), "outcomes": ["unsupported"],
                "reason": "no FFT on this chip yet", "owner": "numerics",
                "issue": "https://example.com/1", "author": "ada", "expires_on": "2026-12-24",
            });
            let made = world.post_json("/api/v1/waivers", &waiver).await;
            assert_eq!(made.status.as_u16(), 201, "{}", made.text);
        }
        let verdicts = async || {
            let verdicts = world.verdicts(&script).await;
            (verdicts[0].1.clone(), verdicts[1].1.clone())
        };
        assert_eq!(verdicts().await, ("waived".to_owned(), "unexpected pass".to_owned()));
        world.set_now("2026-12-23T23:59:59Z");
        assert_eq!(settle(&world).await, 0);
        world.set_now("2026-12-24T00:00:00Z");
        assert_eq!(settle(&world).await, 1);
        assert_eq!(verdicts().await, ("failed".to_owned(), "passed".to_owned()));
        assert_eq!(settle(&world).await, 0);
        world.check_tallies().await;
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_rerun_of_what_came_out_badly_is_nobodys_newest_run(pool: PgPool) {
    scenario_with(pool, options(), async |world| {
        world.finish_run(&night("n1", 27).passes("a").passes("b")).await;
        world.finish_run(&night("n2", 28).passes("a").observes("b", Outcome::Crash)).await;
        world.finish_run(&night("again", 29).passes("b").rerun_of("n2")).await;
        let answer = world.gate("nightly", "latest").await;
        assert_eq!(answer["rules"][0]["run"], "n2");
        assert_eq!(answer["answer"], "closed");
        assert_eq!(world.gate("nightly", "again").await["answer"], "open", "it may be asked for");
        assert_eq!(world.get_json("/api/v1/models").await["run"], "n2");
        let home = world.get("/").await.text;
        assert!(home.contains("/runs/n2"), "{home}");
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn what_pages_add_up_is_kept_for_sealed_runs_and_made_anew_when_one_changes(pool: PgPool) {
    scenario(pool, async |world| {
        let summarised = async || {
            let sealed = "SELECT count(*) FROM runs WHERE summarised";
            let rows = "SELECT count(*) FROM run_subjects";
            (world.count(sealed).await, world.count(rows).await)
        };
        let run = night("n1", 28).passes("a").observes("b", Outcome::Crash);
        let run = run.observes_with("c", Outcome::Pass, |attempt| {
            attempt.evidence.operators = Some([("aten::c".to_owned(), 1)].into());
        });
        let page =
            async |view: &str| world.get(&format!("/operators?run=n1&view={view}")).await.text;
        world.start_run(&run).await;
        world.deliver(&run.slice(0, 2)).await;
        assert_eq!(summarised().await, (0, 0), "an open run is counted when it is looked at");
        world.seal(&run, 2).await;
        assert_eq!(summarised().await.0, 1);
        assert_eq!(server::ingest::summarise_due_runs(&world.state).await.unwrap(), 0);
        let before = (page("matrix").await, page("entries").await);
        let run_page = async || world.get("/runs/n1").await.text;
        let missing = run_page().await;
        assert_eq!(run_page().await, missing, "what is kept in memory says the same");

        // A result that comes after the seal is on the page before the sums are made again.
        world.deliver(&run.slice(2, 1)).await;
        assert_eq!(summarised().await.0, 0);
        let counted = (page("matrix").await, page("entries").await);
        assert_ne!(before.0, counted.0);
        assert_ne!(before.1, counted.1);
        assert_ne!(run_page().await, missing, "what is kept in memory is not older than the run");
        assert_eq!(server::ingest::summarise_due_runs(&world.state).await.unwrap(), 1);
        assert_eq!(summarised().await.0, 1);
        assert_eq!((page("matrix").await, page("entries").await), counted);
        let overloads = page("overloads").await;
        world.check_tallies().await;

        // A replay changes nothing, and a verdict that changes does.
        world.deliver(&run.slice(0, 2)).await;
        assert_eq!(summarised().await.0, 1);
        sqlx::query("UPDATE runs SET summarised = false").execute(&world.pool).await.unwrap();
        assert_eq!(page("overloads").await, overloads);
        world.finish_run(&night("n0", 27).passes("b")).await;
        assert_eq!(settle(&world).await, 1);
        assert_eq!(server::ingest::summarise_due_runs(&world.state).await.unwrap(), 1);
        world.check_tallies().await;
        assert_eq!(world.verdicts(&run).await[1].1, "regressed");
    })
    .await;
}

/// What one night is made of, by cases: nothing planned, or an outcome.
type Night = Vec<Option<Outcome>>;

/// The last known pass of each case of a night, straight from its definition: the newest earlier
/// night that passed it, of those that are here and were not withdrawn.
fn baselines(nights: &[Night], here: &[usize], place: usize) -> Vec<Option<usize>> {
    (0..nights[place].len())
        .filter(|case| nights[place][*case].is_some())
        .map(|case| {
            (0..place)
                .rev()
                .find(|night| here.contains(night) && nights[*night][case] == Some(Outcome::Pass))
        })
        .collect()
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn whatever_comes_late_or_is_withdrawn_baselines_are_those_of_the_definition(pool: PgPool) {
    use rand::seq::{IndexedRandom as _, SliceRandom as _};
    use rand::{RngExt as _, SeedableRng as _};
    const OUTCOMES: [Option<Outcome>; 6] = [
        None,
        Some(Outcome::Pass),
        Some(Outcome::Crash),
        Some(Outcome::Mismatch),
        Some(Outcome::Infra),
        Some(Outcome::Skipped),
    ];
    scenario(pool, async |world| {
        for seed in 0..8 {
            let mut random = rand::rngs::StdRng::seed_from_u64(seed);
            let nights: Vec<Night> = (0..12)
                .map(|_| (0..6).map(|_| *OUTCOMES.choose(&mut random).unwrap()).collect())
                .collect();
            let key = |place: usize| format!("s{seed}n{place}");
            let script = |place: usize| {
                let day = u32::try_from(place).unwrap() + 1;
                let mut script = night(&key(place), day).on(&format!("device{seed}"));
                for (case, outcome) in nights[place].iter().enumerate() {
                    if let Some(outcome) = outcome {
                        script = script.observes(&format!("c{case}"), *outcome);
                    }
                }
                script
            };
            let is_planned = |place: &usize| nights[*place].iter().any(Option::is_some);
            let mut order: Vec<usize> = (0..nights.len()).filter(is_planned).collect();
            order.shuffle(&mut random);
            let mut here = Vec::new();
            let reason = json!({"reason": "the wrong wheel was installed"});
            for place in order {
                world.finish_run(&script(place)).await;
                here.push(place);
                if random.random_bool(0.2) {
                    let gone = here.swap_remove(random.random_range(0..here.len()));
                    let path = format!("/api/v1/runs/{}/void", key(gone));
                    world.post_json(&path, &reason).await;
                }
                // A gate judges some run, before earlier ones that wait as well.
                let read = *here.choose(&mut random).unwrap_or(&place);
                let id: i64 = sqlx::query_scalar("SELECT id FROM runs WHERE key = $1")
                    .bind(key(read))
                    .fetch_one(world.state.db.pool())
                    .await
                    .unwrap();
                server::ingest::judge_if_due(&world.state, &[id]).await.unwrap();
                if random.random_bool(0.1) {
                    settle(&world).await;
                }
            }
            settle(&world).await;
            for place in &here {
                let cases = world.get_json(&script(*place).path("/cases")).await;
                let found = cases["cases"].as_array().unwrap().iter();
                let found: Vec<_> = found.map(|case| case["baseline_run"].clone()).collect();
                let expected: Vec<_> = baselines(&nights, &here, *place)
                    .into_iter()
                    .map(|night| json!(night.map(key)))
                    .collect();
                assert_eq!(found, expected, "{} of {here:?}", key(*place));
            }
        }
        world.check_tallies().await;
    })
    .await;
}
