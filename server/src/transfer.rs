//! Runs as files: the messages by which a runner would have sent them, one JSON object a line, so
//! that an import is an ingest and can be repeated.

use std::collections::HashSet;
use std::num::NonZeroU32;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use chrono::{DateTime, Utc};
use protocol::ingest_api::{
    Attempt, MAX_BATCH_RESULTS, Source, create_run, post_results, put_manifest, seal_run,
};
use protocol::inventory::Inventory;
use protocol::{CaseKey, RunKey};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::app::{AppState, Settings};
use crate::args::Reads;
use crate::clock::Clock;
use crate::db::artifacts as stored_files;
use crate::db::runs::{self, Run, RunFilter};
use crate::db::sources::SourceRow;
use crate::db::tokens::{self, Caller, Scope};
use crate::db::{Db, inventories, sources, transfer};
use crate::error::Error;
use crate::gates::Gates;
use crate::ingest::{self, LinkRequest, NewLink};
use crate::judge::completeness::{Completeness, RunState};
use crate::trouble::Trouble;

/// One line. Lines of a run follow its announcement.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    /// First of a run.
    Run(create_run::Request),
    /// Which overloads its build has.
    Inventory(Inventory),
    /// Its plan.
    Manifest(put_manifest::Request),
    /// A batch.
    Results(post_results::Request),
    /// A file that attempts left, once a run.
    File {
        /// Its hash, in hex.
        sha256: String,
        /// All of it, in base64.
        contents: String,
    },
    /// Which attempts of a source left which of these files.
    FileNames(LinkRequest),
    /// A source has ended.
    Seal(seal_run::Request),
    /// A person withdrew it.
    Void {
        /// Why.
        reason: String,
    },
}

/// How an export or import ended.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Counts {
    /// Runs written or taken in.
    pub runs: u64,
    /// Attempts written or stored.
    pub attempts: u64,
    /// Attempts that were there already.
    pub replayed: u64,
    /// Keys of runs that were left out, and why.
    pub left_out: Vec<(String, String)>,
}

/// Writes runs; all of them when none is named.
pub async fn export(
    db: &Db,
    keys: &[RunKey],
    out: &mut (impl AsyncWrite + Unpin),
) -> anyhow::Result<Counts> {
    let mut chosen = Vec::new();
    for key in keys {
        let run = runs::find(db.pool(), key.as_str()).await?;
        chosen.push(run.ok_or_else(|| {
            Trouble::error(format!("there is no run `{key}`"), "names are case-sensitive")
        })?);
    }
    if keys.is_empty() {
        chosen = runs::list(db.pool(), &RunFilter::default(), i64::MAX).await?;
        chosen.reverse();
    }
    let mut counts = Counts::default();
    for run in chosen {
        if transfer::is_evidence_dropped(db.pool(), run.id).await? {
            let why = "its evidence is no longer kept".to_owned();
            counts.left_out.push((run.key.clone(), why));
            continue;
        }
        counts.attempts += export_run(db, &run, out).await?;
        counts.runs += 1;
    }
    out.flush().await?;
    Ok(counts)
}

async fn write(out: &mut (impl AsyncWrite + Unpin), line: &Line) -> anyhow::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    out.write_all(&text).await?;
    Ok(())
}

async fn export_run(
    db: &Db,
    run: &Run,
    out: &mut (impl AsyncWrite + Unpin),
) -> anyhow::Result<u64> {
    let announcement = create_run::Request {
        protocol_version: protocol::PROTOCOL_VERSION,
        run_key: run.key.parse()?,
        suites: run.suites.clone(),
        device_profile: run.device_profile.clone(),
        device_kind: run.device_kind.clone(),
        simulated: run.simulated,
        versions: run.versions.clone(),
        host: run.claimed_host.clone(),
        started_at: run.started_at,
        labels: run.labels.clone(),
    };
    write(out, &Line::Run(announcement)).await?;
    if let Some(inventory) = inventories::find(db.pool(), &[run.id]).await? {
        write(out, &Line::Inventory(inventory)).await?;
    }
    let cases: Vec<CaseKey> = transfer::list_manifest(db.pool(), run.id)
        .await?
        .iter()
        .map(|key| key.parse())
        .collect::<Result<_, _>>()?;
    if cases.is_empty() {
        return Ok(0);
    }
    let hash = hex::encode(Sha256::digest(put_manifest::Request::hash_text(&cases)));
    write(out, &Line::Manifest(put_manifest::Request { hash, cases })).await?;
    let mut attempts = 0;
    let mut written = HashSet::new();
    for source in sources::list(db.pool(), run.id).await? {
        let sent = source.part.map(|(shard, shards)| Source {
            journal: source.journal.clone(),
            shard,
            shards,
        });
        let mut after = None;
        let mut count = 0;
        loop {
            let limit = i64::try_from(MAX_BATCH_RESULTS / 4)?;
            let rows =
                transfer::list_attempts(db.pool(), run.id, source.number, after, limit).await?;
            let Some(last) = rows.last() else { break };
            after = Some((last.case_id, last.attempt));
            count += rows.len() as u64;
            let results: Vec<Attempt> =
                rows.into_iter().map(read_attempt).collect::<anyhow::Result<_>>()?;
            let batch = post_results::Request { source: sent.clone(), results };
            write(out, &Line::Results(batch)).await?;
        }
        attempts += count;
        export_files(db, run, &source, &mut written, out).await?;
        // A run that silence closed was sealed by nobody, and is closed by silence again.
        if let Some(finished_at) = source.finished_at.or_else(|| old_seal(run)) {
            let seal = seal_run::Request { source: sent, attempts: count, finished_at };
            write(out, &Line::Seal(seal)).await?;
        }
    }
    if run.completeness == Some(Completeness::Void) {
        let reason = "withdrawn on the server that it was exported from".to_owned();
        write(out, &Line::Void { reason }).await?;
    }
    Ok(attempts)
}

/// Writes the files of one source, those that are not written yet with what they hold.
async fn export_files(
    db: &Db,
    run: &Run,
    source: &SourceRow,
    written: &mut HashSet<Vec<u8>>,
    out: &mut (impl AsyncWrite + Unpin),
) -> anyhow::Result<()> {
    let rows = transfer::list_files(db.pool(), run.id, source.number).await?;
    for rows in rows.chunks(ingest::MAX_LINKS) {
        let mut artifacts = Vec::with_capacity(rows.len());
        for row in rows {
            let sha256 = hex::encode(&row.sha256);
            if written.insert(row.sha256.clone()) {
                let contents =
                    stored_files::find(db.pool(), &row.sha256).await?.ok_or_else(|| {
                        Trouble::error(
                            format!("a file of run `{}` was deleted meanwhile", run.key),
                            "export again, while `server retention` does not run",
                        )
                    })?;
                let contents = BASE64_STANDARD.encode(contents);
                write(out, &Line::File { sha256: sha256.clone(), contents }).await?;
            }
            artifacts.push(NewLink {
                case: row.case.parse()?,
                attempt: u32::try_from(row.source_attempt)?,
                name: row.name.clone(),
                sha256,
            });
        }
        let journal = Some(source.journal.clone());
        write(out, &Line::FileNames(LinkRequest { journal, artifacts })).await?;
    }
    Ok(())
}

/// Before sources were told apart, only the run said when it ended.
fn old_seal(run: &Run) -> Option<DateTime<Utc>> {
    let by_runner = run.sealed_by.as_deref() == Some("runner") && run.state == RunState::Sealed;
    run.finished_at.filter(|_| by_runner)
}

fn read_attempt(row: transfer::AttemptRow) -> anyhow::Result<Attempt> {
    Ok(Attempt {
        case: row.case.parse()?,
        attempt: u32::try_from(row.source_attempt)?,
        outcome: row.outcome.parse()?,
        stage: row.stage.map(|stage| stage.parse()).transpose()?,
        error_class: row.error_class,
        message: row.message,
        operator: row.operator,
        started_at: row.started_at,
        seconds: row.seconds,
        evidence: serde_json::from_str(&row.evidence)?,
    })
}

/// Takes in what [`export`] wrote. A run that is here with other results is left out, and named.
pub async fn import(db: &Db, lines: &mut (impl AsyncBufRead + Unpin)) -> anyhow::Result<Counts> {
    let settings = Settings {
        public_url: String::new(),
        reads: Reads::Public,
        ingest_limit: 1,
        token_requests_per_minute: NonZeroU32::MAX,
        unknown_tokens_per_minute: NonZeroU32::MAX,
        client_address_header: None,
    };
    let state = AppState::new(db.clone(), Clock::system(), Gates::default(), settings);
    let caller = importer(db).await?;
    let mut counts = Counts::default();
    let mut current: Option<RunKey> = None;
    let mut number = 0_u64;
    let mut text = String::new();
    loop {
        text.clear();
        if lines.read_line(&mut text).await? == 0 {
            return Ok(counts);
        }
        number += 1;
        let line: Line = serde_json::from_str(&text).map_err(|error| {
            Trouble::error(
                format!("line {number} is not one that `server export` writes: {error}"),
                "the lines before it were taken in; importing again changes nothing in them",
            )
        })?;
        if let Line::Run(request) = &line {
            current = Some(request.run_key.clone());
        }
        let Some(key) = current.clone() else {
            if counts.left_out.is_empty() {
                return Err(Trouble::error(
                    format!("line {number} comes before any run"),
                    "import a whole file as `server export` writes it",
                ));
            }
            continue;
        };
        match take_in(&state, &caller, &key, line, &mut counts).await {
            Ok(()) => {}
            Err(refused) if refused.status().is_client_error() => {
                counts.left_out.push((key.to_string(), refused.to_string()));
                current = None;
            }
            Err(error) => return Err(anyhow::Error::new(error)),
        }
    }
}

async fn take_in(
    state: &AppState,
    caller: &Caller,
    key: &RunKey,
    line: Line,
    counts: &mut Counts,
) -> Result<(), Error> {
    match line {
        Line::Run(request) => {
            ingest::create_run(state, caller, request).await?;
            counts.runs += 1;
        }
        Line::Inventory(inventory) => {
            ingest::put_inventory(state, key, &inventory).await?;
        }
        Line::Manifest(request) => {
            ingest::put_manifest(state, key, request).await?;
        }
        Line::Results(request) => {
            let response = ingest::post_results(state, key, request).await?;
            counts.attempts += response.stored;
            counts.replayed += response.replayed;
        }
        Line::File { sha256, contents } => {
            let sha256 = ingest::read_hash(&sha256)?;
            let contents = BASE64_STANDARD.decode(contents).map_err(|error| {
                Error::bad_request(
                    format!("the file `{}` is not in base64: {error}", hex::encode(&sha256)),
                    "export the run again; the file was cut or changed on its way",
                )
            })?;
            ingest::store_artifact(state, caller, &sha256, &contents).await?;
        }
        Line::FileNames(request) => ingest::link_artifacts(state, key, &request).await?,
        Line::Seal(request) => {
            ingest::seal_run(state, key, request).await?;
        }
        Line::Void { reason } => ingest::void_run(state, caller, key, &reason).await?,
    }
    Ok(())
}

/// Whoever imports has a token without a secret that anybody knows, for the audit log's sake.
async fn importer(db: &Db) -> anyhow::Result<Caller> {
    const NAME: &str = "import";
    let secret = tokens::new_secret();
    tokens::create(db.pool(), NAME, &secret, &[Scope::Ingest]).await?;
    let token_id = transfer::find_token(db.pool(), NAME).await?;
    Ok(Caller { token_id, name: NAME.to_owned(), scopes: vec![Scope::Ingest, Scope::Triage] })
}
