//! Rules of this house that no compiler checks.

use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn each_source(check: impl Fn(&str, &str)) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    sources(&root, &mut found);
    assert!(found.len() > 40);
    for path in found {
        let name = path.strip_prefix(&root).unwrap().display().to_string();
        check(&name, &std::fs::read_to_string(&path).unwrap());
    }
}

#[test]
fn sql_is_in_the_database_module_and_checked() {
    each_source(|name, text| {
        if !name.starts_with("db/") {
            assert!(!text.contains("sqlx::query"), "{name} has SQL");
        }
        for unchecked in ["sqlx::query(", "sqlx::query_as(", "sqlx::query_scalar(", "query::<"] {
            assert!(!text.contains(unchecked), "{name} has a query that nothing checks");
        }
    });
}

#[test]
fn the_environment_is_read_in_one_place() {
    each_source(|name, text| {
        assert!(name == "args.rs" || !text.contains("env::var"), "{name} reads the environment");
    });
}

#[test]
fn judgement_knows_no_database_and_no_clock() {
    each_source(|name, text| {
        if name.starts_with("judge/") {
            for foreign in ["sqlx", "async fn", "Utc::now", "crate::db"] {
                assert!(!text.contains(foreign), "{name} has `{foreign}`");
            }
        }
    });
}

#[test]
fn every_file_says_what_it_is_and_is_not_too_long() {
    each_source(|name, text| {
        assert!(text.starts_with("//!"), "{name} has no head comment");
        let lines = text.lines().count();
        assert!(lines <= 600, "{name} has {lines} lines");
    });
}
