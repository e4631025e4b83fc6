//! Symptoms reported of tools like this one, as inputs for the runner.

use protocol::Outcome;

use crate::harness::World;

#[test]
fn a_selection_that_holds_nothing_is_no_success() {
    // TRIALS S05.
    let world = World::new();
    let empty = world.file("empty.toml", "models = []\n").display().to_string();
    let comments = world.file("comments.toml", "# timm:resnet18\n\n").display().to_string();
    let lines = world.file("comments.txt", "# add\n\n").display().to_string();
    for args in [
        vec!["--suite=operators", "--device=cpu", "--filter=aten::nosuch"],
        vec!["--tier=1", "--model-list", &empty],
        vec!["--tier=1", "--model-list", &comments],
        vec!["--suite=operators", "--device=cpu", "--selection", &lines],
        vec!["list", "--suite=operators", "--filter=aten::nosuch"],
    ] {
        let ended = world.run(&args);
        assert_eq!(ended.code, 4, "{args:?}: {}{}", ended.stdout, ended.stderr);
        assert!(ended.stderr.contains("hint: "), "{args:?}: {}", ended.stderr);
    }
    assert!(world.executed().is_empty());
    assert_eq!(std::fs::read_dir(world.path("runs")).unwrap().count(), 0, "no run is kept");
}

#[test]
fn a_case_that_passes_only_when_a_cache_of_its_process_is_warm_fails_and_is_not_flaky() {
    // TRIALS S18: the second attempt is in a fresh process, where the cache is cold again.
    let world = World::new();
    let ended = world.execute(&["pass", "coldcache"], &["--retries=2"]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert_eq!(world.outcomes("coldcache"), [Outcome::Mismatch; 3], "every attempt is kept");
    assert!(ended.stdout.contains("1 mismatch") && !ended.stdout.contains("flaky"));
}

#[test]
fn numbers_that_json_cannot_write_arrive_and_judge_the_case() {
    // TRIALS P01: outputs of inf, nan and -0.0; and a worker that writes a bare NaN.
    let world = World::new();
    let ended = world.execute(&["nonfinite", "barenan", "pass"], &["--retries=0"]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    let attempt = world.attempt("nonfinite");
    assert_eq!(attempt.outcome, Outcome::Mismatch);
    assert!(attempt.message.contains("NaN or infinite on one side only"), "{}", attempt.message);
    let journal = std::fs::read_to_string(world.path("runs/r/journal.jsonl")).unwrap();
    for line in journal.lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(!value.to_string().contains("NaN\":"), "{line}");
    }
    let figures = &attempt.evidence.comparisons[0].tensors[0].figures;
    assert!(!figures.worst_actual.unwrap().0.is_finite(), "{figures:?}");
    assert!(
        journal.contains("\"worst_actual\":\"nan\"")
            || journal.contains("\"worst_actual\":\"inf\"")
    );
    // What is no JSON is called that, and costs one case.
    let bare = world.attempt("barenan");
    assert_ne!(bare.outcome, Outcome::Pass);
    assert!(bare.message.contains("is not a known message"), "{}", bare.message);
    assert_eq!(world.outcomes("pass"), [Outcome::Pass]);
}
