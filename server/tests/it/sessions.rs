//! A person in a browser: signs in with a token, makes and ends waivers, and signs out; nobody
//! else's form does it for them.

use std::num::NonZeroU32;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use protocol::Outcome;
use reqwest::header::{COOKIE, LOCATION, SET_COOKIE};
use reqwest::{Method, StatusCode};
use server::db::tokens::{self, Scope};
use sqlx::PgPool;

use super::builders::run;
use super::harness::{Answer, Options, World, scenario, scenario_with};

/// A browser with its cookie; follows nothing by itself.
struct Browser {
    world: World,
    client: reqwest::Client,
    cookie: String,
}

impl Browser {
    fn new(world: &World) -> Self {
        let _ = super::harness::client();
        let none = reqwest::redirect::Policy::none();
        let client = reqwest::Client::builder().redirect(none).build().unwrap();
        Self { world: world.clone(), client, cookie: String::new() }
    }

    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.world.url));
        if self.cookie.is_empty() { request } else { request.header(COOKIE, &self.cookie) }
    }

    async fn get(&self, path: &str) -> Answer {
        self.world.send(self.request(Method::GET, path)).await
    }

    async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        self.world.send(form(self.request(Method::POST, path), fields)).await
    }

    /// Signs in, and keeps the cookie.
    async fn sign_in(&mut self, token: &str) -> Answer {
        let answer = self.post("/session", &[("token", token), ("next", "/waivers")]).await;
        if let Some(cookie) = answer.headers.get(SET_COOKIE) {
            cookie.to_str().unwrap().split(';').next().unwrap().clone_into(&mut self.cookie);
        }
        answer
    }

    /// What the forms of the page carry.
    async fn csrf(&self, path: &str) -> String {
        let page = self.get(path).await.text;
        let rest = page.split("name=\"csrf\" value=\"").nth(1);
        rest.unwrap_or_else(|| panic!("no form: {page}")).split('"').next().unwrap().to_owned()
    }
}

fn form(request: reqwest::RequestBuilder, fields: &[(&str, &str)]) -> reqwest::RequestBuilder {
    let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let pair = |(name, value): &(&str, &str)| format!("{name}={}", encode(value));
    let fields = fields.iter();
    request
        .header("content-type", "application/x-www-form-urlencoded")
        .body(fields.map(pair).collect::<Vec<_>>().join("&"))
}

async fn token(world: &World, name: &str, scope: Scope) -> String {
    let secret = tokens::new_secret();
    assert!(tokens::create(&world.pool, name, &secret, &[scope]).await.unwrap());
    secret
}

fn waiver<'a>(csrf: &'a str, pattern: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        ("csrf", csrf),
        ("case_pattern", pattern),
        ("outcome", "unsupported"),
        ("outcome", "error"),
        ("device", "tpu, cuda"),
        ("versions", "torch >=2.15,<2.16; torch_tpu <9"),
        ("reason", "no FFT on this chip yet"),
        ("owner", "numerics"),
        ("issue", "https://example.com/1"),
        ("author", "ada"),
        ("expires_on", "2026-12-24"),
    ]
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_person_signs_in_waives_ends_and_signs_out(pool: PgPool) {
    scenario(pool, async |world| {
        let script = run("r1").observes("fft", Outcome::Unsupported);
        world.finish_run(&script).await;
        let secret = token(&world, "grace", Scope::Triage).await;
        let mut browser = Browser::new(&world);

        // From the failure to the form, by way of signing in.
        let case = "operators%2Fopinfo%3Afft%230%2Ffloat32%2Eeager%2Eforward";
        let page = browser.get(&format!("/runs/r1/cases/{case}")).await.text;
        let href = page.split("href=\"/waivers/new?").nth(1).unwrap().split('"').next().unwrap();
        let new = format!("/waivers/new?{}", href.replace("&#38;", "&"));
        let sent_to = browser.get(&new).await;
        assert_eq!(sent_to.status, StatusCode::SEE_OTHER);
        let sign_in = sent_to.headers[LOCATION].to_str().unwrap().to_owned();
        assert!(sign_in.starts_with("/session?next=%2Fwaivers%2Fnew"), "{sign_in}");
        assert!(browser.get(&sign_in).await.text.contains("type=\"password\""));

        let answer = browser.sign_in(&secret).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.text);
        let cookie = answer.headers[SET_COOKIE].to_str().unwrap();
        for part in ["HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=43200"] {
            assert!(cookie.contains(part), "{cookie}");
        }
        assert!(!cookie.contains(&secret), "the token itself is not kept");

        let page = browser.get(&new).await;
        assert_eq!(page.headers["cache-control"], "no-store");
        assert!(page.text.contains("value=\"operators/opinfo:fft#0/"), "{}", page.text);
        assert!(page.text.contains("value=\"unsupported\" checked"), "{}", page.text);
        let csrf = browser.csrf("/waivers/new").await;
        let made = browser.post("/waivers/new", &waiver(&csrf, "operators/opinfo:fft*")).await;
        assert_eq!(made.status, StatusCode::SEE_OTHER, "{}", made.text);
        assert_eq!(world.verdict(&script).await, "failed", "the run knows no torch_tpu");
        let listed = world.get_json("/api/v1/waivers").await;
        let listed = &listed["waivers"][0];
        assert_eq!((&listed["approver"], &listed["author"]), (&"grace".into(), &"ada".into()));
        assert_eq!(listed["outcomes"], serde_json::json!(["unsupported", "error"]));
        assert_eq!(listed["when"]["device"], serde_json::json!(["tpu", "cuda"]));
        assert_eq!(listed["when"]["versions"]["torch"], ">=2.15, <2.16");

        let page = browser.get("/waivers").await.text;
        assert!(page.contains("action=\"/waivers/1/end\""), "{page}");
        assert!(!world.get("/waivers").await.text.contains("<form method=\"post\""));
        let ended = browser.post("/waivers/1/end", &[("csrf", &csrf)]).await;
        assert_eq!(ended.status, StatusCode::SEE_OTHER, "{}", ended.text);
        assert_eq!(world.get_json("/api/v1/waivers").await["waivers"][0]["holds"], false);

        let out = browser.post("/session/end", &[("csrf", &csrf)]).await;
        assert_eq!(out.status, StatusCode::SEE_OTHER);
        assert!(out.headers[SET_COOKIE].to_str().unwrap().contains("Max-Age=0"));
        // The cookie is worth nothing any more, whoever kept it.
        let late = browser.post("/waivers/new", &waiver(&csrf, "operators/x*")).await;
        assert_eq!(late.status, StatusCode::UNAUTHORIZED);
        assert_eq!(world.count("SELECT count(*) FROM waivers").await, 1);
        let logged = "SELECT count(*) FROM audit_log WHERE actor = 'grace'";
        assert_eq!(world.count(logged).await, 4, "signed in, made, ended, signed out");
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_form_of_anybody_else_is_refused(pool: PgPool) {
    scenario(pool, async |world| {
        let secret = token(&world, "grace", Scope::Triage).await;
        let (mut browser, mut other) = (Browser::new(&world), Browser::new(&world));
        browser.sign_in(&secret).await;
        other.sign_in(&secret).await;
        let csrf = browser.csrf("/waivers/new").await;
        let foreign = other.csrf("/waivers/new").await;
        assert_ne!(csrf, foreign, "two sessions of one token have different forms");
        for wrong in ["", "00", &foreign, &csrf[1..]] {
            let answer = browser.post("/waivers/new", &waiver(wrong, "operators/x*")).await;
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{wrong}");
            assert!(answer.text.contains("did not come from a page of your session"));
        }
        // The right token, but a browser that says that another site sent it.
        for (name, value, status) in [
            ("origin", "https://evil.example", 403),
            ("origin", "null", 403),
            ("sec-fetch-site", "cross-site", 403),
            ("sec-fetch-site", "same-site", 403),
            ("origin", world.url.as_str(), 303),
            ("origin", "http://conformance.test", 303),
            ("sec-fetch-site", "same-origin", 303),
        ] {
            let request = browser.request(Method::POST, "/waivers/new").header(name, value);
            let answer = world.send(form(request, &waiver(&csrf, "operators/x*"))).await;
            assert_eq!(answer.status.as_u16(), status, "{name}: {value}: {}", answer.text);
        }
        assert_eq!(world.count("SELECT count(*) FROM waivers").await, 3);
        // Signing somebody in behind their back is refused too.
        let request =
            browser.request(Method::POST, "/session").header("origin", "https://e.example");
        let answer = world.send(form(request, &[("token", &secret)])).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN);
        // A cookie alone writes nothing over the API.
        let request = browser.request(Method::POST, "/api/v1/waivers/1/revoke");
        assert_eq!(world.send(request).await.status, StatusCode::UNAUTHORIZED);
        // Nor does a body of another kind, which a page elsewhere could send without asking.
        let request = browser.request(Method::POST, "/waivers/1/end");
        let request = request.header("content-type", "text/plain").body(format!("csrf={csrf}"));
        assert_eq!(world.send(request).await.status, StatusCode::BAD_REQUEST);
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_session_ends_with_its_time_its_token_and_its_secret(pool: PgPool) {
    scenario(pool, async |world| {
        let signed_in =
            async |browser: &Browser| browser.get("/session").await.text.contains("Signed in as");
        for (name, end) in [("time", 0), ("revoked", 1), ("rotated", 2)] {
            world.set_now("2026-11-30T12:00:00Z");
            let secret = token(&world, name, Scope::Triage).await;
            let mut browser = Browser::new(&world);
            browser.sign_in(&secret).await;
            let csrf = browser.csrf("/waivers/new").await;
            world.set_now("2026-11-30T23:59:59Z");
            assert!(signed_in(&browser).await, "{name}");
            match end {
                0 => world.set_now("2026-12-01T00:00:00Z"),
                1 => assert!(tokens::revoke(&world.pool, name).await.unwrap()),
                _ => assert!(tokens::rotate(&world.pool, name, "another").await.unwrap()),
            }
            assert!(!signed_in(&browser).await, "{name}");
            let answer = browser.post("/waivers/new", &waiver(&csrf, "operators/x*")).await;
            assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{name}");
        }
        assert_eq!(world.count("SELECT count(*) FROM waivers").await, 0);
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn only_a_token_for_triage_signs_in_and_only_its_hash_is_kept(pool: PgPool) {
    scenario(pool, async |world| {
        let ingest = token(&world, "ci", Scope::Ingest).await;
        let mut browser = Browser::new(&world);
        for (wrong, said) in [("ttc_0", "unknown or revoked"), ("", "unknown"), (&ingest, "lacks")]
        {
            let answer = browser.sign_in(wrong).await;
            assert!(answer.text.contains(said), "{}", answer.text);
            assert!(answer.headers.get(SET_COOKIE).is_none());
        }
        let admin = token(&world, "root", Scope::Admin).await;
        assert_eq!(browser.sign_in(&admin).await.status, StatusCode::SEE_OTHER);
        let secret = browser.cookie.split_once('=').unwrap().1.to_owned();
        let kept: String =
            sqlx::query_scalar("SELECT string_agg(sessions::text, ' ') FROM sessions")
                .fetch_one(&world.pool)
                .await
                .unwrap();
        assert!(!kept.contains(&secret), "{kept}");
        browser.cookie = "conformance=%00; conformance=é".replace('é', "x");
        assert!(browser.get("/session").await.text.contains("type=\"password\""));
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_mistake_in_the_form_keeps_what_was_written(pool: PgPool) {
    scenario(pool, async |world| {
        let secret = token(&world, "grace", Scope::Triage).await;
        let mut browser = Browser::new(&world);
        browser.sign_in(&secret).await;
        let csrf = browser.csrf("/waivers/new").await;
        for (field, value, said) in [
            ("author", "Grace", "is who sends this"),
            ("reason", "broken", "shorter than 10"),
            ("expires_on", "soon", "expires_on"),
            ("dtype", "float31", "when.dtype"),
            ("versions", "torch", "which is no range"),
            ("case_pattern", "*", "covers every case"),
            ("owner", "<script>alert(1)</script>", "Not made"),
        ] {
            let mut fields = waiver(&csrf, "operators/x*");
            fields.retain(|(name, _)| *name != field);
            fields.push((field, value));
            if field == "owner" {
                fields.retain(|(name, _)| *name != "issue");
            }
            let answer = browser.post("/waivers/new", &fields).await;
            assert_eq!(answer.status, StatusCode::OK, "{field}: {}", answer.text);
            assert!(answer.text.contains(said), "{field}: {}", answer.text);
            assert!(answer.text.contains("no FFT") || field == "reason", "{}", answer.text);
            assert!(!answer.text.contains("<script>alert"), "{}", answer.text);
        }
        assert_eq!(world.count("SELECT count(*) FROM waivers").await, 0);
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_private_server_can_be_read_by_who_signed_in(pool: PgPool) {
    scenario_with(pool, Options { private: true, ..Options::default() }, async |world| {
        let secret = token(&world, "grace", Scope::Triage).await;
        let mut browser = Browser::new(&world);
        assert_eq!(browser.get("/waivers").await.status, StatusCode::UNAUTHORIZED);
        let page = browser.get("/session").await.text;
        let style = page.split("href=\"/static/style.css").nth(1).unwrap();
        let style = format!("/static/style.css{}", style.split('"').next().unwrap());
        assert_eq!(browser.get(&style).await.status, StatusCode::OK);
        browser.sign_in(&secret).await;
        assert_eq!(browser.get("/waivers").await.status, StatusCode::OK);
        assert_eq!(browser.get("/api/v1/runs").await.status, StatusCode::OK);
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_flood_of_unknown_tokens_is_sent_away_and_known_ones_are_not(pool: PgPool) {
    let options = Options { unknown_tokens_per_minute: NonZeroU32::new(5), ..Options::default() };
    scenario_with(pool, options, async |world| {
        let person = token(&world, "grace", Scope::Triage).await;
        let mut browser = Browser::new(&world);
        let mut answers = Vec::new();
        for number in 0..12 {
            let wrong = format!("ttc_{number}");
            // Half of them at the page, the other half at the API: it is one flood.
            let answer = if number % 2 == 0 {
                browser.sign_in(&wrong).await
            } else {
                let request = world.request(Method::POST, "/api/v1/runs").bearer_auth(&wrong);
                world.send(request.json(&run("r1").announcement())).await
            };
            if answer.status == StatusCode::TOO_MANY_REQUESTS {
                let wait: u64 = answer.headers["retry-after"].to_str().unwrap().parse().unwrap();
                assert!((1..=61).contains(&wait), "{wait}");
                assert!(answer.text.contains("too many unknown tokens"), "{}", answer.text);
            }
            answers.push(answer.status.as_u16());
        }
        // A page says what is wrong with 200, beside the form.
        assert_eq!(answers[..5], [200, 401, 200, 401, 200]);
        assert_eq!(answers[7..], [429; 5], "{answers:?}");
        // In the middle of it, from the same address.
        assert_eq!(world.announce(&run("r1")).await.status, StatusCode::CREATED);
        assert!(browser.sign_in(&person).await.headers.contains_key(SET_COOKIE));
        assert_eq!(browser.sign_in("ttc_x").await.status, StatusCode::TOO_MANY_REQUESTS);
    })
    .await;
}
