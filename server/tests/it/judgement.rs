//! Verdicts as they come out of the whole: attempts, history, waivers.

use protocol::Outcome;
use sqlx::PgPool;

use super::builders::run;
use super::harness::{World, scenario};

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_regression_is_against_the_last_known_pass(pool: PgPool) {
    // TRIALS S12: pass, missing, fail; and pass, fail, fail.
    scenario(pool, async |world| {
        let night = |key: &str, day: u32| run(key).started(&format!("2026-11-{day}T02:00:00Z"));
        world.finish_run(&night("n1", 10).passes("a").passes("b")).await;
        world.finish_run(&night("n2", 11).plans("a").observes("b", Outcome::Error)).await;
        let third = night("n3", 12).observes("a", Outcome::Error).observes("b", Outcome::Error);
        world.finish_run(&third).await;
        let expected = [("a", "regressed"), ("b", "regressed")];
        assert_eq!(world.verdicts(&third).await, owned(&expected));
        let cases = world.get_json(&third.path("/cases")).await;
        assert_eq!(cases["cases"][1]["baseline_run"], "n1");
        let fourth = night("n4", 13).passes("a").observes("b", Outcome::Error);
        world.finish_run(&fourth).await;
        assert_eq!(world.verdicts(&fourth).await, owned(&[("a", "fixed"), ("b", "regressed")]));
    })
    .await;
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn history_is_of_the_same_device_before_the_run_and_counts_no_void_run(pool: PgPool) {
    scenario(pool, async |world| {
        let early = "2026-11-01T00:00:00Z";
        world.finish_run(&run("cuda").on("cuda").started(early).passes("a")).await;
        world.finish_run(&run("later").started("2026-11-30T11:00:00Z").passes("a")).await;
        world.finish_run(&run("void").started(early).passes("a")).await;
        let body = serde_json::json!({"reason": "the wrong wheel was installed"});
        let answer = world.post_json("/api/v1/runs/void/void", &body).await;
        assert_eq!(answer.status.as_u16(), 204, "{}", answer.text);
        let open = run("open").started(early).passes("a");
        world.start_run(&open).await;
        world.deliver(&open).await;
        let script = run("r1").observes("a", Outcome::Crash);
        world.finish_run(&script).await;
        assert_eq!(world.verdict(&script).await, "failed");
        world.seal(&open, 1).await;
        world.seal(&script, 1).await;
        assert_eq!(world.verdict(&script).await, "regressed", "sealing again judges again");
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_retry_that_fails_again_is_no_flake_and_every_attempt_stays(pool: PgPool) {
    // TRIALS S18, S17.
    scenario(pool, async |world| {
        let script = run("r1")
            .observes("again", Outcome::Mismatch)
            .observes("again", Outcome::Mismatch)
            .observes("flaky", Outcome::Crash)
            .passes("flaky")
            .observes("cold", Outcome::Infra)
            .passes("cold");
        world.finish_run(&script).await;
        let expected = [("again", "failed"), ("flaky", "flaky"), ("cold", "passed")];
        assert_eq!(world.verdicts(&script).await, owned(&expected));
        let cases = world.get_json(&script.path("/cases?verdict=flaky")).await;
        assert_eq!(cases["cases"][0]["outcome"], "crash", "the worst one stands");
        assert_eq!(cases["cases"][0]["attempts"], 2);
        assert_eq!(world.count("SELECT count(*) FROM attempts").await, 6);
        let refused =
            sqlx::query("UPDATE attempts SET outcome = 'pass'").execute(&world.pool).await;
        assert!(refused.unwrap_err().to_string().contains("append-only"));
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn infrastructure_is_neither_failure_nor_regression_and_keeps_a_run_incomplete(pool: PgPool) {
    // TRIALS S21.
    scenario(pool, async |world| {
        world.finish_run(&run("n1").started("2026-11-01T00:00:00Z").passes("a").passes("b")).await;
        let script = run("n2")
            .observes_with("a", Outcome::Infra, |a| a.message = "device busy".to_owned())
            .passes("b")
            .plans("c");
        let sealed = world.finish_run(&script).await;
        assert_eq!(sealed["completeness"], "incomplete");
        assert_eq!(sealed["judged"], 1);
        let expected = [("a", "inconclusive"), ("b", "passed"), ("c", "missing")];
        assert_eq!(world.verdicts(&script).await, owned(&expected));
        let body = world.get_json("/api/v1/runs/n2").await;
        assert_eq!(body["suites"][0]["counted"], 2, "missing counts, infra does not: {body}");
        assert_eq!(body["suites"][0]["passed"], 1);
        let filtered = world.get_json(&script.path("/cases?outcome=infra")).await;
        assert_eq!(filtered["cases"].as_array().unwrap().len(), 1);
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn planned_cases_are_there_from_the_start(pool: PgPool) {
    scenario(pool, async |world| {
        let script = run("r1").plans("a").plans("b");
        world.start_run(&script).await;
        let missing = [("a", "missing"), ("b", "missing")];
        assert_eq!(world.verdicts(&script).await, owned(&missing));
        world.check_tallies().await;
    })
    .await;
}

/// A waiver as a person would make it.
async fn waive(world: &World, pattern: &str, expires_on: &str) {
    sqlx::query(
        "INSERT INTO waivers (case_pattern, outcomes, reason, owner, issue, author, approver,
                              created_at, expires_on)
         VALUES ($1, '{unsupported}', 'no FFT on this chip yet', 'numerics',
                 'https://example.com/1', 'ada', 'grace', '2026-11-01', $2::date)",
    )
    .bind(pattern)
    .bind(chrono::NaiveDate::parse_from_str(expires_on, "%F").unwrap())
    .execute(&world.pool)
    .await
    .unwrap();
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_waived_case_keeps_its_true_outcome_and_a_pass_under_a_waiver_is_reported(pool: PgPool) {
    scenario(pool, async |world| {
        let script = run("r1")
            .observes("fft", Outcome::Unsupported)
            .observes("fft2", Outcome::Crash)
            .passes("rfft");
        for name in ["fft", "fft2", "rfft"] {
            waive(&world, script.case(name).as_str(), "2026-12-24").await;
        }
        world.finish_run(&script).await;
        let expected = [("fft", "waived"), ("fft2", "failed"), ("rfft", "unexpected pass")];
        assert_eq!(world.verdicts(&script).await, owned(&expected));
        let cases = world.get_json(&script.path("/cases")).await;
        assert_eq!(cases["cases"][0]["outcome"], "unsupported");
        world.check_tallies().await;
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_waiver_needs_two_people_a_reason_an_issue_and_an_end(pool: PgPool) {
    scenario(pool, async |world| {
        let good = [
            "a case",
            "no FFT on this chip yet",
            "me",
            "https://example.com/1",
            "ada",
            "grace",
            "2026-12-24",
        ];
        let insert = async |values: [&'static str; 7]| {
            let [pattern, reason, owner, issue, author, approver, expires] = values;
            sqlx::query(
                "INSERT INTO waivers (case_pattern, outcomes, reason, owner, issue, author,
                                      approver, created_at, expires_on)
                 VALUES ($1, '{crash}', $2, $3, $4, $5, $6, '2026-11-01', $7::date)",
            )
            .bind(pattern)
            .bind(reason)
            .bind(owner)
            .bind(issue)
            .bind(author)
            .bind(approver)
            .bind(chrono::NaiveDate::parse_from_str(expires, "%F").unwrap())
            .execute(&world.pool)
            .await
        };
        assert!(insert(good).await.is_ok());
        for (place, bad) in [
            (0, ""),
            (1, "broken"),
            (2, " "),
            (3, "see chat"),
            (4, ""),
            (5, " ADA "),
            (6, "2029-01-01"),
        ] {
            let mut values = good;
            values[place] = bad;
            assert!(insert(values).await.is_err(), "{place}: {bad:?}");
        }
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn any_order_and_split_of_the_batches_gives_the_same_verdicts(pool: PgPool) {
    scenario(pool, async |world| {
        let outcomes = Outcome::ALL;
        let make = |key: &str| {
            let mut script = run(key);
            for (number, outcome) in outcomes.iter().enumerate() {
                script = script.observes(&format!("c{number}"), *outcome);
                script = script.observes(&format!("c{number}"), outcomes[(number * 7) % 11]);
            }
            script
        };
        let mut answers = Vec::new();
        for (key, size, backwards) in
            [("a", 22, false), ("b", 1, false), ("c", 3, true), ("d", 5, true)]
        {
            let script = make(key);
            world.start_run(&script).await;
            let mut batches: Vec<_> =
                (0..22).step_by(size).map(|first| script.slice(first, size)).collect();
            if backwards {
                batches.reverse();
            }
            for batch in &batches {
                world.deliver(batch).await;
            }
            world.deliver(&batches[0]).await;
            let sealed = world.seal(&script, 22).await.json();
            answers.push((world.verdicts(&script).await, sealed));
        }
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:#?}");
        world.check_tallies().await;
    })
    .await;
}
