//! The commands of an operator: retention, export and import, a gate file tried on past runs.

use std::collections::HashSet;

use protocol::Outcome;
use server::db::Db;
use server::gates;
use server::judge::gate::GateFile;
use server::retention::{self, Days, Fate};
use server::transfer;
use sqlx::PgPool;

use super::builders::{Script, run};
use super::harness::{Options, World, at, scenario, scenario_with};
use super::{artifacts, inventories};

const DAYS: Days = Days { evidence: 90, nightly: 400, void: 30, other: 60 };

fn labelled(key: &str, started: &str, label: &str) -> Script {
    run(key).started(started).label(label)
}

async fn plan(world: &World, pinned: &[&str]) -> Vec<(String, Fate)> {
    let pinned: HashSet<String> = pinned.iter().map(|key| (*key).to_owned()).collect();
    let now = at(super::harness::NOW);
    let planned = retention::plan(&world.state.db, DAYS, &pinned, now).await.unwrap();
    planned.into_iter().map(|planned| (planned.run.key, planned.fate)).collect()
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn retention_deletes_by_class_in_small_batches_and_keeps_baselines(pool: PgPool) {
    scenario(pool, async |world| {
        for script in [
            labelled("release", "2020-01-01T00:00:00Z", "release").passes("r").passes("s"),
            labelled("old", "2025-01-01T00:00:00Z", "nightly").passes("x").passes("y"),
            // The last known pass of `a` for a run that stays.
            labelled("base", "2025-02-01T00:00:00Z", "nightly").passes("a").passes("x"),
            labelled("aged", "2026-08-01T00:00:00Z", "nightly").passes("x"),
            labelled("trial", "2026-09-01T00:00:00Z", "mine").passes("x"),
            labelled("new", "2026-11-30T00:00:00Z", "nightly").observes("a", Outcome::Crash),
        ] {
            world.finish_run(&script).await;
        }
        let all = plan(&world, &[]).await;
        let expected = [
            ("old", Fate::Delete),
            ("base", Fate::DropEvidence),
            ("aged", Fate::DropEvidence),
            ("trial", Fate::Delete),
        ];
        assert_eq!(all, expected.map(|(key, fate)| (key.to_owned(), fate)));
        let pinned = plan(&world, &["trial"]).await;
        assert_eq!(pinned[3], ("trial".to_owned(), Fate::DropEvidence), "a gate pins it");
        assert_eq!(world.count("SELECT count(*) FROM runs").await, 6, "nothing went yet");

        let now = at(super::harness::NOW);
        let db = world.state.db.clone();
        for planned in retention::plan(&db, DAYS, &HashSet::new(), now).await.unwrap() {
            let rows = retention::carry_out(&db, &planned, 1).await.unwrap();
            assert!(rows >= 1);
        }
        assert_eq!(world.count("SELECT count(*) FROM runs").await, 4);
        assert_eq!(world.count("SELECT count(*) FROM attempts").await, 3, "release and new");
        assert!(plan(&world, &[]).await.iter().all(|(_, fate)| *fate == Fate::Keep));
        let verdict = world.get_json("/api/v1/runs/new/cases").await;
        assert_eq!(verdict["cases"][0]["verdict"], "regressed");
        assert_eq!(verdict["cases"][0]["baseline_run"], "base");
        assert_eq!(world.get("/runs/aged").await.status.as_u16(), 200, "its verdicts stay");

        // What is final takes nothing in and is not judged again.
        let aged = labelled("aged", "2026-08-01T00:00:00Z", "nightly").passes("x");
        let refusal = world.deliver(&aged).await.refusal(409);
        assert!(refusal.contains("no longer kept"), "{refusal}");
        world.finish_run(&labelled("late", "2026-07-01T00:00:00Z", "nightly").passes("x")).await;
        server::ingest::judge_due_runs(&world.state).await.unwrap();
        assert_eq!(world.verdicts(&aged).await[0].1, "passed");

        let parts = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'attempts'::regclass";
        let before = world.count(parts).await;
        let today = now.date_naive();
        let dropped = server::db::retention::drop_empty_parts(db.pool(), today).await.unwrap();
        assert_eq!(dropped, 2, "those of the months of `old` and `trial`");
        assert_eq!(world.count(parts).await, before - dropped);
        let logged = "SELECT count(*) FROM audit_log WHERE action LIKE 'run.d%'";
        assert_eq!(world.count(logged).await, 4);
        world.check_tallies().await;
    })
    .await;
}

/// Everything that the API says of some runs.
async fn shown(world: &World, keys: &[&str]) -> Vec<String> {
    let mut shown = Vec::new();
    for key in keys {
        let mut body = world.get_json(&format!("/api/v1/runs/{key}")).await;
        // What the receiving server knows by itself.
        for field in ["created_by", "created_at", "sealed_at"] {
            body.as_object_mut().unwrap().remove(field);
        }
        for source in body["sources"].as_array_mut().unwrap() {
            source.as_object_mut().unwrap().remove("sealed_at");
        }
        shown.push(body.to_string());
        let cases = world.get_json(&format!("/api/v1/runs/{key}/cases")).await;
        for case in cases["cases"].as_array().unwrap() {
            let key_of_case = case["case"].as_str().unwrap();
            let encoded = percent_encoding::utf8_percent_encode(
                key_of_case,
                percent_encoding::NON_ALPHANUMERIC,
            );
            let path = format!("/api/v1/runs/{key}/attempts?case={encoded}");
            let mut attempts = world.get_json(&path).await;
            for attempt in attempts["attempts"].as_array_mut().unwrap() {
                attempt.as_object_mut().unwrap().remove("received_at");
            }
            shown.push(case.to_string());
            shown.push(attempts.to_string());
        }
    }
    shown
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn what_is_exported_and_imported_is_the_same(pool: PgPool) {
    use sqlx::Executor as _;
    const KEYS: [&str; 4] = ["n1", "n2", "cut", "void"];
    scenario(pool, async |world| {
        world.finish_run(&run("n1").started("2026-11-28T00:00:00Z").passes("a").passes("b")).await;
        let whole =
            run("n2").passes("a").observes("b", Outcome::Crash).observes("b", Outcome::Pass);
        for shard in [whole.slice(0, 1).sent_as("j1", 1, 2), whole.slice(1, 2).sent_as("j2", 2, 2)]
        {
            world.start_run(&shard).await;
            world.deliver(&shard).await;
            world.seal(&shard, shard.len() as u64).await;
        }
        let cut = run("cut").passes("a").plans("b");
        world.start_run(&cut).await;
        world.deliver(&cut).await;
        world.finish_run(&run("void").started("2026-11-29T00:00:00Z").passes("a")).await;
        let reason = serde_json::json!({"reason": "the wrong wheel was installed"});
        world.post_json("/api/v1/runs/void/void", &reason).await;
        server::ingest::judge_due_runs(&world.state).await.unwrap();
        // One that nobody sorted, shared by two runs, one of which has no manifest.
        let mut build = inventories::build();
        build["overloads"].as_array_mut().unwrap().reverse();
        world.announce(&run("bare")).await;
        for key in ["n2", "bare"] {
            let (status, text) = inventories::put(&world, key, &build).await;
            assert_eq!(status.as_u16(), 200, "{text}");
        }
        // Of two sources, one of them in two attempts; and of one that names no source.
        let files = [
            ("n2", "a", 1, Some("j1"), "a.txt", &b"\xff\0"[..]),
            ("n2", "b", 1, Some("j2"), "a.txt", b"other"),
            ("n2", "b", 2, Some("j2"), "b.txt", b"\xff\0"),
            ("n1", "b", 1, None, "a.txt", b"other"),
        ];
        for (key, case, attempt, journal, name, contents) in files {
            let hash = artifacts::hash(contents);
            artifacts::put(&world, &hash, contents).await;
            let case = run(key).case(case);
            let body = serde_json::json!({
                "journal": journal,
                "artifacts": [{"case": case, "attempt": attempt, "name": name, "sha256": hash}],
            });
            let named = world.post_json(&format!("/api/v1/runs/{key}/artifacts"), &body).await;
            assert_eq!(named.status.as_u16(), 204, "{}", named.text);
        }
        let before = shown(&world, &KEYS).await;
        let with_files = |told: &[String]| told.iter().filter(|t| t.contains(".txt")).count();
        assert_eq!(with_files(&before), 3, "cases of which files are shown");

        let mut file = Vec::new();
        let db: Db = world.state.db.clone();
        let written = transfer::export(&db, &[], &mut file).await.unwrap();
        assert_eq!((written.runs, written.attempts), (5, 7));
        let none = "nosuch".parse().unwrap();
        let error = transfer::export(&db, &[none], &mut Vec::new()).await.unwrap_err();
        assert!(error.to_string().contains("no run `nosuch`"), "{error}");

        // Into the same server: nothing is new.
        let again = transfer::import(&db, &mut &file[..]).await.unwrap();
        assert_eq!(again.attempts, 0, "{again:?}");
        let left_out: Vec<&str> = again.left_out.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(left_out, ["void"], "a withdrawn run takes nothing in: {again:?}");
        assert_eq!(world.count("SELECT count(*) FROM attempts").await, 7);
        // Into an empty one: the same. Twice, to show that it can be repeated.
        let wipe = "DELETE FROM runs; DELETE FROM attempts; DELETE FROM signatures;
                    DELETE FROM operators; DELETE FROM cases; DELETE FROM inventories;
                    DELETE FROM artifacts";
        world.pool.execute(wipe).await.unwrap();
        for _ in 0..2 {
            transfer::import(&db, &mut &file[..]).await.unwrap();
        }
        server::ingest::judge_due_runs(&world.state).await.unwrap();
        let after = shown(&world, &KEYS).await;
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(before, after);
        }
        assert_eq!(before.len(), after.len());
        for key in ["n2", "bare"] {
            let inventory = world.get_json(&format!("/api/v1/runs/{key}/inventory")).await;
            assert_eq!(inventory, inventories::build(), "{key}");
        }
        assert_eq!(world.count("SELECT count(*) FROM inventories").await, 1);
        assert_eq!(world.count("SELECT count(*) FROM artifacts").await, 2);
        assert_eq!(world.count("SELECT count(*) FROM attempt_artifacts").await, 4);
        let error = transfer::import(&db, &mut &b"{\"surprise\": 1}\n"[..]).await.unwrap_err();
        assert!(error.to_string().contains("line 1 is not one"), "{error}");
        world.check_tallies().await;
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_changed_gate_file_is_tried_on_past_runs_as_they_were_and_stores_nothing(pool: PgPool) {
    let rules = |more: &str| {
        format!(
            "title = \"t\"\n[[rule]]\nname = \"r\"\nsuite = \"operators\"\ndevice = \"tpu\"\n\
             planned_min = 1\nstale_hours = 26\n{more}"
        )
    };
    let options = Options { gates: vec![("nightly", rules(""))], ..Options::default() };
    scenario_with(pool, options, async |world| {
        for (key, day) in [("n1", 1), ("n2", 2), ("n3", 3)] {
            let start = format!("2026-11-{day:02}T02:00:00Z");
            world.set_now(&format!("2026-11-{day:02}T05:00:00Z"));
            let script = run(key).started(&start).passes("a").passes("b");
            let script = if day == 2 { script.observes("c", Outcome::Crash) } else { script };
            world.finish_run(&script).await;
        }
        world.set_now("2026-11-30T12:00:00Z");
        world.finish_run(&run("again").passes("a").rerun_of("n2")).await;
        let changed = rules("pass_rate_min = 0.9\n");
        let changed = GateFile::parse("nightly", "changed.toml", &changed).unwrap();
        let past = gates::past_runs(&world.state, &changed, None, 10).await.unwrap();
        let keys: Vec<&str> = past.iter().map(|run| run.key.as_str()).collect();
        assert_eq!(keys, ["n3", "n2", "n1"], "newest first, no rerun");
        let mut answers = Vec::new();
        for run in &past {
            let at = run.sealed_at.unwrap();
            let mut of_run = Vec::new();
            for gate in [world.state.gates.find("nightly").unwrap(), &changed] {
                let asked = gates::evaluate_once(&world.state, gate, &run.key, None, at).await;
                of_run.push(asked.unwrap().0.answer.to_string());
            }
            answers.push(of_run);
        }
        // None is stale, although all of them are by now.
        assert_eq!(answers, [["open", "open"], ["open", "closed"], ["open", "open"]]);
        assert_eq!(world.count("SELECT count(*) FROM gate_evaluations").await, 0);
    })
    .await;
}
