//! The OpenAPI document against the handlers: every operation in it is called, rightly and wrongly,
//! and what comes back is what the document says.

use std::collections::BTreeMap;

use protocol::Outcome;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sqlx::PgPool;

use super::builders::run;
use super::harness::{Answer, Options, World, scenario_with};

/// One operation of the document.
#[derive(Debug)]
struct Operation {
    method: Method,
    path: String,
    /// As in the document.
    about: Value,
}

impl Operation {
    fn is_write(&self) -> bool {
        self.method != Method::GET
    }

    /// The path with names that exist, and every required parameter.
    fn address(&self) -> String {
        let script = run("r1");
        let case = script.case("a").as_str().to_owned();
        let case = percent_encoding::utf8_percent_encode(&case, percent_encoding::NON_ALPHANUMERIC)
            .to_string();
        let known: BTreeMap<&str, &str> = [
            ("run", "r1"),
            ("name", "nightly"),
            ("suite", "operators"),
            ("waiver", "1"),
            ("case", &case),
            ("integration", "vllm"),
            // Of `x`, which is stored.
            ("sha256", "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"),
            ("device", "tpu"),
            ("a", "r0"),
            ("b", "r1"),
        ]
        .into();
        let mut path = self.path.clone();
        let mut query = Vec::new();
        for parameter in self.parameters() {
            let name = parameter["name"].as_str().unwrap();
            let value = || known.get(name).unwrap_or_else(|| panic!("a value for `{name}`"));
            if parameter["in"] == "path" {
                path = path.replace(&format!("{{{name}}}"), value());
            } else if parameter["required"] == true {
                query.push(format!("{name}={}", value()));
            }
        }
        if self.path.ends_with("/junit") {
            // A run of its own, and a report that does not say when it began.
            query.push("started_at=2026-11-30T02:00:00Z".to_owned());
            query.retain(|part| !part.starts_with("run="));
            query.push("run=imported".to_owned());
        }
        format!("{path}?{}", query.join("&"))
    }

    fn parameters(&self) -> Vec<Value> {
        self.about["parameters"].as_array().cloned().unwrap_or_default()
    }
}

async fn read_document(world: &World) -> (Value, Vec<Operation>) {
    let document = world.get_json("/api/v1/openapi.json").await;
    let paths = document["paths"].as_object().unwrap();
    let mut operations = Vec::new();
    for (path, item) in paths {
        for (method, about) in item.as_object().unwrap() {
            operations.push(Operation {
                method: Method::from_bytes(method.to_uppercase().as_bytes()).unwrap(),
                path: path.clone(),
                about: about.clone(),
            });
        }
    }
    assert!(operations.len() >= 23, "{}", operations.len());
    (document, operations)
}

/// Fails unless the answer is one that the document has: status, kind of content, and schema.
fn check_answer(document: &Value, operation: &Operation, answer: &Answer) {
    let what = format!("{} {} answered {}", operation.method, operation.path, answer.status);
    let responses = &operation.about["responses"];
    let exact = answer.status.as_str();
    let class = format!("{}XX", &exact[..1]);
    let response = responses.get(exact).or_else(|| responses.get(&class));
    let response = response.unwrap_or_else(|| panic!("{what}, which is not described"));
    let Some(content) = response.get("content") else {
        assert_eq!(answer.text, "", "{what} with a body that is not described");
        return;
    };
    let kind = answer.headers["content-type"].to_str().unwrap();
    let kind = kind.split(';').next().unwrap();
    let content = content.get(kind).unwrap_or_else(|| panic!("{what} as {kind}: not described"));
    if kind == "application/json" {
        check_schema(document, &content["schema"], &answer.json(), &what);
    }
}

fn check_schema(document: &Value, schema: &Value, value: &Value, what: &str) {
    let mut schema = schema.clone();
    schema["components"] = document["components"].clone();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(value).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{what}: {errors:#?} in {value}");
}

fn options() -> Options {
    let gate = "title = \"t\"\n[[rule]]\nname = \"r\"\nsuite = \"operators\"\ndevice = \"tpu\"\n\
                planned_min = 1\nnew_fail_max = 0\npass_rate_min = 0.5\nstale_hours = 10000\n";
    Options { gates: vec![("nightly", gate.to_owned())], ..Options::default() }
}

async fn fill(world: &World) {
    world.finish_run(&run("r0").started("2026-11-29T02:00:00Z").passes("a").passes("b")).await;
    let script = run("r1")
        .passes("a")
        .observes_with("b", Outcome::Crash, |attempt| {
            attempt.operator = Some("aten::add.Tensor".to_owned());
            attempt.message = "=cmd".to_owned();
        })
        .plans("c")
        .sent_as("j1", 1, 1);
    world.finish_run(&script).await;
    let kept = world.put_json("/api/v1/runs/r1/inventory", &inventory()).await;
    assert_eq!(kept.status, StatusCode::OK, "{}", kept.text);
    let path = "/api/v1/artifacts/2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";
    let stored = world.send(world.authorized(Method::PUT, path).body("x")).await;
    assert_eq!(stored.status, StatusCode::CREATED, "{}", stored.text);
    let made = world.post_json("/api/v1/waivers", &new_waiver()).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
}

fn inventory() -> Value {
    json!({
        "dispatch_key": "PrivateUse1",
        "overloads": [{
            "name": "aten::add.Tensor", "schema": "(Tensor self, Tensor other) -> Tensor",
            "tags": ["core"], "view": false, "structured_delegate": "aten::add.out",
            "kernels": ["CPU", "PrivateUse1"], "added": ["PrivateUse1"],
        }],
    })
}

fn new_waiver() -> Value {
    json!({
        "case_pattern": "operators/opinfo:fft*", "outcomes": ["unsupported"],
        "reason": "no FFT on this chip yet", "owner": "numerics",
        "issue": "https://example.com/1", "author": "ada", "expires_on": "2026-12-24",
    })
}

/// A body that is no JSON, where an operation takes one.
fn other_body(operation: &Operation) -> Option<&'static str> {
    match operation.path.rsplit('/').next().unwrap() {
        "junit" => Some("<testsuite><testcase name=\"t\"/></testsuite>"),
        "file" => Some("# no waiver\n"),
        "{sha256}" => Some("x"),
        _ => None,
    }
}

/// A body that each writing operation takes.
fn good_body(operation: &Operation) -> Value {
    let script = run("r1").passes("a").plans("b").plans("c");
    match operation.path.rsplit('/').next().unwrap() {
        "runs" => json!(run("r9").announcement()),
        "manifest" => json!(script.manifest()),
        "results" => json!(script.sent_as("j1", 1, 1).results()),
        "inventory" => inventory(),
        "seal" => json!({"attempts": 0, "finished_at": super::harness::NOW}),
        "void" => json!({"reason": "the wrong wheel was installed"}),
        "waivers" => new_waiver(),
        "artifacts" => json!({"journal": "j1", "artifacts": [{
            "case": script.case("a"), "attempt": 1, "name": "hlo.txt",
            "sha256": "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881",
        }]}),
        "revoke" | "junit" | "file" | "{sha256}" => json!({}),
        other => panic!("`{other}` writes, and the test does not know what"),
    }
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn every_operation_answers_as_the_document_says(pool: PgPool) {
    scenario_with(pool, options(), async |world| {
        fill(&world).await;
        let (document, mut operations) = read_document(&world).await;
        // What ends things comes last.
        operations.sort_by_key(|o| o.path.ends_with("/void"));
        for operation in &operations {
            let method = operation.method.clone();
            let mut request = world.authorized(method, &operation.address());
            if let Some(body) = other_body(operation) {
                request = request.body(body);
            } else if operation.is_write() {
                let body = good_body(operation);
                let schema = &operation.about["requestBody"]["content"]["application/json"];
                if !schema.is_null() {
                    check_schema(&document, &schema["schema"], &body, &operation.path);
                }
                request = request.json(&body);
            }
            let answer = world.send(request).await;
            let of_another_plan = operation.path.ends_with("/manifest");
            assert!(
                answer.status.is_success() || of_another_plan,
                "{} {}: {}",
                operation.method,
                operation.path,
                answer.text
            );
            check_answer(&document, operation, &answer);
        }
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn every_operation_refuses_what_the_document_excludes(pool: PgPool) {
    scenario_with(pool, options(), async |world| {
        fill(&world).await;
        let (document, operations) = read_document(&world).await;
        let hostile = ["", "%00", "-1", "1e999", "'", "%3Cscript%3E", "%F0%9F%92%A9", "null"];
        for operation in &operations {
            // Parameters: never a 5xx (the harness fails on one), never an answer not described.
            let address = operation.address();
            for parameter in operation.parameters() {
                let name = parameter["name"].as_str().unwrap();
                for value in hostile {
                    let changed = if parameter["in"] == "path" {
                        let value = if value.is_empty() { "x" } else { value };
                        operation.path.replace(&format!("{{{name}}}"), value)
                    } else {
                        format!("{address}&{name}={value}")
                    };
                    if changed.contains('{') {
                        continue;
                    }
                    let mut request = world.authorized(operation.method.clone(), &changed);
                    if operation.is_write() {
                        request = request.json(&good_body(operation));
                    }
                    let answer = world.send(request).await;
                    check_answer(&document, operation, &answer);
                }
            }
            if operation.method == Method::GET && operation.path.starts_with("/api/") {
                let has_query = operation.parameters().iter().any(|p| p["in"] == "query");
                let request = world.authorized(Method::GET, &format!("{address}&surprise=1"));
                let answer = world.send(request).await;
                let expected = if has_query { StatusCode::BAD_REQUEST } else { StatusCode::OK };
                assert_eq!(answer.status, expected, "{}", operation.path);
            }
            if !operation.is_write() {
                continue;
            }
            let anonymous = world.request(operation.method.clone(), &address);
            let answer = world.send(anonymous.json(&good_body(operation))).await;
            assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{}", operation.path);
            check_answer(&document, operation, &answer);
            let schema = &operation.about["requestBody"]["content"]["application/json"]["schema"];
            if schema.is_null() {
                continue;
            }
            // The body: every required part left out, every part of another type, one part more.
            let good = good_body(operation);
            let mut bad = Vec::new();
            for name in required(&document, schema) {
                let mut without = good.clone();
                without.as_object_mut().unwrap().remove(&name);
                bad.push(without);
            }
            for name in good.as_object().unwrap().keys() {
                let mut other = good.clone();
                other[name] = json!({"x": [1]});
                bad.push(other);
            }
            let mut more = good.clone();
            more["surprise"] = json!(1);
            bad.push(more);
            bad.extend([json!(null), json!([]), json!("x"), json!(1)]);
            for body in bad {
                let request = world.authorized(operation.method.clone(), &address).json(&body);
                let answer = world.send(request).await;
                assert_eq!(
                    answer.status,
                    StatusCode::BAD_REQUEST,
                    "{} took {body}: {}",
                    operation.path,
                    answer.text
                );
                check_answer(&document, operation, &answer);
            }
        }
    })
    .await;
}

fn required(document: &Value, schema: &Value) -> Vec<String> {
    let mut schema = schema;
    while let Some(reference) = schema.get("$ref") {
        schema = document.pointer(&reference.as_str().unwrap()[1..]).unwrap();
    }
    let names = schema["required"].as_array().cloned().unwrap_or_default();
    assert!(!names.is_empty(), "{schema}");
    names.iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn the_interactive_page_needs_no_other_host(pool: PgPool) {
    scenario_with(pool, options(), async |world| {
        let page = world.get("/api/docs/").await;
        assert_eq!(page.status, StatusCode::OK);
        let policy = page.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
        assert!(!policy.contains("http"), "{policy}");
        let mut assets = 0;
        for attribute in ["src=\"", "href=\""] {
            for part in page.text.split(attribute).skip(1) {
                let address = part.split('"').next().unwrap();
                assert!(!address.contains("//"), "{address} is on another host");
                let address = address.trim_start_matches("./");
                let asset = world.get(&format!("/api/docs/{address}")).await;
                assert_eq!(asset.status, StatusCode::OK, "{address}");
                assets += 1;
            }
        }
        assert!(assets >= 4, "{}", page.text);
        assert!(!page.text.contains("<script>"), "no inline script");
    })
    .await;
}
