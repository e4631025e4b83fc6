//! The files that others deploy with, against the published schemas and against the programs.

use std::path::Path;

use serde_json::Value;

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

fn errors(schema: &str, value: &Value) -> Vec<String> {
    let schema: Value = serde_json::from_str(&read(&format!("deploy/schemas/{schema}"))).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    validator.iter_errors(value).map(|e| format!("{}: {e}", e.instance_path())).collect()
}

#[track_caller]
fn check(schema: &str, value: &Value) {
    let errors = errors(schema, value);
    assert!(errors.is_empty(), "{errors:#?}");
}

/// Options in a script, without those of the shell.
fn options(script: &str) -> Vec<String> {
    let words = script.split(|c: char| c.is_whitespace() || c == '"');
    words.filter_map(|word| word.strip_prefix("--")).map(str::to_owned).collect()
}

/// Every option of the runner, by the fields of its argument structures.
fn has_option(name: &str) -> bool {
    let field = format!("pub {}:", name.replace('-', "_"));
    let long = format!("long = \"{name}\"");
    let mut texts = Vec::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../runner/src/args");
    for entry in std::fs::read_dir(folder).unwrap() {
        texts.push(std::fs::read_to_string(entry.unwrap().path()).unwrap());
    }
    texts.iter().any(|text| text.contains(&field) || text.contains(&long))
}

#[track_caller]
fn check_options(script: &str) {
    let options = options(script);
    assert!(options.len() >= 3, "{script}");
    for option in options {
        assert!(has_option(&option), "`runner` has no `--{option}`");
    }
}

#[test]
fn the_github_workflow_is_one_and_ends_with_the_gate() {
    let text = read("deploy/github/nightly.yml");
    let workflow = yaml(&text);
    check("github-workflows.json", &workflow);
    let jobs = &workflow["jobs"];
    let shards: Vec<u64> = jobs["shard"]["strategy"]["matrix"]["shard"]
        .as_array()
        .unwrap()
        .iter()
        .map(|shard| shard.as_u64().unwrap())
        .collect();
    assert_eq!(shards, (1..=8).collect::<Vec<u64>>());
    let steps = jobs["shard"]["steps"].as_array().unwrap();
    let script = steps.last().unwrap()["run"].as_str().unwrap();
    assert!(script.contains("--shard ${{ matrix.shard }}/8"), "{script}");
    check_options(script);
    assert_eq!(jobs["gate"]["needs"], "shard");
    let last = jobs["gate"]["steps"].as_array().unwrap().last().unwrap();
    let script = last["run"].as_str().unwrap();
    assert!(script.trim_start().starts_with("runner gate nightly"), "{script}");
    check_options(script);
    // A step by a name that can be moved could become another one.
    for line in text.lines().filter(|line| line.contains("uses:")) {
        let version = line.split('@').nth(1).unwrap().split_whitespace().next().unwrap();
        assert!(version.len() == 40 && version.bytes().all(|b| b.is_ascii_hexdigit()), "{line}");
    }
    let broken = yaml(&text.replace("runs-on:", "run-on:"));
    assert!(!errors("github-workflows.json", &broken).is_empty(), "the schema sees a mistake");
}

#[test]
fn the_kubernetes_objects_are_such_and_the_job_has_an_index_for_every_shard() {
    let text = read("deploy/kubernetes/nightly.yaml");
    let objects: Vec<Value> = text.split("\n---\n").map(yaml).collect();
    assert_eq!(objects.len(), 2);
    for object in &objects {
        check("kubernetes-cronjob.json", object);
    }
    let job = &objects[0]["spec"]["jobTemplate"]["spec"];
    assert_eq!(job["completionMode"], "Indexed");
    assert_eq!(job["completions"], 8);
    let container = &job["template"]["spec"]["containers"][0];
    let script = container["args"][0].as_str().unwrap();
    assert!(script.contains("$((JOB_COMPLETION_INDEX + 1))/8"), "{script}");
    check_options(script);
    assert_eq!(container["resources"]["limits"]["google.com/tpu"], "1");
    let gate = &objects[1]["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0];
    let arguments: Vec<&str> =
        gate["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(arguments[..2], ["gate", "nightly"]);
    check_options(&arguments.join(" "));
    let broken =
        yaml(&text.split("\n---\n").next().unwrap().replace("completions:", "completion:"));
    assert!(!errors("kubernetes-cronjob.json", &broken).is_empty(), "the schema sees a mistake");
}

#[test]
fn the_composition_is_one_with_health_checks_and_volumes() {
    let composition = yaml(&read("docker-compose.yml"));
    check("compose-spec.json", &composition);
    let services = composition["services"].as_object().unwrap();
    let names: Vec<&str> = services.keys().map(String::as_str).collect();
    assert_eq!(names, ["postgres", "runner", "server"]);
    let ready = "service_healthy";
    assert_eq!(services["server"]["depends_on"]["postgres"]["condition"], ready);
    assert_eq!(services["runner"]["depends_on"]["server"]["condition"], ready);
    for volume in ["postgres-data", "runner-data"] {
        assert!(composition["volumes"].get(volume).is_some(), "{volume}");
    }
    let text = read("Dockerfile");
    let stages: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("FROM "))
        .map(|line| line.rsplit(' ').next().unwrap())
        .collect();
    assert_eq!(stages, ["build", "base", "server", "runner"]);
    for name in ["server", "runner"] {
        assert_eq!(services[name]["build"]["target"], name);
        let stage = text.split(&format!("AS {name}\n")).nth(1).unwrap();
        let stage = stage.split("\nFROM ").next().unwrap();
        assert!(stage.contains("\nUSER 10001:10001\n"), "`{name}` is not of root");
    }
    assert!(text.contains("\nHEALTHCHECK "), "the server has a health check of its own");
    let rust = read("Cargo.toml");
    let needed = rust.split("rust-version = \"").nth(1).unwrap().split('"').next().unwrap();
    assert!(text.contains(&format!("FROM rust:{needed}-slim")), "the compiler of the workspace");
}
