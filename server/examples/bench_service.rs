//! How fast the service is, on one PostgreSQL, in one run: taking in results over HTTP beside a bare
//! COPY of the same rows into the same table, and pages with little and with much stored.
//!
//! `server with-database -- bench_service SERVER [FIGURES.json]`: SERVER is the program to measure.
//! `BENCH_CASES` (51,000) and `BENCH_NIGHTS` (40) make it smaller. Figures go to stdout as a table,
//! and are added to the list of {name, value, unit, goal, met} in the file.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program of its own")]
#![expect(clippy::disallowed_methods, reason = "and so is its environment")]

use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_compression::tokio::write::ZstdEncoder;
use chrono::{DateTime, Utc};
use protocol::ingest_api::{
    Attempt, MAX_BATCH_RESULTS, Source, create_run, post_results, put_manifest, seal_run,
};
use protocol::{CaseKey, Evidence, Outcome, Stage, Suite};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use sqlx::postgres::{PgPool, PgPoolOptions};
use tokio::io::AsyncWriteExt as _;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Senders at once, as two hosts with two shards each would be.
const SENDERS: usize = 4;
/// Clients that read pages at once.
const CLIENTS: usize = 4;
/// Times that each client reads each page.
const READS: usize = 20;

struct Figure {
    name: String,
    value: f64,
    unit: &'static str,
    goal: f64,
    /// Whether less is better.
    at_most: bool,
}

impl Figure {
    fn met(&self) -> bool {
        if self.at_most { self.value <= self.goal } else { self.value >= self.goal }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (Some(program), Ok(url)) = (arguments.first(), std::env::var("DATABASE_URL")) else {
        eprintln!("usage: server with-database -- bench_service SERVER [FIGURES.json]");
        return ExitCode::from(2);
    };
    match run(program, &url, arguments.get(1).map(PathBuf::from)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(3)
        }
    }
}

/// The server under measurement, ended with this.
struct Server(Child, String);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Server {
    async fn start(program: &str, url: &str, client: &reqwest::Client) -> Result<Self, Failure> {
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let address = format!("127.0.0.1:{port}");
        let child = Command::new(program)
            .args(["serve", "--listen", &address])
            .env("DATABASE_URL", url)
            .env("RUST_LOG", "warn")
            .stdin(Stdio::null())
            .spawn()?;
        let server = Self(child, format!("http://{address}"));
        for _ in 0..200 {
            let ready = client.get(format!("{}/readyz", server.1)).send().await;
            if ready.is_ok_and(|answer| answer.status().is_success()) {
                return Ok(server);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err("the server did not become ready".into())
    }

    /// Most memory that was resident at once, in MiB.
    fn peak_memory(&self) -> Result<f64, Failure> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).ok_or("no VmHWM")?;
        let kibibytes: f64 = line.split_whitespace().nth(1).ok_or("no VmHWM")?.parse()?;
        Ok(kibibytes / 1024.0)
    }
}

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

async fn run(program: &str, url: &str, file: Option<PathBuf>) -> Result<(), Failure> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::new();
    let pool = PgPoolOptions::new().max_connections(4).connect(url).await?;
    let server = Server::start(program, url, &client).await?;
    let secret = server::db::tokens::new_secret();
    let scopes = [server::db::tokens::Scope::Ingest];
    server::db::tokens::create(&pool, "bench", &secret, &scopes).await?;
    let mut figures = Vec::new();
    let (cases, nights) = (setting("BENCH_CASES", 51_000), setting("BENCH_NIGHTS", 40));
    let plan: Vec<CaseKey> = (0..cases).map(case).collect::<Result<_, _>>()?;
    measure_ingest(&client, &server, &secret, &pool, &plan, &mut figures).await?;
    measure_pages(&client, &server, &pool, nights, &mut figures).await?;
    report(&figures, file)
}

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

#[expect(clippy::cast_precision_loss, reason = "counts of cases")]
async fn measure_ingest(
    client: &reqwest::Client,
    server: &Server,
    secret: &str,
    pool: &PgPool,
    plan: &[CaseKey],
    figures: &mut Vec<Figure>,
) -> Result<(), Failure> {
    let now = Utc::now();
    let source = Some(Source { journal: "bench".to_owned(), shard: 1, shards: 1 });
    // What a runner has done by then is not measured: only the sending and taking in.
    let announcement = announcement("night-0", now);
    let manifest = put_manifest::Request {
        hash: hex::encode(Sha256::digest(put_manifest::Request::hash_text(plan))),
        cases: plan.to_vec(),
    };
    let manifest = compress(&manifest).await?;
    let mut batches = Vec::new();
    for (place, cases) in plan.chunks(MAX_BATCH_RESULTS).enumerate() {
        let first = place * MAX_BATCH_RESULTS;
        let results = cases
            .iter()
            .enumerate()
            .map(|(number, case)| attempt(case, first + number, now))
            .collect::<Result<Vec<_>, _>>()?;
        let batch = post_results::Request { source: source.clone(), results };
        batches.push(compress(&batch).await?);
    }
    let base = format!("{}/api/v1/runs", server.1);
    let run = format!("{base}/night-0");
    let start = Instant::now();
    send(client.post(&base).bearer_auth(secret).json(&announcement)).await?;
    let put = client.put(format!("{run}/manifest")).bearer_auth(secret);
    send(put.header("content-encoding", "zstd").body(manifest)).await?;
    let results_start = Instant::now();
    let queue = Arc::new(tokio::sync::Mutex::new(batches));
    let mut senders = tokio::task::JoinSet::new();
    for _ in 0..SENDERS {
        let (client, queue) = (client.clone(), queue.clone());
        let (address, secret) = (format!("{run}/results"), secret.to_owned());
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
    let results_seconds = results_start.elapsed().as_secs_f64();
    let seal = seal_run::Request { source, attempts: plan.len() as u64, finished_at: now };
    let sealed = send(client.post(format!("{run}/seal")).bearer_auth(secret).json(&seal)).await?;
    if sealed["completeness"] != "complete" {
        return Err(format!("the run is not complete: {sealed}").into());
    }
    send(client.get(&run)).await?;
    let visible_seconds = start.elapsed().as_secs_f64();
    let rate = plan.len() as f64 / results_seconds;
    let memory = server.peak_memory()?;
    let copy_rate = copy_rate(pool, plan.len()).await?;
    println!(
        "ingest: {} results over HTTP in {results_seconds:.1} s, {rate:.0} a second; sealed and \
         visible after {visible_seconds:.1} s; a bare COPY of the same rows {copy_rate:.0} a second",
        plan.len()
    );
    let at_least = |name: &str, value, unit, goal| Figure {
        name: name.to_owned(),
        value,
        unit,
        goal,
        at_most: false,
    };
    let at_most = |name: &str, value, unit, goal| Figure {
        at_most: true,
        ..at_least(name, value, unit, goal)
    };
    figures.push(at_least("ingest against bare COPY", rate / copy_rate, "times", 0.5));
    figures.push(at_least("ingest", rate, "results/s", 20_000.0));
    figures.push(at_most("a run sealed and visible", visible_seconds, "s", 30.0));
    figures.push(at_most("memory of the server while ingesting", memory, "MiB", 150.0));
    Ok(())
}

fn announcement(key: &str, started_at: DateTime<Utc>) -> create_run::Request {
    create_run::Request {
        protocol_version: protocol::PROTOCOL_VERSION,
        run_key: key.parse().expect("a run key"),
        suites: vec![Suite::Operators, Suite::Tier1],
        device_profile: "tpu".to_owned(),
        device_kind: "TPU v6e".to_owned(),
        simulated: false,
        versions: [("torch_tpu".to_owned(), "0.1".to_owned())].into(),
        host: "bench".to_owned(),
        started_at,
        labels: [("nightly".to_owned(), "yes".to_owned())].into(),
    }
}

/// Rows a second of a bare COPY of the run's attempts into the same table, under another run. The
/// best of three, since a server that shares the processor is not what is compared with.
#[expect(clippy::cast_precision_loss, reason = "counts of cases")]
async fn copy_rate(pool: &PgPool, rows: usize) -> Result<f64, Failure> {
    use futures_util::TryStreamExt as _;
    const COLUMNS: &str = "run_day, run_id, case_id, attempt, source, source_attempt, outcome, \
                           stage, error_class, message, operator, started_at, seconds, evidence, \
                           body_sha256, signature, received_at";
    let mut best: f64 = 0.0;
    for round in 0..3 {
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

/// Copies the first night to earlier ones, inside the database.
async fn add_nights(pool: &PgPool, from: usize, to: usize) -> Result<(), Failure> {
    for night in from..to {
        let mut transaction = pool.begin().await?;
        let key = format!("night-{night}");
        let id: i64 = sqlx::query_scalar(
            "INSERT INTO runs (key, body_sha256, suites, device_profile, device_kind, simulated,
                               versions, labels, claimed_host, created_by, started_at, finished_at,
                               sealed_at, sealed_by, state, completeness, manifest_sha256, planned,
                               attempts)
             SELECT $1, body_sha256, suites, device_profile, device_kind, simulated, versions,
                    labels, claimed_host, created_by, started_at - $2 * interval '1 day',
                    finished_at, sealed_at, sealed_by, state, completeness, manifest_sha256,
                    planned, attempts
             FROM runs WHERE key = 'night-0' RETURNING id",
        )
        .bind(&key)
        .bind(i32::try_from(night)?)
        .fetch_one(&mut *transaction)
        .await?;
        for statement in [
            "SELECT ensure_attempts_part((started_at AT TIME ZONE 'UTC')::date)
             FROM runs WHERE id = $1",
            "INSERT INTO manifest_entries
             SELECT $1, m.position, m.case_id FROM manifest_entries m JOIN runs r ON r.id = m.run_id
             WHERE r.key = 'night-0'",
            "INSERT INTO attempts
             SELECT (n.started_at AT TIME ZONE 'UTC')::date, n.id, a.case_id, a.attempt, a.source,
                    a.source_attempt, a.outcome, a.stage, a.error_class, a.message, a.operator,
                    a.started_at, a.seconds, a.evidence, a.body_sha256, a.signature, a.received_at
             FROM attempts a JOIN runs r ON r.id = a.run_id, runs n
             WHERE r.key = 'night-0' AND n.id = $1",
            "INSERT INTO case_verdicts (run_id, case_id, position, verdict, outcome, attempts,
                 decisive_attempt, stage, error_class, message, operator, seconds, signature)
             SELECT $1, v.case_id, v.position, v.verdict, v.outcome, v.attempts,
                 v.decisive_attempt, v.stage, v.error_class, v.message, v.operator, v.seconds,
                 v.signature
             FROM case_verdicts v JOIN runs r ON r.id = v.run_id WHERE r.key = 'night-0'",
            "INSERT INTO run_tallies
             SELECT $1, t.suite, t.verdict, t.cases FROM run_tallies t JOIN runs r ON r.id = t.run_id
             WHERE r.key = 'night-0'",
            "INSERT INTO operator_cases
             SELECT $1, o.operator_id, o.case_id, o.calls, o.fell_back, o.blamed
             FROM operator_cases o JOIN runs r ON r.id = o.run_id WHERE r.key = 'night-0'",
        ] {
            sqlx::query(statement).bind(id).execute(&mut *transaction).await?;
        }
        transaction.commit().await?;
    }
    sqlx::query("VACUUM ANALYZE").execute(pool).await?;
    Ok(())
}

async fn measure_pages(
    client: &reqwest::Client,
    server: &Server,
    pool: &PgPool,
    nights: usize,
    figures: &mut Vec<Figure>,
) -> Result<(), Failure> {
    let few = (nights / 10).max(2);
    let pages = [
        ("home", "/"),
        ("runs", "/runs"),
        ("run", "/runs/night-0"),
        ("case", "/runs/night-0/cases/operators%2Fopinfo%3Aop5%230%2Ffloat16.eager.forward"),
        ("operators", "/operators"),
        ("operator", "/operators/aten::op5.Tensor"),
        ("models", "/models"),
        ("model", "/models/timm:model50"),
        ("compare", "/api/v1/compare?a=night-1&b=night-0"),
        ("gate", "/api/v1/gates/nightly?candidate=night-0"),
    ];
    add_nights(pool, 1, few).await?;
    let mut small = Vec::new();
    for (_, path) in pages {
        small.push(p95(client, &format!("{}{path}", server.1)).await?);
    }
    add_nights(pool, few, nights).await?;
    let stored: i64 = sqlx::query_scalar("SELECT count(*) FROM attempts").fetch_one(pool).await?;
    println!("pages: {stored} attempts over {nights} nights, {CLIENTS} clients");
    for ((name, path), small) in pages.into_iter().zip(small) {
        let large = p95(client, &format!("{}{path}", server.1)).await?;
        figures.push(Figure {
            name: format!("page {name}, 95th percentile"),
            value: large * 1e3,
            unit: "ms",
            goal: 100.0,
            at_most: true,
        });
        figures.push(Figure {
            name: format!("page {name}, growth from {few} to {nights} nights"),
            value: large / small,
            unit: "times",
            goal: 1.5,
            at_most: true,
        });
    }
    Ok(())
}

/// Seconds within which 95 of 100 answers come, with several clients at once.
async fn p95(client: &reqwest::Client, address: &str) -> Result<f64, Failure> {
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        let (client, address) = (client.clone(), address.to_owned());
        clients.spawn(async move {
            let mut times = Vec::with_capacity(READS);
            for turn in 0..=READS {
                let start = Instant::now();
                let answer = client.get(&address).send().await?;
                let status = answer.status();
                answer.bytes().await?;
                if !status.is_success() {
                    return Err(format!("{address} answered {status}").into());
                }
                // The first one fills what is kept in memory.
                if turn > 0 {
                    times.push(start.elapsed().as_secs_f64());
                }
            }
            Ok::<_, Failure>(times)
        });
    }
    let mut times = Vec::new();
    while let Some(done) = clients.join_next().await {
        times.extend(done??);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() * 95 / 100])
}

fn report(figures: &[Figure], file: Option<PathBuf>) -> Result<(), Failure> {
    println!();
    for figure in figures {
        let sign = if figure.at_most { "at most" } else { "at least" };
        println!(
            "{:<58} {:>12.2} {:<10} goal {sign} {}: {}",
            figure.name,
            figure.value,
            figure.unit,
            figure.goal,
            if figure.met() { "met" } else { "NOT met" }
        );
    }
    let Some(file) = file else { return Ok(()) };
    let mut list: Vec<Value> = match std::fs::read(&file) {
        Ok(text) => serde_json::from_slice(&text)?,
        Err(_) => Vec::new(),
    };
    list.extend(figures.iter().map(|figure| {
        json!({
            "name": figure.name, "value": figure.value, "unit": figure.unit,
            "goal": figure.goal, "met": figure.met(),
        })
    }));
    std::fs::write(&file, serde_json::to_vec_pretty(&list)?)?;
    Ok(())
}
