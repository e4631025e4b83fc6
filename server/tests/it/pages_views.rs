//! The pages that look across runs: two side by side, waivers, published claims, devices, search.
//! Their numbers are those of the API.

use protocol::blockers::{Hindered, rank};
use protocol::evidence::Blocker;
use protocol::ingest_api::Attempt;
use protocol::{Outcome, Suite};
use serde_json::{Value, json};
use sqlx::PgPool;

use super::builders::{Script, run};
use super::harness::{World, scenario};
use super::pages_world::{self, FIRST_NIGHT, HARDWARE, SECOND_NIGHT, TIER1};

const HOSTILE: &str = "<img src=x onerror=alert(1)>/%2F..\"'&\u{202e}\u{5d0}";

fn of_api(counts: &Value, word: &str) -> String {
    counts[word].as_u64().unwrap_or(0).to_string()
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn two_runs_side_by_side_have_the_counts_of_the_api(pool: PgPool) {
    scenario(pool, async |world| {
        pages_world::fill(&world).await;
        let query = format!("a={FIRST_NIGHT}&b={SECOND_NIGHT}");
        let api = world.get_json(&format!("/api/v1/compare?{query}")).await;
        let page = world.page(&format!("/compare?{query}")).await;
        assert_eq!(page.text("h1"), format!("{FIRST_NIGHT} against {SECOND_NIGHT}"));
        assert!(page.main_text().contains(api["coverage"].as_str().unwrap()));
        let rows = page.table("Cases by category");
        assert_eq!(rows.len(), 10, "every category has its line");
        for row in &rows {
            assert_eq!(row[1], of_api(&api["counts"], &row[0]), "{row:?}");
        }
        let sides = page.table("The two runs");
        for (row, side) in sides.iter().zip(["a", "b"]) {
            assert_eq!(row[4], api[side]["planned"].to_string());
            assert_eq!(row[5], format!("{} of {}", api[side]["passed"], api["counted"]));
        }
        let changed = page.table("Cases in both runs");
        assert_eq!(changed.len(), api["cases"].as_array().unwrap().len());
        for (row, pair) in changed.iter().zip(api["cases"].as_array().unwrap()) {
            assert_eq!(row[0], pair["category"].as_str().unwrap());
            assert_eq!(row[3], pair["case"].as_str().unwrap());
        }
        let mut followed = 0;
        for href in page.attributes("table a[href^='/compare']", "href") {
            let category = href.split("category=").nth(1).unwrap().replace("%20", " ");
            let word = category.split('#').next().unwrap();
            let rows = world.page(&href).await.table("Cases in both runs");
            assert_eq!(rows.len().to_string(), of_api(&api["counts"], word), "{href}");
            assert!(rows.iter().all(|row| row[0] == word), "{rows:?}");
            followed += 1;
        }
        assert!(followed >= 4, "{followed}");
        let lead = world.page(&format!("/runs/{SECOND_NIGHT}")).await;
        let lead = lead.attributes("a[href^='/compare']", "href");
        assert_eq!(lead, [format!("/compare?{query}")], "the run before on this device");
        world.page_with("/compare?a=nothing&b=nothing", 404).await;
        world.page_with(&format!("/compare?{query}&category=odd"), 400).await;
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_long_comparison_has_pages_and_unlike_runs_say_so(pool: PgPool) {
    scenario(pool, async |world| {
        let many = |key: &str, day: u32, outcome| {
            let mut script = run(key).started(&format!("2026-11-{day:02}T02:00:00Z"));
            for place in 0..130 {
                script = script.observes(&format!("op{place:03}"), outcome);
            }
            script
        };
        world.finish_run(&many("a", 1, Outcome::Pass)).await;
        world.finish_run(&many("b", 2, Outcome::Mismatch).on("tpu-sim")).await;
        let first = world.page("/compare?a=a&b=b&category=regressed").await;
        assert_eq!(first.table("Cases in both runs").len(), 100);
        assert!(first.main_text().contains("One is simulated and the other is not"));
        let next = first.attributes("a[rel=next]", "href");
        let rest = world.page(next[0].split('#').next().unwrap()).await;
        assert_eq!(rest.table("Cases in both runs").len(), 30);
        assert_eq!(rest.count("a[rel=next]"), 0);
        let none = world.page("/compare?a=a&b=b&category=fixed").await;
        assert!(none.main_text().contains("No case is “fixed”"), "{}", none.main_text());
    })
    .await;
}

async fn waive(world: &World, pattern: &str, expires_on: &str, reason: &str) {
    let body = json!({
        "case_pattern": pattern, "outcomes": ["unsupported", "crash"], "reason": reason,
        "owner": "numerics", "issue": "javascript:alert(1)", "author": "ada",
        "expires_on": expires_on,
    });
    let mut answer = world.post_json("/api/v1/waivers", &body).await;
    if answer.status.as_u16() == 400 {
        let mut body = body;
        body["issue"] = "https://example.com/1".into();
        answer = world.post_json("/api/v1/waivers", &body).await;
    }
    assert_eq!(answer.status.as_u16(), 201, "{}", answer.text);
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn waivers_say_whom_they_cover_and_an_expired_one_is_loud(pool: PgPool) {
    scenario(pool, async |world| {
        pages_world::fill(&world).await;
        waive(&world, "operators/opinfo:fft*", "2026-12-10", "no FFT on this chip yet").await;
        waive(&world, "operators/opinfo:scatter*", "2026-12-05", HOSTILE).await;
        waive(&world, "*nothing*", "2027-06-01", "kept for a later test").await;
        let page = world.page("/waivers").await;
        let soon = page.table("Expiring within 14 days");
        assert_eq!(soon.len(), 2);
        let ends: Vec<&str> = soon.iter().map(|row| &row[1][..10]).collect();
        assert_eq!(ends, ["2026-12-05", "2026-12-10"], "the next one first");
        assert!(soon.iter().all(|row| row[2] == "1"), "{soon:?}");
        assert_eq!(page.table("Holding")[0][2], "0");
        let fft = page.table("Cases of waiver 1");
        assert!(fft[0][2].contains("fft.rfft") && fft[0][0] == "waived", "{fft:?}");
        assert!(page.main_text().contains("<img src=x onerror=alert(1)>"));
        assert!(!page.main_text().contains('\u{202e}'));
        assert_eq!(page.violations(), [""; 0]);
        let listed = world.get_json("/api/v1/waivers?expiring_within_days=14").await;
        assert_eq!(listed["waivers"].as_array().unwrap().len(), soon.len());
        assert!(world.page("/").await.main_text().contains("2 expiring within 14 days"));
        world.set_now("2026-12-05T00:00:00Z");
        let page = world.page("/waivers").await;
        let expired = page.table("Expired");
        assert_eq!((expired.len(), expired[0][2].as_str()), (1, "1"), "{expired:?}");
        assert!(page.texts("h2 .badge.loud").contains(&"Expired".to_owned()));
        assert!(page.main_text().contains("cases that it no longer forgives"));
        assert!(world.page("/").await.main_text().contains("1 expired"));
    })
    .await;
}

fn claim<'a>(rows: &'a [Vec<String>], title: &str) -> &'a [String] {
    rows.iter().find(|row| row[0] == title).unwrap_or_else(|| panic!("{title} in {rows:?}"))
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_claim_stands_beside_what_was_measured(pool: PgPool) {
    scenario(pool, async |world| {
        let empty = world.page("/claims").await.table("Published figures");
        assert!(empty.iter().all(|row| row[2] == "no data" && row[3] == "no data"), "{empty:?}");
        pages_world::fill(&world).await;
        let page = world.page("/claims?device=tpu-sim").await;
        let rows = page.table("Published figures");
        let tier1 = claim(&rows, "Tier 1");
        assert_eq!(tier1[1], "4,821 of 4,917 98.0 %");
        let api = world.get_json(&format!("/api/v1/models?run={TIER1}")).await;
        let models = api["models"].as_array().unwrap();
        let passed = models.iter().filter(|model| model["passed"] == model["planned"]).count();
        let measured = format!("{passed} of {} 50.0 % simulated", models.len());
        assert_eq!(tier1[2], measured);
        assert_eq!(tier1[3], "not comparable");
        for reason in ["simulated", "subjects: 2 here, 4,917 in the claim"] {
            assert!(tier1[4].contains(reason), "{reason} in {tier1:?}");
        }
        assert_eq!(tier1[5], "1");
        assert!(tier1[6].contains(TIER1), "{tier1:?}");
        assert_eq!(claim(&rows, "Tier 2")[2], "no data");
        let api = world.get_json(&format!("/api/v1/operators?run={SECOND_NIGHT}")).await;
        let operators = api["operators"].as_array().unwrap();
        let names = |passing: bool| {
            let mut names: Vec<&str> = operators
                .iter()
                .filter(|row| !passing || row["passed"].as_u64() > Some(0))
                .map(|row| row["operator"].as_str().unwrap())
                .collect();
            names.sort_unstable();
            names.dedup();
            names.len()
        };
        let ours = format!("{} of {}", names(true), names(false));
        assert!(claim(&rows, "ATen operators")[2].starts_with(&ours), "{ours}: {rows:?}");
        world.set_now("2026-12-02T12:00:00Z");
        let hardware = world.page("/claims?device=tpu").await.table("Published figures");
        let tier1 = claim(&hardware, "Tier 1");
        assert_eq!(tier1[2], "1 of 1 100 %");
        assert_eq!(tier1[3], "not comparable", "one model is not the claim");
        assert!(tier1[4].contains("stale"), "{tier1:?}");
        assert!(tier1[6].contains(HARDWARE));
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn devices_say_how_old_their_evidence_is(pool: PgPool) {
    scenario(pool, async |world| {
        pages_world::fill(&world).await;
        let rows = world.page("/devices").await.table("Devices by profile");
        let profiles: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
        assert_eq!(profiles, ["tpu", "tpu-sim simulated", "cpu"], "the most real one first");
        assert!(rows.iter().all(|row| !row[2].contains("stale")), "{rows:?}");
        assert!(rows[2][2].contains("nothing sealed"), "{rows:?}");
        let api = world.get_json("/api/v1/runs?device=tpu-sim").await;
        assert_eq!(rows[1][5], api["runs"].as_array().unwrap().len().to_string());
        world.set_now("2026-12-02T12:00:00Z");
        let later = world.page("/devices").await.table("Devices by profile");
        assert!(later[..2].iter().all(|row| row[2].contains("stale")), "{later:?}");
        let empty = world.page("/search").await;
        assert!(empty.main_text().contains("Write a part of a name"));
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_search_finds_every_kind_of_thing_by_a_part_of_its_name(pool: PgPool) {
    scenario(pool, async |world| {
        pages_world::fill(&world).await;
        let page = world.page("/search?q=BERT").await;
        assert_eq!(page.texts("h2")[0], "Models 1");
        let cases = page.table("Cases found");
        assert_eq!(cases.len(), 2, "{cases:?}");
        for word in ["fft_r2c", "cumprod", "night-2", "tpu-sim"] {
            let page = world.page(&format!("/search?q={word}")).await;
            assert!(page.count("main h2") > 0, "{word}: {}", page.main_text());
            for href in page.attributes("main a", "href") {
                assert_eq!(world.get(&href).await.status.as_u16(), 200, "{href}");
            }
        }
        let none = world.page("/search?q=no%25such%5Fthing").await;
        assert!(none.main_text().contains("Nothing has no%such_thing in its name"));
        let hostile: Script = run("hostile").of(Suite::Tier1).observes(HOSTILE, Outcome::Error);
        world.finish_run(&hostile).await;
        let page = world.page("/search?q=onerror").await;
        assert_eq!(page.violations(), [""; 0]);
        assert!(page.main_text().contains("<img src=x onerror=alert(1)>"));
        assert!(!page.main_text().contains('\u{202e}'));
        assert_eq!(page.table("Cases found").len(), 1);
        let rtl = world.page("/search?q=%E2%80%AE").await;
        assert_eq!(rtl.table("Cases found").len(), 1, "also by what is not seen");
        world.page_with(&format!("/search?q={}", "x".repeat(5000)), 400).await;
    })
    .await;
}

fn stopped_by(overloads: &'static [(&'static str, Outcome)]) -> impl FnOnce(&mut Attempt) {
    move |attempt| {
        let blocker = |(overload, outcome): &(&str, Outcome)| Blocker {
            overload: (*overload).to_owned(),
            outcome: *outcome,
            message: "not implemented".to_owned(),
        };
        attempt.evidence.blockers = Some(overloads.iter().map(blocker).collect());
    }
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn what_to_fix_first_is_ranked_as_the_runner_ranks_it(pool: PgPool) {
    scenario(pool, async |world| {
        let both = &[("aten::a", Outcome::Unsupported), ("aten::b", Outcome::Error)];
        let script = run("t1").of(Suite::Tier1).on("tpu-sim").passes("fine");
        let script = script
            .observes_with("one", Outcome::Unsupported, stopped_by(&[("aten::a", Outcome::Error)]))
            .observes_with("two", Outcome::Unsupported, stopped_by(both))
            .observes_with("three", Outcome::Error, stopped_by(&[("aten::b", Outcome::Error)]))
            .observes_with("four", Outcome::Error, stopped_by(&[("aten::b", Outcome::Error)]))
            .observes_with("host", Outcome::Error, stopped_by(&[("aten::c", Outcome::HostLimit)]))
            .observes("unknown", Outcome::Crash);
        world.finish_run(&script).await;
        let needs = |name: &str, operators: &[&str]| Hindered {
            model: script.case(name).to_string(),
            weight: 1,
            operators: operators.iter().map(ToString::to_string).collect(),
        };
        let hindered = [
            needs("one", &["aten::a"]),
            needs("two", &["aten::a", "aten::b"]),
            needs("three", &["aten::b"]),
            needs("four", &["aten::b"]),
        ];
        let page = world.page("/blockers?device=tpu-sim").await;
        let rows = page.table("Steps, the one");
        let steps = rank(&hindered);
        assert_eq!(rows.len(), steps.len());
        for (row, step) in rows.iter().zip(&steps) {
            let operators: Vec<&str> = step.operators.iter().map(String::as_str).collect();
            assert_eq!(row[1], operators.join(" + "));
            assert_eq!(row[2], step.models.len().to_string());
            assert_eq!(row[3], format!("{} of 4", step.models_so_far));
            assert!(step.models.iter().all(|model| row[5].contains(model)), "{row:?}");
        }
        assert_eq!(rows[0][1], "aten::b", "it lets two run");
        let text = page.main_text();
        assert!(text.contains("4 of 7 planned cases"), "{text}");
        assert!(text.contains("are all known: 2 operators."), "{text}");
        assert!(text.contains("is known: 1 in no step"), "{text}");
        assert!(text.contains("not by the backend: 1 in no step"), "{text}");
        let lead = world.page("/models?device=tpu-sim").await;
        assert_eq!(lead.count("a[href='/blockers?device=tpu-sim']"), 1);
    })
    .await;
}
