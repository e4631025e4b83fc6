//! Waivers over the API: refused without reason, owner, issue, end and second person.

use protocol::Outcome;
use serde_json::{Value, json};
use sqlx::PgPool;

use super::builders::run;
use super::harness::{Options, scenario, scenario_with};

fn waiver(pattern: &str) -> Value {
    json!({
        "case_pattern": pattern,
        "outcomes": ["unsupported"],
        "reason": "no FFT on this chip yet",
        "owner": "numerics",
        "issue": "https://example.com/1",
        "author": "ada",
        "expires_on": "2026-12-24",
    })
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_waiver_opens_the_gate_until_it_ends(pool: PgPool) {
    let gate = "title = \"t\"\n[[rule]]\nname = \"r\"\nsuite = \"operators\"\ndevice = \"tpu\"\n\
                planned_min = 1\nnew_fail_max = 0\nstale_hours = 10000\n";
    let options = Options { gates: vec![("nightly", gate.to_owned())], ..Options::default() };
    scenario_with(pool, options, async |world| {
        world.finish_run(&run("n1").started("2026-11-29T02:00:00Z").passes("fft")).await;
        let script = run("n2").observes("fft", Outcome::Unsupported);
        world.finish_run(&script).await;
        let answer = async || world.gate("nightly", "n2").await["answer"].clone();
        assert_eq!(answer().await, "closed");
        let made = world.post_json("/api/v1/waivers", &waiver("operators/opinfo:fft*")).await;
        assert_eq!(made.status.as_u16(), 201, "{}", made.text);
        assert_eq!(answer().await, "open");
        assert_eq!(world.verdict(&script).await, "waived");
        world.check_tallies().await;
        world.set_now("2026-12-23T23:59:59Z");
        assert_eq!(answer().await, "open");
        world.set_now("2026-12-24T00:00:00Z");
        assert_eq!(answer().await, "closed", "it ends on its date");
        world.set_now("2026-12-01T00:00:00Z");
        let path = format!("/api/v1/waivers/{}/revoke", made.json()["waiver"]);
        assert_eq!(world.post_json(&path, &json!({})).await.status.as_u16(), 204);
        world.post_json(&path, &json!({})).await.refusal(404);
        assert_eq!(answer().await, "closed");
        assert_eq!(world.verdict(&script).await, "regressed");
        let listed = world.get_json("/api/v1/waivers").await;
        assert_eq!(listed["waivers"][0]["approver"], "scripted");
        assert_eq!(listed["waivers"][0]["holds"], false);
        let logged = "SELECT count(*) FROM audit_log WHERE action LIKE 'waiver.%'";
        assert_eq!(world.count(logged).await, 2);
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn those_that_end_soon_are_listed_ahead(pool: PgPool) {
    scenario(pool, async |world| {
        for (pattern, day) in [
            ("operators/a*", "2026-12-24"),
            ("operators/b*", "2026-12-03"),
            ("operators/c*", "2027-06-01"),
        ] {
            let mut body = waiver(pattern);
            body["expires_on"] = json!(day);
            assert_eq!(world.post_json("/api/v1/waivers", &body).await.status.as_u16(), 201);
        }
        let listed = async |days: u32| {
            let path = format!("/api/v1/waivers?expiring_within_days={days}");
            let body = world.get_json(&path).await;
            let patterns = body["waivers"].as_array().unwrap().iter();
            patterns.map(|w| w["case_pattern"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(listed(2).await, [""; 0]);
        assert_eq!(listed(3).await, ["operators/b*"]);
        assert_eq!(listed(30).await, ["operators/b*", "operators/a*"]);
        world.set_now("2026-12-03T00:00:00Z");
        assert_eq!(listed(30).await, ["operators/a*"], "what has ended does not end soon");
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn what_a_waiver_needs_is_asked_for_by_name(pool: PgPool) {
    scenario(pool, async |world| {
        for (field, value) in [
            ("case_pattern", json!("*")),
            ("case_pattern", json!("")),
            ("outcomes", json!([])),
            ("outcomes", json!(["pass"])),
            ("outcomes", json!(["infra"])),
            ("outcomes", json!(["nosuch"])),
            ("reason", json!("broken")),
            ("owner", json!(" ")),
            ("issue", json!("see chat")),
            ("issue", json!("https://")),
            ("author", json!("SCRIPTED")),
            ("expires_on", json!("2026-11-30")),
            ("expires_on", json!("2028-01-01")),
            ("operator", json!("")),
            ("device_profile", json!("\u{0}")),
            ("surprise", json!(1)),
        ] {
            let mut body = waiver("operators/opinfo:fft*");
            body[field] = value.clone();
            let refusal = world.post_json("/api/v1/waivers", &body).await.refusal(400);
            assert!(refusal.contains(field), "{field} = {value}: {refusal}");
        }
        assert_eq!(world.count("SELECT count(*) FROM waivers").await, 0);
    })
    .await;
}
