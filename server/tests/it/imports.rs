//! JUnit reports of integrations as suites of their own.

use reqwest::Method;
use serde_json::json;
use sqlx::PgPool;

use super::harness::{Answer, Options, World, scenario, scenario_with};

const ADDRESS: &str = "/api/v1/junit?run=vllm-1&integration=vllm&device=tpu&device_kind=TPU%20v6e\
                       &versions=torch=2.15.0,torch_tpu=0.2.0&started_at=2026-11-30T02:00:00Z";

fn report(cases: &str) -> String {
    format!("<testsuites><testsuite name=\"pytest\">{cases}</testsuite></testsuites>")
}

fn case(name: &str, inner: &str) -> String {
    format!("<testcase classname=\"tests.a\" name=\"{name}\" time=\"0.5\">{inner}</testcase>")
}

async fn import(world: &World, address: &str, xml: &str) -> Answer {
    let request = world.authorized(Method::POST, address).body(xml.to_owned());
    world.send(request.header("content-type", "application/xml")).await
}

async fn verdicts(world: &World, run: &str) -> Vec<(String, String)> {
    let body = world.get_json(&format!("/api/v1/runs/{run}/cases")).await;
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let cases = body["cases"].as_array().unwrap().iter();
    cases.map(|case| (text(&case["case"]), text(&case["verdict"]))).collect()
}

fn pair(case: &str, verdict: &str) -> (String, String) {
    (format!("junit:vllm/tests.a::{case}"), verdict.to_owned())
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_report_becomes_a_run_that_is_judged_and_gated(pool: PgPool) {
    let gate = "title = \"t\"\n[[rule]]\nname = \"r\"\nsuite = \"junit:vllm\"\ndevice = \"tpu\"\n\
                planned_min = 3\nnew_fail_max = 0\nflaky_max = 0\nstale_hours = 26\n";
    let options = Options { gates: vec![("nightly", gate.to_owned())], ..Options::default() };
    scenario_with(pool, options, async |world| {
        let good = report(&[case("x[8]", ""), case("y", ""), case("z", "<skipped/>")].concat());
        let answer = import(&world, ADDRESS, &good).await;
        assert_eq!(answer.status.as_u16(), 201, "{}", answer.text);
        let body = answer.json();
        assert_eq!(body["suite"], "junit:vllm");
        assert_eq!((&body["planned"], &body["judged"]), (&json!(3), &json!(3)), "{body}");
        assert_eq!(body["completeness"], "complete");
        assert_eq!(world.gate("nightly", "latest").await["answer"], "open");

        let bad = report(
            &[
                case("x[8]", "<failure message=\"1 != 2\">trace &lt;b&gt;</failure>"),
                case("y", "<flakyFailure message=\"once\"/>"),
                case("z", "<skipped type=\"pytest.xfail\" message=\"bug 7\"/>"),
            ]
            .concat(),
        );
        let later = ADDRESS.replace("vllm-1", "vllm-2").replace("T02:00", "T03:00");
        assert_eq!(import(&world, &later, &bad).await.status.as_u16(), 201);
        assert_eq!(
            verdicts(&world, "vllm-2").await,
            [pair("x[8]", "regressed"), pair("y", "flaky"), pair("z", "failed")]
        );
        assert_eq!(world.gate("nightly", "latest").await["answer"], "closed");
        world.check_tallies().await;

        let compared = world.get_json("/api/v1/compare?a=vllm-1&b=vllm-2&suite=junit:vllm").await;
        assert_eq!(compared["counts"]["regressed"], 2, "{compared}");
        for page in ["/", "/runs?suite=junit:vllm", "/runs/vllm-2", "/compare?a=vllm-1&b=vllm-2"] {
            let page = world.get(page).await;
            assert!(page.text.contains("vllm-2"), "{}", page.text);
        }
        let key = "junit%3Avllm%2Ftests%2Ea%3A%3Ax%5B8%5D";
        let page = world.get(&format!("/runs/vllm-2/cases/{key}")).await.text;
        assert!(page.contains("1 != 2") && page.contains("trace &#60;b&#62;"), "{page}");
        assert!(!page.contains("runner repro"), "it cannot be run by this project");
        let exported = world.get("/api/v1/runs/vllm-2/export?format=junit").await.text;
        assert!(exported.contains("testsuite name=\"junit:vllm\" tests=\"3\""), "{exported}");
        let search = world.get("/search?q=tests.a").await;
        assert!(search.text.contains("vllm"), "{}", search.text);
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn the_same_report_again_changes_nothing_and_another_one_is_refused(pool: PgPool) {
    scenario(pool, async |world| {
        let xml = report(&[case("x", ""), case("x", "<failure/>"), case("y", "")].concat());
        let first = import(&world, ADDRESS, &xml).await;
        assert_eq!((first.status.as_u16(), &first.json()["stored"]), (201, &json!(3)));
        let again = import(&world, ADDRESS, &xml).await;
        assert_eq!((again.status.as_u16(), &again.json()["replayed"]), (200, &json!(3)));
        assert_eq!(verdicts(&world, "vllm-1").await, [pair("x", "flaky"), pair("y", "passed")]);
        let other =
            report(&[case("x", ""), case("x", "<failure/>"), case("y", "<error/>")].concat());
        import(&world, ADDRESS, &other).await.refusal(409);
        assert_eq!(world.count("SELECT count(*) FROM attempts").await, 3);
        let elsewhere = ADDRESS.replace("device=tpu", "device=cuda");
        import(&world, &elsewhere, &xml).await.refusal(409);
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn what_is_refused_leaves_nothing(pool: PgPool) {
    scenario(pool, async |world| {
        let xml = report(&case("x", ""));
        for (from, to, named) in [
            ("integration=vllm", "integration=vLLM", "integration"),
            ("&device=tpu", "", "device"),
            ("device=tpu", "device=TPU", "device_profile"),
            ("torch=2.15.0", "2.15.0", "versions"),
            ("torch_tpu=0.2.0", "torch=0.2.0", "versions"),
            ("&started_at=2026-11-30T02:00:00Z", "", "started_at"),
            ("started_at=2026", "started_at=2030", "started_at"),
            ("device=tpu", "device=tpu&simulated=true", "simulated"),
            ("device=tpu", "device=tpu&surprise=1", "surprise"),
        ] {
            assert!(ADDRESS.contains(from), "{from}");
            let refusal = import(&world, &ADDRESS.replace(from, to), &xml).await.refusal(400);
            assert!(refusal.contains(named), "{to}: {refusal}");
        }
        for hostile in [
            "<!DOCTYPE a [<!ENTITY b SYSTEM \"file:///etc/passwd\">]><testsuite>&b;</testsuite>",
            "<testsuite><testcase name=\"x\"/>",
            "<testsuite/>",
            "{}",
            "",
        ] {
            import(&world, ADDRESS, hostile).await.refusal(400);
        }
        import(&world, ADDRESS, &format!("<a>{}</a>", " ".repeat(8 << 20))).await.refusal(413);
        let deep = "<testsuite>".repeat(500_000);
        import(&world, ADDRESS, &deep).await.refusal(400);
        let anonymous = world.request(Method::POST, ADDRESS).body(xml);
        world.send(anonymous).await.refusal(401);
        assert_eq!(world.count("SELECT count(*) FROM runs").await, 0);
        assert_eq!(world.count("SELECT count(*) FROM cases").await, 0);
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_mutilated_report_is_taken_whole_or_refused_whole(pool: PgPool) {
    scenario(pool, async |world| {
        let mut numbers = super::hostile::Numbers(7);
        let inner = "<failure message=\"m\" type=\"T\">a&amp;b<![CDATA[c]]></failure>";
        let xml = report(&[case("x", inner), case("y", "<skipped/>"), case("z", "")].concat());
        let mut taken = 0;
        for round in 0..150 {
            let address = ADDRESS.replace("vllm-1", &format!("r{round}"));
            let body = super::hostile::mutate(&xml, &mut numbers);
            let answer = world.send(world.authorized(Method::POST, &address).body(body)).await;
            let runs = world.get_json("/api/v1/runs?limit=1000").await;
            let stored = runs["runs"].as_array().unwrap().len();
            if answer.status.is_success() {
                taken += 1;
                assert_eq!(answer.json()["completeness"], "complete", "{}", answer.text);
            } else {
                answer.refusal(400);
            }
            assert_eq!(stored, taken);
        }
        assert!((5..145).contains(&taken), "{taken} of 150 were still good");
        world.check_tallies().await;
    })
    .await;
}
