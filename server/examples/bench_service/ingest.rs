//! Runs sent as a runner sends them, beside a bare COPY of the same rows.

use std::sync::Arc;
use std::time::Instant;

use async_compression::tokio::write::ZstdEncoder;
use chrono::{DateTime, Utc};
use protocol::ingest_api::{
    Attempt, MAX_BATCH_RESULTS, Source, create_run, post_results, put_manifest, seal_run,
};
use protocol::{CaseKey, Evidence, Outcome, Stage, Suite};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use sqlx::PgPool;
use tokio::io::AsyncWriteExt as _;

use crate::{Bench, Failure, Figure};

/// Senders at once, as two hosts with two shards each would be.
const SENDERS: usize = 4;
/// Times that a run without history is sent, and that it is copied.
const ROUNDS: u32 = 3;
/// Device of the nights.
const DEVICE: &str = "tpu";

/// Nine in ten are operators, the rest models, as in a nightly.
fn case(number: usize) -> Result<CaseKey, Failure> {
    let text = if number.is_multiple_of(10) {
        format!("tier1/timm:model{}#tiny/float32.eager.forward", number / 10)
    } else {
        let dtype = ["float32", "bfloat16", "float16"][number % 3];
        format!("operators/opinfo:op{}#{}/{dtype}.eager.forward", number % 500, number / 500)
    };
    Ok(text.parse()?)
}

/// An attempt with evidence of the usual size: about one in twelve does not pass.
fn attempt(case: &CaseKey, number: usize, at: DateTime<Utc>) -> Result<Attempt, Failure> {
    let overload = format!("aten::op{}.Tensor", number % 500);
    let passed = number % 12 != 5;
    let figures = json!({
        "elements": 4096, "mismatched": if passed { 0 } else { 17 }, "max_abs_error": 1.25e-6,
        "max_rel_error": 3.5e-5, "ulp_p50": 0.0, "ulp_p99": 2.0, "ulp_max": 5.0, "rmse": 1.1e-7,
        "pcc": 0.999_999_9, "cosine": 0.999_999_9, "worst_index": [0, 2], "worst_actual": 1.5,
        "worst_expected": 1.500_001
    });
    let evidence: Evidence = serde_json::from_value(json!({
        "device_used": "tpu:0",
        "operators": { overload.clone(): 3, "aten::empty.memory_format": 2 },
        "stage_seconds": { "build": 0.01, "reference": 0.02, "execute": 0.03, "compare": 0.001 },
        "comparisons": [{
            "held": passed, "rule": "close", "tolerance_id": "2026.11+0123456789ab",
            "reference": "cpu float64", "findings": [],
            "tensors": [{ "path": "0", "held": passed, "dtype": "float32", "shape": [64, 64],
                          "tolerance": { "rtol": 1.3e-6, "atol": 1e-5 }, "figures": figures }]
        }],
        "reference": "cpu float64", "seed": number, "peak_memory_bytes": 65_536
    }))?;
    Ok(Attempt {
        case: case.clone(),
        attempt: 1,
        outcome: if passed { Outcome::Pass } else { Outcome::Mismatch },
        stage: (!passed).then_some(Stage::Compare),
        error_class: if passed { String::new() } else { "values-differ".to_owned() },
        message: if passed { String::new() } else { format!("{number} of 4096 differ") },
        operator: (!passed).then_some(overload),
        started_at: at,
        seconds: 0.06,
        evidence,
    })
}

async fn compress(value: &impl serde::Serialize) -> Result<Vec<u8>, Failure> {
    let mut encoder = ZstdEncoder::new(Vec::new());
    encoder.write_all(&serde_json::to_vec(value)?).await?;
    encoder.shutdown().await?;
    Ok(encoder.into_inner())
}

async fn send(request: reqwest::RequestBuilder) -> Result<Value, Failure> {
    let answer = request.send().await?;
    let status = answer.status();
    let body = answer.text().await?;
    if !status.is_success() {
        return Err(format!("{status}: {body}").into());
    }
    Ok(serde_json::from_str(&body)?)
}

/// How long a run took.
struct Sent {
    /// Results a second, from the first to the last batch.
    rate: f64,
    /// Seconds from the first byte until the page of the sealed run could be read.
    visible_seconds: f64,
}

/// Announces, plans, sends and seals a run that began then, each case with one attempt.
#[expect(clippy::cast_precision_loss, reason = "counts of cases")]
async fn send_run(
    bench: &Bench,
    key: &str,
    device: &str,
    cases: usize,
    began: DateTime<Utc>,
) -> Result<Sent, Failure> {
    let plan: Vec<CaseKey> = (0..cases).map(case).collect::<Result<_, _>>()?;
    let source = Some(Source { journal: "bench".to_owned(), shard: 1, shards: 1 });
    // What a runner has done by then is not measured: only the sending and taking in.
    let announcement = announcement(key, device, began);
    let manifest = put_manifest::Request {
        hash: hex::encode(Sha256::digest(put_manifest::Request::hash_text(&plan))),
        cases: plan.clone(),
    };
    let manifest = compress(&manifest).await?;
    let mut batches = Vec::new();
    for (place, cases) in plan.chunks(MAX_BATCH_RESULTS).enumerate() {
        let first = place * MAX_BATCH_RESULTS;
        let results = cases
            .iter()
            .enumerate()
            .map(|(number, case)| attempt(case, first + number, began))
            .collect::<Result<Vec<_>, _>>()?;
        let batch = post_results::Request { source: source.clone(), results };
        batches.push(compress(&batch).await?);
    }
    let Bench { client, secret, .. } = bench;
    let base = format!("{}/api/v1/runs", bench.server.1);
    let run = format!("{base}/{key}");
    let start = Instant::now();
    send(client.post(&base).bearer_auth(secret).json(&announcement)).await?;
    let put = client.put(format!("{run}/manifest")).bearer_auth(secret);
    send(put.header("content-encoding", "zstd").body(manifest)).await?;
    let results_start = Instant::now();
    let queue = Arc::new(tokio::sync::Mutex::new(batches));
    let mut senders = tokio::task::JoinSet::new();
    for _ in 0..SENDERS {
        let (client, queue) = (client.clone(), queue.clone());
        let (address, secret) = (format!("{run}/results"), secret.clone());
        senders.spawn(async move {
            loop {
                let Some(batch) = queue.lock().await.pop() else { return Ok::<(), Failure>(()) };
                let request = client.post(&address).bearer_auth(&secret);
                send(request.header("content-encoding", "zstd").body(batch)).await?;
            }
        });
    }
    while let Some(sent) = senders.join_next().await {
        sent??;
    }
    let rate = plan.len() as f64 / results_start.elapsed().as_secs_f64();
    let seal = seal_run::Request { source, attempts: plan.len() as u64, finished_at: began };
    let sealed = send(client.post(format!("{run}/seal")).bearer_auth(secret).json(&seal)).await?;
    if sealed["completeness"] != "complete" {
        return Err(format!("the run is not complete: {sealed}").into());
    }
    let page = client.get(format!("{}/runs/{key}", bench.server.1)).send().await?;
    page.error_for_status()?.bytes().await?;
    Ok(Sent { rate, visible_seconds: start.elapsed().as_secs_f64() })
}

/// A run without history, and a bare COPY of the same rows: of each the best of three, since a machine
/// that does something else beside is not what is compared.
pub(super) async fn first_night(bench: &Bench, cases: usize) -> Result<Vec<Figure>, Failure> {
    let mut sent = send_run(bench, "night-0", DEVICE, cases, Utc::now()).await?;
    for round in 1..ROUNDS {
        // On a device of its own, so that it has no history either.
        let key = format!("again-{round}");
        let again = send_run(bench, &key, &key, cases, Utc::now()).await?;
        sent.rate = sent.rate.max(again.rate);
        sent.visible_seconds = sent.visible_seconds.max(again.visible_seconds);
        sqlx::query("DELETE FROM runs WHERE key = $1").bind(&key).execute(&bench.pool).await?;
    }
    let memory = bench.server.peak_memory()?;
    let copy_rate = copy_rate(&bench.pool, cases).await?;
    println!(
        "ingest: {cases} results over HTTP, {:.0} a second; sealed and visible after {:.1} s; a \
         bare COPY of the same rows {copy_rate:.0} a second",
        sent.rate, sent.visible_seconds
    );
    Ok(vec![
        Figure::at_least("ingest against bare COPY", sent.rate / copy_rate, "times", 0.5),
        Figure::at_least("ingest", sent.rate, "results/s", 20_000.0),
        Figure::at_most("a run sealed and visible", sent.visible_seconds, "s", 30.0),
        Figure::at_most("memory of the server while ingesting", memory, "MB", 150.0),
    ])
}

/// A run after many others, which are its history.
pub(super) async fn another_night(bench: &Bench, cases: usize) -> Result<Vec<Figure>, Failure> {
    let began = Utc::now() + chrono::Duration::days(1);
    let sent = send_run(bench, "night-next", DEVICE, cases, began).await?;
    println!(
        "ingest after those nights: {:.0} results a second; sealed and visible after {:.1} s",
        sent.rate, sent.visible_seconds
    );
    let (name, after) = ("a run sealed and visible, after those nights", sent.visible_seconds);
    Ok(vec![
        Figure::at_least("ingest after those nights", sent.rate, "results/s", 20_000.0),
        Figure::at_most(name, after, "s", 30.0),
    ])
}

fn announcement(key: &str, device: &str, started_at: DateTime<Utc>) -> create_run::Request {
    create_run::Request {
        protocol_version: protocol::PROTOCOL_VERSION,
        run_key: key.parse().expect("a run key"),
        suites: vec![Suite::Operators, Suite::Tier1],
        device_profile: device.to_owned(),
        device_kind: "TPU v6e".to_owned(),
        simulated: false,
        versions: [("torch_tpu".to_owned(), "0.1".to_owned())].into(),
        host: "bench".to_owned(),
        started_at,
        labels: [("nightly".to_owned(), "yes".to_owned())].into(),
    }
}

/// Rows a second of a bare COPY of the run's attempts into the same table, under another run.
#[expect(clippy::cast_precision_loss, reason = "counts of cases")]
async fn copy_rate(pool: &PgPool, rows: usize) -> Result<f64, Failure> {
    use futures_util::TryStreamExt as _;
    const COLUMNS: &str = "run_day, run_id, case_id, attempt, source, source_attempt, outcome, \
                           stage, error_class, message, operator, started_at, seconds, evidence, \
                           body_sha256, signature, received_at";
    let mut best: f64 = 0.0;
    for round in 0..i32::try_from(ROUNDS)? {
        let id: i64 = sqlx::query_scalar(
            "INSERT INTO runs (key, body_sha256, suites, device_profile, device_kind, simulated,
                               versions, labels, claimed_host, created_by, started_at)
             SELECT 'copy-' || $1, body_sha256, suites, 'copy', device_kind, simulated, versions,
                    labels, claimed_host, created_by, started_at
             FROM runs WHERE key = 'night-0' RETURNING id",
        )
        .bind(round)
        .fetch_one(pool)
        .await?;
        let out = format!(
            "COPY (SELECT {} FROM attempts
                   WHERE run_id = (SELECT id FROM runs WHERE key = 'night-0')) TO STDOUT",
            COLUMNS.replace("run_id", &id.to_string())
        );
        let mut connection = pool.acquire().await?;
        let chunks: Vec<_> = connection.copy_out_raw(&out).await?.try_collect().await?;
        let bytes = chunks.concat();
        let start = Instant::now();
        let mut copy =
            connection.copy_in_raw(&format!("COPY attempts ({COLUMNS}) FROM STDIN")).await?;
        copy.send(bytes).await?;
        let copied = copy.finish().await?;
        let seconds = start.elapsed().as_secs_f64();
        if copied != rows as u64 {
            return Err(format!("COPY stored {copied} rows of {rows}").into());
        }
        best = best.max(rows as f64 / seconds);
        sqlx::query("DELETE FROM attempts WHERE run_id = $1").bind(id).execute(pool).await?;
        sqlx::query("DELETE FROM runs WHERE id = $1").bind(id).execute(pool).await?;
    }
    Ok(best)
}
