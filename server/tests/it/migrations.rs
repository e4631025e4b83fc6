//! The migrations as code: each applied to a database with rows in it, all of them undone to
//! nothing, and their words the same as those of the enums.

use std::collections::BTreeSet;

use protocol::{Direction, Dtype, Mode, Outcome, Stage, Suite, Verdict};
use server::MIGRATOR;
use server::db::tokens::Scope;
use server::judge::completeness::{Completeness, RunState};
use server::judge::gate::Answer;
use sqlx::{Executor as _, PgPool};

/// Rows that stand in the database when the migration *after* the named one is applied.
fn sample_rows(version: i64) -> &'static str {
    match version {
        20_261_130_050_100 => include_str!("data/create_tokens.sql"),
        20_261_130_050_200 => include_str!("data/create_runs.sql"),
        20_261_130_050_300 => include_str!("data/create_attempts.sql"),
        20_261_130_050_400 => include_str!("data/create_verdicts.sql"),
        20_261_130_050_500 => include_str!("data/create_gates.sql"),
        20_261_130_063_000 => include_str!("data/add_sealed_by_person.sql"),
        20_261_130_091_000 => include_str!("data/add_sources.sql"),
        20_261_130_102_000 => include_str!("data/add_retention.sql"),
        20_261_130_104_000 => include_str!("data/create_webhooks.sql"),
        20_261_130_105_000 => include_str!("data/create_inventories.sql"),
        20_261_130_160_000 => include_str!("data/add_imported_suites.sql"),
        20_261_130_161_000 => include_str!("data/add_waiver_conditions.sql"),
        20_261_130_162_000 => include_str!("data/create_sessions.sql"),
        20_261_130_163_000 => include_str!("data/create_artifacts.sql"),
        20_261_130_180_000 => include_str!("data/create_case_graphs.sql"),
        20_261_130_190_000 => include_str!("data/drop_scattered_indexes.sql"),
        20_261_130_230_000 => include_str!("data/create_summaries.sql"),
        20_261_130_233_000 => include_str!("data/add_overload_variants.sql"),
        20_261_201_031_000 => include_str!("data/add_operators_to_verdicts.sql"),
        other => panic!("migration {other} has no sample rows: add server/tests/it/data/NAME.sql"),
    }
}

fn versions() -> Vec<i64> {
    MIGRATOR.iter().filter(|m| m.migration_type.is_up_migration()).map(|m| m.version).collect()
}

async fn tables(pool: &PgPool) -> i64 {
    let query = "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                 WHERE n.nspname = 'public' AND c.relname NOT LIKE '\\_sqlx%'";
    sqlx::query_scalar(query).fetch_one(pool).await.unwrap()
}

async fn functions(pool: &PgPool) -> i64 {
    let query = "SELECT count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
                 WHERE n.nspname = 'public'";
    sqlx::query_scalar(query).fetch_one(pool).await.unwrap()
}

#[sqlx::test(migrations = false)]
async fn each_is_applied_over_rows_and_undone_over_rows(pool: PgPool) {
    let versions = versions();
    for version in &versions {
        MIGRATOR.run_to(*version, &pool).await.unwrap();
        pool.execute(sample_rows(*version)).await.unwrap_or_else(|e| panic!("{version}: {e}"));
    }
    assert!(tables(&pool).await > 20);
    for (place, _) in versions.iter().enumerate().rev() {
        let target = if place == 0 { 0 } else { versions[place - 1] };
        MIGRATOR.undo(&pool, target).await.unwrap_or_else(|e| panic!("to {target}: {e}"));
    }
    assert_eq!(tables(&pool).await, 0, "something is left");
    assert_eq!(functions(&pool).await, 0, "a function is left");
    MIGRATOR.run(&pool).await.unwrap();
}

#[test]
fn each_has_a_way_back_and_a_name_of_verb_and_noun() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../migrations");
    let names: BTreeSet<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for name in &names {
        let (version, rest) = name.split_once('_').unwrap();
        assert_eq!(version.len(), 14, "{name}");
        let verb = rest.split('_').next().unwrap();
        assert!(["create", "add", "rename", "drop", "backfill"].contains(&verb), "{name}");
        let other = match name.strip_suffix(".up.sql") {
            Some(stem) => format!("{stem}.down.sql"),
            None => format!("{}.up.sql", name.strip_suffix(".down.sql").unwrap()),
        };
        assert!(names.contains(&other), "{name} has no {other}");
    }
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn the_words_of_the_schema_are_those_of_the_enums(pool: PgPool) {
    fn words<T: std::fmt::Display>(all: &[T]) -> BTreeSet<String> {
        all.iter().map(ToString::to_string).collect()
    }
    // Names of imported suites cannot be listed, so that suites are checked by a pattern.
    let suite_pattern = |before: &str, after: &str| {
        let ours = Suite::ALL.iter().map(Suite::as_str).collect::<Vec<_>>().join("|");
        let imported = "junit:[a-z0-9][a-z0-9._-]{0,31}";
        [format!("{before}{ours}|{imported}{after}")].into()
    };
    let forgivable = Outcome::ALL.iter().filter(|o| o.is_conclusive() && **o != Outcome::Pass);
    let expected = [
        ("tokens_scopes_words", words(Scope::ALL)),
        ("cases_suite_words", suite_pattern("^(", ")$")),
        ("cases_dtype_words", words(Dtype::ALL)),
        ("cases_mode_words", words(Mode::ALL)),
        ("cases_direction_words", words(Direction::ALL)),
        ("runs_suites_words", suite_pattern("^((", ")(/|$))+$")),
        ("runs_state_words", words(RunState::ALL)),
        ("runs_completeness_words", words(Completeness::ALL)),
        ("runs_sealed_by_words", words(&["runner", "silence", "person"])),
        ("attempts_outcome_words", words(Outcome::ALL)),
        ("attempts_stage_words", words(Stage::ALL)),
        ("case_verdicts_verdict_words", words(Verdict::ALL)),
        ("case_verdicts_outcome_words", words(Outcome::ALL)),
        ("waivers_outcomes_words", forgivable.map(ToString::to_string).collect()),
        ("gate_evaluations_answer_words", words(Answer::ALL)),
        ("gate_states_answer_words", words(Answer::ALL)),
        ("webhook_deliveries_event_words", words(server::webhooks::Event::ALL)),
    ];
    let checks: Vec<(String, String)> = sqlx::query_as(
        "SELECT conname::text, pg_get_constraintdef(oid) FROM pg_constraint
         WHERE conname LIKE '%\\_words' AND conislocal",
    )
    .fetch_all(&pool)
    .await
    .unwrap();
    assert_eq!(checks.len(), expected.len(), "{checks:?}");
    for (name, definition) in &checks {
        let listed: BTreeSet<String> = definition
            .split('\'')
            .skip(1)
            .step_by(2)
            .filter(|w| w.len() > 1)
            .map(str::to_owned)
            .collect();
        let (_, words) = expected.iter().find(|(check, _)| check == name).unwrap();
        assert_eq!(&listed, words, "{name}");
    }
}
