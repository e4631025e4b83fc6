//! Lists as people write them, right and wrong.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use protocol::{Dtype, SkipReason};

use super::fields::{DEFAULT_BATCH, DEFAULT_SEQUENCE, DYNAMIC, ENTRY, POPULARITY, SKIP};
use super::{ModelListError, ModelSource, Size, load, load_all, parse};
use crate::compare::{Rule, ToleranceClass};

fn lists() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../model-lists")
}

fn toml(text: &str) -> Result<Vec<super::ModelEntry>, ModelListError> {
    parse(Path::new("mine.toml"), text)
}

fn jsonl(text: &str) -> Result<Vec<super::ModelEntry>, ModelListError> {
    parse(Path::new("mine.jsonl"), text)
}

const EVERYTHING: &str = r#"
models = [
    { id = "hub:Qwen/Qwen3-0.6B", class = "Qwen3ForCausalLM", task = "text-generation", revision = "c1899de", size = "full", overrides = { num_hidden_layers = 2, rope = { theta = 1e4 }, list = [1, "a", true] }, dtypes = ["float32", "bfloat16"], batch = 3, sequence = 32, dynamic = { sequence = { min = 2, max = 64, inputs = { input_ids = 1, attention_mask = 1 } } }, tolerance_class = "matmul", rule = "exact", tags = ["text"], popularity = { rank = 1, count = 30575964, snapshot = "2026-10", source = "somewhere" }, skip = { reason = "over-budget", detail = "too slow" } },
]
"#;

#[test]
fn every_field_is_read() {
    let entry = toml(EVERYTHING).unwrap().remove(0);
    assert_eq!(entry.source, ModelSource::Hub);
    assert_eq!(entry.subject(), "hub:Qwen/Qwen3-0.6B@c1899de#full");
    assert_eq!(entry.class.as_deref(), Some("Qwen3ForCausalLM"));
    assert_eq!(entry.task.as_deref(), Some("text-generation"));
    assert_eq!(entry.dtypes, [Dtype::Float32, Dtype::Bfloat16]);
    assert_eq!(entry.tolerance_class, Some(ToleranceClass::Matmul));
    assert_eq!(entry.rule, Some(Rule::Exact));
    assert_eq!(entry.tags, ["text"]);
    assert_eq!(entry.popularity.as_ref().unwrap().count, Some(30_575_964));
    assert_eq!(entry.skip.as_ref().unwrap().reason, SkipReason::OverBudget);
    assert_eq!(entry.line, 3);
    let spec = entry.spec();
    assert_eq!((spec.source.as_str(), spec.id.as_str()), ("hub", "Qwen/Qwen3-0.6B"));
    assert_eq!((spec.size.as_str(), spec.batch, spec.sequence), ("full", 3, 32));
    assert_eq!(spec.overrides["rope"]["theta"], 1e4);
    assert_eq!(spec.overrides["architectures"], serde_json::json!(["Qwen3ForCausalLM"]));
    assert_eq!(spec.overrides["list"], serde_json::json!([1, "a", true]));
    let dimension = &entry.dimensions()[0];
    assert_eq!((dimension.name.as_str(), dimension.min, dimension.max), ("sequence", 2, 64));
    assert_eq!(dimension.inputs["attention_mask"], 1);
}

#[test]
fn both_formats_say_the_same() {
    let json = r#"
{"id": "hub:Qwen/Qwen3-0.6B", "class": "Qwen3ForCausalLM", "task": "text-generation", "revision": "c1899de", "size": "full", "overrides": {"num_hidden_layers": 2, "rope": {"theta": 1e4}, "list": [1, "a", true]}, "dtypes": ["float32", "bfloat16"], "batch": 3, "sequence": 32, "dynamic": {"sequence": {"min": 2, "max": 64, "inputs": {"input_ids": 1, "attention_mask": 1}}}, "tolerance_class": "matmul", "rule": "exact", "tags": ["text"], "popularity": {"rank": 1, "count": 30575964, "snapshot": "2026-10", "source": "somewhere"}, "skip": {"reason": "over-budget", "detail": "too slow"}}
"#;
    let mut from_toml = toml(EVERYTHING).unwrap();
    from_toml[0].line = 2;
    assert_eq!(from_toml, jsonl(json).unwrap());
}

#[test]
fn an_id_is_enough() {
    let entry = toml(r#"models = [{ id = "python:my.models:build" }]"#).unwrap().remove(0);
    assert_eq!((entry.source, entry.name.as_str()), (ModelSource::Python, "my.models:build"));
    assert_eq!((entry.size, entry.batch, entry.sequence), (Size::Tiny, 2, 16));
    assert!(entry.dimensions().is_empty() && entry.dtypes.is_empty() && entry.skip.is_none());
}

#[test]
fn everything_wrong_is_told_at_once_with_its_place() {
    let text = r#"models = [
    { id = "timm:resnet18", sequnce = 3 },
    { id = "tim:resnet18" },
    { size = "medium" },
    { id = "resnet18" },
    { id = "timm:a b" },
    "timm:resnet50",
    { id = "timm:x", batch = 0, sequence = "long" },
    { id = "timm:y", dtypes = ["float31", 7] },
    { id = "timm:z", dynamic = { sequence = { min = 9, max = 9, inputs = {} }, B = {} } },
    { id = "timm:w", dynamic = { batch = { min = 2 } } },
    { id = "timm:v", skip = { reason = "broken" } },
    { id = "timm:u", revision = "abc", overrides = { when = 2026-11-30 } },
    { id = "hub:a/b" },
    { id = "timm:resnet18" },
    { id = "timm:t", popularity = { rank = 0, snapshot = "", votes = 3 } },
    { id = "timm:resnet34" },
    { id = "timm:resnet34", size = "tiny", batch = 4 },
    { id = "timm:s", rule = "metadata" },
    { id = "timm:r", rule = "cosine" },
]
model = 3
"#;
    let expected = "\
the model list `mine.toml` has 28 problems
mine.toml:2:29: unknown field `sequnce` (did you mean `sequence`?)
mine.toml:3:12: unknown source `tim`: it must be one of transformers, timm, torchvision, package, python, hub (did you mean `timm`?)
mine.toml:4:5: `id` is missing
mine.toml:4:14: unknown size `medium`: it must be one of tiny, full
mine.toml:5:12: `id` must read `source:name` and is `resnet18` (write `timm:resnet18` or another source before the colon)
mine.toml:6:12: the name in `id` must have 1 to 200 characters without spaces, `#`, `@`, `%` and `?` (a revision has a field of its own, `revision`)
mine.toml:7:5: an entry must be a table and is a text (write { id = \"source:name\" })
mine.toml:8:30: `batch` must be 1 to 16777216 and is 0
mine.toml:8:44: `sequence` must be a whole number and is a text
";
    let error = toml(text).unwrap_err().to_string();
    assert!(error.starts_with(expected), "{error}");
    for line in [
        "mine.toml:19:29: `rule` must be one of close, exact, gpu-relative, statistical and is `metadata`",
        "mine.toml:20:29: `rule` must be one of close, exact, gpu-relative, statistical and is `cosine`",
        "mine.toml:9:32: unknown dtype `float31`",
        "mine.toml:9:43: `dtypes[1]` must be a text and is a whole number",
        "mine.toml:10:74: `dynamic.sequence.inputs` names no input",
        "mine.toml:10:80: `B` is not a name of a dimension",
        "mine.toml:11:42: `dynamic.batch.max` is missing",
        "mine.toml:11:42: `dynamic.batch.inputs` is missing",
        "mine.toml:12:40: unknown skip reason `broken`",
        "mine.toml:12:29: `skip.detail` is missing",
        "mine.toml:13:5: `revision` is only for models of source `hub`, not `timm`",
        "mine.toml:13:54: `overrides.when` has no value in JSON",
        "mine.toml:14:5: `revision` is missing: a hub model is pinned",
        "mine.toml:16:44: `popularity.rank` must be 1 to 9223372036854775807 and is 0",
        "mine.toml:16:58: `popularity.snapshot` must not be empty",
        "mine.toml:16:62: unknown field `popularity.votes`",
        "mine.toml:16:35: `popularity.source` is missing",
        "mine.toml:18:1: `timm:resnet34#tiny` is listed twice: on lines 17 and 18",
        "mine.toml:22:1: unknown field `model` (did you mean `models`?)",
    ] {
        assert!(error.contains(line), "{line:?} is not in\n{error}");
    }
}

#[test]
fn mistakes_of_syntax_have_a_place() {
    let error = toml("models = [\n  { id = \"timm:a\" }\n  { id = \"timm:b\" },\n]\n").unwrap_err();
    assert!(error.to_string().contains("mine.toml:3:3: not valid TOML"), "{error}");
    let error = jsonl("{\"id\": \"timm:a\"}\n\n{\"id\": }\n{\"id\": \"timm:b\", \"id\": 1}\n");
    let error = error.unwrap_err().to_string();
    assert!(error.contains("mine.jsonl:3:8: not valid JSON: expected value"), "{error}");
    assert!(error.contains("mine.jsonl:4:"), "{error}");
    assert!(error.contains("duplicate key `id`"), "{error}");
    let error = jsonl("{\"id\": \"timm:a\", \"sizes\": \"full\"}").unwrap_err().to_string();
    assert!(error.contains("mine.jsonl:1:18: unknown field `sizes` (did you mean `size`?)"));
}

#[test]
fn a_list_without_models_is_an_error_of_its_own() {
    for text in ["", "# nothing\n# at all\n", "models = []", "models = [\n  # { id = \"x\" },\n]"] {
        let error = toml(text).unwrap_err();
        assert!(matches!(error, ModelListError::Empty { .. }), "{text:?}: {error}");
        assert!(!error.hint().is_empty());
    }
    assert!(matches!(jsonl("\n\n").unwrap_err(), ModelListError::Empty { .. }));
}

#[test]
fn a_missing_file_and_an_unknown_format_are_named() {
    let error = load(Path::new("no/such.toml")).unwrap_err();
    assert!(error.to_string().starts_with("cannot read the model list `no/such.toml`: "));
    let error = parse(Path::new("mine.yaml"), "models: []").unwrap_err();
    assert_eq!(error.to_string(), "`mine.yaml` is neither a TOML nor a JSONL model list");
}

#[test]
fn several_lists_become_one_and_conflicts_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let one = write("one.toml", "models = [{ id = \"timm:a\" }, { id = \"timm:b\" }]");
    let two = write("two.jsonl", "\n{\"id\": \"timm:b\"}\n{\"id\": \"timm:c\"}");
    let three = write("three.toml", "models = [{ id = \"timm:a\", batch = 9 }]");
    let models = load_all(&[one.clone(), two]).unwrap();
    let names: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    let error = load_all(&[one, three]).unwrap_err();
    assert!(matches!(error, ModelListError::Conflict { .. }), "{error}");
    assert!(error.to_string().starts_with("`timm:a#tiny` is listed twice with different content"));
}

#[test]
fn every_list_that_comes_with_the_program_is_valid_and_sorted() {
    let mut lists_read = 0;
    for file in std::fs::read_dir(lists()).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "toml" || ending == "jsonl") {
            let models = load(&path).unwrap_or_else(|error| panic!("{error}"));
            let subjects: Vec<String> = models.iter().map(super::ModelEntry::subject).collect();
            assert!(subjects.is_sorted(), "{} is not sorted", path.display());
            if path.ends_with("smoke.toml") {
                let dynamic = models.iter().filter(|model| !model.dynamic.is_empty()).count();
                assert_eq!((models.len(), dynamic), (15, 3), "the README says so");
            }
            lists_read += 1;
        }
    }
    assert!(lists_read > 0);
}

/// The published schema and the reader must not drift apart.
#[test]
fn the_schema_has_the_fields_and_words_of_the_reader() {
    let text = std::fs::read_to_string(lists().join("schema.json")).unwrap();
    let schema: serde_json::Value = serde_json::from_str(&text).unwrap();
    let definitions = &schema["$defs"];
    for (name, fields) in
        [("entry", ENTRY), ("dynamic", DYNAMIC), ("popularity", POPULARITY), ("skip", SKIP)]
    {
        let definition = &definitions[name];
        assert_eq!(definition["additionalProperties"], false, "{name}");
        let properties: BTreeSet<&str> =
            definition["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(properties, fields.iter().copied().collect(), "{name}");
    }
    let words = |value: &serde_json::Value| -> Vec<String> {
        value["enum"].as_array().unwrap().iter().map(|w| w.as_str().unwrap().to_owned()).collect()
    };
    let texts = |all: &[&str]| -> Vec<String> { all.iter().map(|w| (*w).to_owned()).collect() };
    let entry = &definitions["entry"]["properties"];
    let all = |words: Vec<&'static str>| texts(&words);
    assert_eq!(words(&entry["size"]), all(Size::ALL.iter().map(|w| w.as_str()).collect()));
    assert_eq!(
        words(&entry["dtypes"]["items"]),
        all(Dtype::ALL.iter().map(|w| w.as_str()).collect())
    );
    assert_eq!(
        words(&entry["tolerance_class"]),
        all(ToleranceClass::ALL.iter().map(|w| w.as_str()).collect())
    );
    let comparing = Rule::ALL.iter().filter(|rule| **rule != Rule::Metadata);
    assert_eq!(words(&entry["rule"]), all(comparing.map(|w| w.as_str()).collect()));
    assert_eq!(
        words(&definitions["skip"]["properties"]["reason"]),
        all(reasons_of_lists().collect())
    );
    let sources: Vec<&str> = ModelSource::ALL.iter().map(|w| w.as_str()).collect();
    let pattern = entry["id"]["pattern"].as_str().unwrap();
    assert!(pattern.starts_with(&format!("^({}):", sources.join("|"))), "{pattern}");
    assert_eq!(entry["batch"]["default"], DEFAULT_BATCH);
    assert_eq!(entry["sequence"]["default"], DEFAULT_SEQUENCE);
}

/// `reported` is what imported reports say, and no reason that a list may give.
fn reasons_of_lists() -> impl Iterator<Item = &'static str> {
    SkipReason::ALL.iter().filter(|r| **r != SkipReason::Reported).map(|r| r.as_str())
}

#[test]
fn the_readme_names_every_field_and_word() {
    let text = std::fs::read_to_string(lists().join("README.md")).unwrap();
    let words = ENTRY
        .iter()
        .chain(POPULARITY)
        .copied()
        .chain(ModelSource::ALL.iter().map(|word| word.as_str()))
        .chain(reasons_of_lists())
        .chain(ToleranceClass::ALL.iter().map(|word| word.as_str()));
    for word in words {
        assert!(text.contains(&format!("`{word}`")), "`{word}`");
    }
    let block = |language: &str| {
        text.split(&format!("```{language}\n")).nth(1).unwrap().split("```").next().unwrap()
    };
    assert_eq!(toml(block("toml")).unwrap().len(), 4);
    assert_eq!(jsonl(block("json")).unwrap().len(), 1);
}

#[test]
fn a_checkpoint_is_found_from_where_the_list_is() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("mine.toml");
    let text = r#"models = [{ id = "timm:resnet18", checkpoint = "weights/a.pt", signature = "0123456789abcdef" }]"#;
    std::fs::write(&list, text).unwrap();
    let entry = super::load(&list).unwrap().remove(0);
    assert_eq!(entry.checkpoint, Some(folder.path().join("weights/a.pt")));
    assert_eq!(
        entry.spec().checkpoint.unwrap(),
        folder.path().join("weights/a.pt").display().to_string()
    );
    assert_eq!(entry.signature.as_deref(), Some("0123456789abcdef"));
    let bad = toml(&text.replace("abcdef", "ABCDEF")).unwrap_err().to_string();
    assert!(bad.contains("`signature` must be 16 hexadecimal digits"), "{bad}");
}
