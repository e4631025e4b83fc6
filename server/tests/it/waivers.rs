//! Waivers over the API: refused without reason, owner, issue, end and second person.

use protocol::Outcome;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::PgPool;

use super::builders::{Script, run};
use super::harness::{Answer, Options, World, scenario, scenario_with};

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

/// With a gate that any new failure closes.
fn gated() -> Options {
    let gate = "title = \"t\"\n[[rule]]\nname = \"r\"\nsuite = \"operators\"\ndevice = \"tpu\"\n\
                planned_min = 1\nnew_fail_max = 0\nstale_hours = 10000\n";
    Options { gates: vec![("nightly", gate.to_owned())], ..Options::default() }
}

/// Run `n2`, in which `fft` fails that passed the night before.
async fn fails_after_a_pass(world: &World) -> Script {
    world.finish_run(&run("n1").started("2026-11-29T02:00:00Z").passes("fft")).await;
    let script = run("n2").observes("fft", Outcome::Unsupported);
    world.finish_run(&script).await;
    script
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_waiver_opens_the_gate_until_it_ends(pool: PgPool) {
    scenario_with(pool, gated(), async |world| {
        let script = fails_after_a_pass(&world).await;
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
            ("when", json!({"device": ["\u{0}"]})),
            ("when.device", json!({"device": []})),
            ("when.dtype", json!({"dtype": "float31"})),
            ("when.versions", json!({"versions": {"torch": "newest"}})),
            ("when", json!({"surprise": 1})),
            ("suite", json!("tier9")),
            ("model", json!("")),
            ("surprise", json!(1)),
        ] {
            let mut body = waiver("operators/opinfo:fft*");
            body[field.split('.').next().unwrap()] = value.clone();
            let refusal = world.post_json("/api/v1/waivers", &body).await.refusal(400);
            assert!(refusal.contains(field), "{field} = {value}: {refusal}");
        }
        assert_eq!(world.count("SELECT count(*) FROM waivers").await, 0);
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_waiver_counts_only_where_its_conditions_hold(pool: PgPool) {
    scenario_with(pool, gated(), async |world| {
        let script = fails_after_a_pass(&world).await;
        for (field, value, holds) in [
            ("when", json!({"device": ["cpu", "tpu"]}), true),
            ("when", json!({"device": "cuda"}), false),
            ("when", json!({"device_kind": "TPU v6*"}), true),
            ("when", json!({"device_kind": "TPU v5*"}), false),
            ("when", json!({"dtype": "float32", "mode": ["eager"]}), true),
            ("when", json!({"dtype": "bfloat16"}), false),
            ("when", json!({"mode": "compile"}), false),
            ("when", json!({"versions": {"torch": ">=2.15,<2.16"}}), true),
            ("when", json!({"versions": {"torch": "<2.15"}}), false),
            ("when", json!({"versions": {"libtpu": ">0"}}), false),
            ("suite", json!("operators"), true),
            ("suite", json!("tier1"), false),
            ("model", json!("timm:*"), false),
            ("operator", json!("aten::_fft_r2c"), false),
        ] {
            let mut body = waiver("operators/opinfo:f*");
            body[field] = value.clone();
            let made = world.post_json("/api/v1/waivers", &body).await;
            assert_eq!(made.status.as_u16(), 201, "{}", made.text);
            let (verdict, answer) =
                if holds { ("waived", "open") } else { ("regressed", "closed") };
            assert_eq!(world.verdict(&script).await, verdict, "{field} {value}");
            assert_eq!(world.gate("nightly", "n2").await["answer"], answer, "{field} {value}");
            let page = world.get("/waivers").await.text;
            assert_eq!(page.contains("cases it speaks of now"), holds, "{field} {value}");
            let path = format!("/api/v1/waivers/{}/revoke", made.json()["waiver"]);
            assert_eq!(world.post_json(&path, &json!({})).await.status.as_u16(), 204);
        }
        world.check_tallies().await;
    })
    .await;
}

fn file(pattern: &str, author: &str, expires_on: &str) -> String {
    format!(
        "[[waiver]]\ncase_pattern = \"{pattern}\"\noutcomes = [\"unsupported\"]\n\
         when.device = \"tpu\"\nreason = \"no FFT on this chip yet\"\nowner = \"numerics\"\n\
         author = \"{author}\"\nissue = \"https://example.com/1\"\nexpires_on = {expires_on}\n\n"
    )
}

async fn sync(world: &World, text: &str, dry_run: bool) -> Answer {
    let path = format!("/api/v1/waivers/file?dry_run={dry_run}");
    world.send(world.authorized(Method::PUT, &path).body(text.to_owned())).await
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn the_file_is_brought_in_step_after_a_dry_run_that_said_so(pool: PgPool) {
    scenario(pool, async |world| {
        let script = run("n1").observes("fft", Outcome::Unsupported).observes("b", Outcome::Crash);
        world.finish_run(&script).await;
        // One that a person made stays, whatever is in the file.
        world.post_json("/api/v1/waivers", &waiver("operators/z*")).await;
        let fft = file("operators/opinfo:fft*", "ada", "2026-12-24");
        let old = file("operators/opinfo:old*", "ada", "2026-12-24");
        let both = format!("{fft}{old}");
        let text = |answer: &Answer| {
            assert_eq!(answer.status.as_u16(), 200, "{}", answer.text);
            answer.json()
        };
        // Without the numbers, which a dry run cannot know.
        let shape = |answer: &Value| {
            let mut shape = answer.clone();
            shape["dry_run"] = Value::Null;
            for list in ["added", "changed"] {
                for line in shape[list].as_array_mut().unwrap() {
                    line["waiver"] = Value::Null;
                }
            }
            shape
        };
        let said = text(&sync(&world, &both, true).await);
        assert_eq!(said["added"].as_array().unwrap().len(), 2, "{said}");
        assert_eq!(world.count("SELECT count(*) FROM waivers").await, 1, "it was a dry run");
        let done = text(&sync(&world, &both, false).await);
        assert_eq!(shape(&said), shape(&done));
        let verdict = async || world.verdicts(&script).await[0].1.clone();
        assert_eq!(verdict().await, "waived");

        let again = text(&sync(&world, &both, false).await);
        assert_eq!((&again["unchanged"], again["added"].as_array().unwrap().len()), (&json!(2), 0));

        let changed = fft.replace("unsupported", "crash");
        let said = text(&sync(&world, &changed, true).await);
        assert_eq!(said["changed"][0]["fields"], json!(["outcomes"]), "{said}");
        assert_eq!(said["ended"][0]["scope"], "operators/opinfo:old*");
        let done = text(&sync(&world, &changed, false).await);
        assert_eq!(shape(&said), shape(&done));
        assert_eq!(verdict().await, "failed", "it forgives something else now");
        assert_eq!(done["changed"][0]["replaces"], json!(2));

        let listed = world.get_json("/api/v1/waivers").await;
        let rows = listed["waivers"].as_array().unwrap();
        let held: Vec<&Value> = rows.iter().filter(|row| row["holds"] == true).collect();
        assert_eq!(held.len(), 2, "{listed}");
        let own = held.iter().find(|row| row["from_file"] == true).unwrap();
        assert_eq!((&own["replaces"], &own["when"]["device"]), (&json!(2), &json!(["tpu"])));
        assert_eq!((&own["author"], &own["approver"]), (&json!("ada"), &json!("scripted")));
        let revoke = format!("/api/v1/waivers/{}/revoke", own["waiver"]);
        let refusal = world.post_json(&revoke, &json!({})).await.refusal(409);
        assert!(refusal.contains("out of the file"), "{refusal}");
        let audited = sqlx::query_as::<_, (String, i64)>(
            "SELECT action, count(*) FROM audit_log WHERE action LIKE 'waiver.%' GROUP BY 1 ORDER BY 1",
        );
        let audited = audited.fetch_all(&world.pool).await.unwrap();
        let expected = [("waiver.change", 1), ("waiver.create", 3), ("waiver.end", 1)];
        assert_eq!(audited, expected.map(|(action, count)| (action.to_owned(), count)));

        let over = file("operators/opinfo:fft*", "ada", "2026-11-30");
        let done = text(&sync(&world, &over, false).await);
        assert_eq!(done["expired"][0]["line"], 1, "{done}");
        assert_eq!(world.count("SELECT count(*) FROM waivers WHERE revoked_at IS NULL").await, 1);
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_file_is_refused_whole(pool: PgPool) {
    scenario(pool, async |world| {
        let good = file("operators/a*", "ada", "2026-12-24");
        for (bad, named) in [
            (file("operators/b*", "Scripted", "2026-12-24"), "line 11: `author`"),
            (file("*", "ada", "2026-12-24"), "line 11: `case_pattern`"),
            (file("operators/b*", "ada", "2028-12-24"), "line 11: `expires_on`"),
            (file("operators/a*", "ada", "2026-12-24"), "is that of line 1 again"),
            ("surprise = 1".to_owned(), "surprise"),
            ("[[waiver".to_owned(), "line 11"),
            ("[[waiver]]\nx = 1979-05-27T07:32:00Z".to_owned(), "unknown field `x`"),
        ] {
            let refusal = sync(&world, &format!("{good}{bad}"), false).await.refusal(400);
            assert!(refusal.contains(named), "{named}: {refusal}");
        }
        sync(&world, &"#".repeat((8 << 20) + 1), false).await.refusal(413);
        let anonymous = world.request(Method::PUT, "/api/v1/waivers/file").body(good);
        world.send(anonymous).await.refusal(401);
        assert_eq!(world.count("SELECT count(*) FROM waivers").await, 0);
    })
    .await;
}
