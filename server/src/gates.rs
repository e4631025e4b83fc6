//! The gates of this server: their files, read once at the start, and their answers.

use std::collections::BTreeMap;
use std::path::Path;

use chrono::{DateTime, Utc};
use sha2::{Digest as _, Sha256};
use sqlx::PgConnection;

use crate::app::AppState;
use crate::db;
use crate::db::gates::Evaluation;
use crate::db::memo::{self, Memo, list_changes};
use crate::db::runs::{Run, RunFilter};
use crate::error::{Error, Result};
use crate::ingest;
use crate::judge::completeness::{Completeness, RunState, Tally};
use crate::judge::gate::{
    Candidate, GateAnswer, GateFile, GateFileError, LATEST, Pinned, Rule, RuleInput, evaluate,
};
use crate::toml_files;
use crate::trouble::Trouble;

/// Directory that is used when none is named and it exists.
const DEFAULT_DIR: &str = "gates";
/// How often an answer is looked for while runs keep coming that change its candidates' baselines.
const MOST_REPEATS: usize = 5;

/// Every gate, by name.
#[derive(Debug, Default)]
pub struct Gates(BTreeMap<String, GateFile>);

impl Gates {
    /// Reads every `*.toml` of the directory; a mistake in any of them is an error, because a
    /// gate that silently went away could be taken for an open one.
    pub fn load(directory: Option<&Path>) -> anyhow::Result<Self> {
        let directory = match directory {
            Some(directory) => directory,
            None if Path::new(DEFAULT_DIR).is_dir() => Path::new(DEFAULT_DIR),
            None => return Ok(Self::default()),
        };
        let hint = "name the directory of the gate files with `--gates`";
        let mut gates = Self::default();
        for (path, text) in toml_files::read(directory, "gates", hint)? {
            let file = path.display().to_string();
            let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            gates.add(name, &file, &text).map_err(|error| {
                Trouble::error(error.to_string(), "docs/gates.md describes every field")
            })?;
        }
        Ok(gates)
    }

    /// Adds one gate from the text of its file.
    pub fn add(&mut self, name: &str, file: &str, text: &str) -> Result<(), GateFileError> {
        let gate = GateFile::parse(name, file, text)?;
        self.0.insert(name.to_owned(), gate);
        Ok(())
    }

    /// The gate of that name.
    pub fn find(&self, name: &str) -> Result<&GateFile> {
        self.0.get(name).ok_or_else(|| Error::no_such("gate", name))
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &GateFile> {
        self.0.values()
    }
}

/// Asks a gate. `candidate` is `latest`, or run keys separated by commas; for each rule the first
/// of them that fits it is taken. `device` stands in for rules that name none.
pub async fn ask(
    state: &AppState,
    name: &str,
    candidate: &str,
    device: Option<&str>,
) -> Result<GateAnswer> {
    let gate = state.gates.find(name)?;
    for _ in 0..MOST_REPEATS {
        let now = state.clock.now();
        let (answer, run_ids) = evaluate_once(state, gate, candidate, device, now).await?;
        // What a run is compared with may have changed since it was judged.
        if !ingest::judge_if_due(state, &run_ids).await? {
            record(state, gate, &answer, run_ids, state.clock.now()).await?;
            state.metrics.note_answer(name, answer.answer.as_str());
            return Ok(answer);
        }
    }
    Err(Error::Busy { doing: "answering other gates", retry_after_secs: 5 })
}

/// The newest sealed runs that the gate's rules are about, without reruns.
pub async fn past_runs(
    state: &AppState,
    gate: &GateFile,
    device: Option<&str>,
    limit: i64,
) -> Result<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    for rule in &gate.rules {
        let filter = RunFilter {
            device_profile: rule.device.as_deref().or(device).map(str::to_owned),
            suite: Some(rule.suite),
            state: Some(RunState::Sealed),
            without_void: true,
            without_reruns: true,
            ..RunFilter::default()
        };
        runs.extend(db::runs::list(state.db.pool(), &filter, limit).await?);
    }
    runs.sort_by_key(|run| std::cmp::Reverse((run.started_at, run.id)));
    runs.dedup_by_key(|run| run.id);
    runs.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(runs)
}

/// The answer as of a moment, and the runs that it rests on; nothing is stored.
pub async fn evaluate_once(
    state: &AppState,
    gate: &GateFile,
    candidate: &str,
    device: Option<&str>,
    now: DateTime<Utc>,
) -> Result<(GateAnswer, Vec<i64>)> {
    // One snapshot, so that a result that arrives meanwhile is seen by all rules or by none.
    let mut transaction = db::gates::begin_snapshot(state.db.pool()).await?;
    let named = match candidate {
        LATEST => None,
        keys => Some(find_named(&mut transaction, keys).await?),
    };
    let waivers = db::waivers::list_holding(&mut *transaction, now.date_naive()).await?;
    let mut inputs = Vec::with_capacity(gate.rules.len());
    let mut run_ids = Vec::new();
    for rule in &gate.rules {
        let profile = rule.device.as_deref().or(device);
        let run = match &named {
            Some(runs) => choose(runs, rule, profile),
            None => find_latest(&mut transaction, rule, profile).await?,
        };
        run_ids.extend(run.as_ref().map(|run| run.id));
        inputs.push(load_input(&mut transaction, state.db.memo(), rule, run).await?);
    }
    transaction.commit().await?;
    let answer = evaluate(gate, candidate, device, &inputs, &waivers, now);
    Ok((answer, run_ids))
}

async fn find_named(connection: &mut PgConnection, keys: &str) -> Result<Vec<Run>> {
    let mut runs = Vec::new();
    for key in keys.split(',') {
        runs.extend(db::runs::find(&mut *connection, key).await?);
    }
    Ok(runs)
}

/// The first run that fits the rule; else the first one, so that the answer says why it does not.
fn choose(runs: &[Run], rule: &Rule, profile: Option<&str>) -> Option<Run> {
    let fits = |run: &&Run| {
        run.suites.contains(&rule.suite)
            && profile.is_none_or(|profile| profile == run.device_profile)
    };
    runs.iter().find(fits).or_else(|| runs.first()).cloned()
}

/// The newest run of the suite, sealed or not: a newer run that did not finish must not be hidden
/// by an older one that did.
async fn find_latest(
    connection: &mut PgConnection,
    rule: &Rule,
    profile: Option<&str>,
) -> Result<Option<Run>> {
    let filter = RunFilter {
        device_profile: profile.map(str::to_owned),
        suite: Some(rule.suite),
        without_void: true,
        without_simulated: rule.device.is_none(),
        // It executed only what had come out badly, so it would hide the whole run.
        without_reruns: true,
        ..RunFilter::default()
    };
    Ok(db::runs::list(connection, &filter, 1).await?.pop())
}

async fn load_input(
    connection: &mut PgConnection,
    memo: &Memo,
    rule: &Rule,
    run: Option<Run>,
) -> Result<RuleInput> {
    let Some(run) = run else {
        return Ok(RuleInput {
            candidate: None,
            tally: Tally::default(),
            cases: Vec::new(),
            pinned: Pinned::No,
        });
    };
    let tallies = db::verdicts::list_tallies(&mut *connection, &[run.id]).await?;
    let tally = tallies
        .into_iter()
        .filter(|(_, suite, ..)| *suite == rule.suite)
        .map(|(_, _, verdict, cases)| (verdict, cases))
        .collect();
    // Of the same snapshot as the tally, and kept by nobody who reads outside of one.
    let changes = list_changes(&mut *connection, &[run.id]).await?;
    let name = memo::name("facts", &[run.id], &changes, rule.suite);
    let facts = db::gates::list_facts(&mut *connection, run.id, rule.suite);
    let cases = memo.rows(name, facts).await?.to_vec();
    let pinned = load_pinned(connection, rule).await?;
    let candidate = Candidate {
        key: run.key,
        device_profile: run.device_profile,
        device_kind: run.device_kind,
        versions: run.versions,
        simulated: run.simulated,
        state: run.state,
        void: run.completeness == Some(Completeness::Void),
        started_at: run.started_at,
    };
    Ok(RuleInput { candidate: Some(candidate), tally, cases, pinned })
}

async fn load_pinned(connection: &mut PgConnection, rule: &Rule) -> Result<Pinned> {
    let Some(key) = &rule.baseline else { return Ok(Pinned::No) };
    let run = db::runs::find(&mut *connection, key).await?;
    let counts =
        |run: &Run| run.completeness.is_some_and(|completeness| completeness != Completeness::Void);
    match run.filter(counts) {
        Some(run) => {
            let passed = db::gates::list_passed(connection, run.id, rule.suite).await?;
            Ok(Pinned::Passed(passed))
        }
        None => Ok(Pinned::Absent),
    }
}

async fn record(
    state: &AppState,
    gate: &GateFile,
    answer: &GateAnswer,
    run_ids: Vec<i64>,
    now: DateTime<Utc>,
) -> Result<()> {
    let body = serde_json::to_string(answer).map_err(anyhow::Error::from)?;
    let evaluation = Evaluation {
        gate: gate.name.clone(),
        rules_sha256: gate.sha256.to_vec(),
        candidate: answer.candidate.chars().take(1_000).collect(),
        run_ids,
        answer: answer.answer,
        body_sha256: Sha256::digest(body.as_bytes()).to_vec(),
        body,
        evaluated_at: now,
    };
    db::gates::store_evaluation(state.db.pool(), &evaluation).await?;
    Ok(())
}
