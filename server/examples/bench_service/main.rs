//! How fast the service is, on one PostgreSQL, in one run: taking in results over HTTP beside a bare
//! COPY of the same rows into the same table (`ingest`), and pages with little and with much stored
//! (`pages`).
//!
//! `server with-database -- bench_service SERVER [FIGURES.json]`: SERVER is the program to measure.
//! `BENCH_CASES` (51,000) and `BENCH_NIGHTS` (40) make it smaller, `BENCH_LOG` is what the server
//! logs. Figures go to stdout as a table, and are added to the list of {name, value, unit, goal, met}
//! in the file.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program of its own")]
#![expect(clippy::disallowed_methods, reason = "and so is its environment")]

mod ingest;
mod pages;

use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use sqlx::postgres::{PgPool, PgPoolOptions};

type Failure = Box<dyn std::error::Error + Send + Sync>;

struct Figure {
    name: String,
    value: f64,
    unit: &'static str,
    goal: f64,
    /// Whether less is better.
    at_most: bool,
}

impl Figure {
    fn at_least(name: &str, value: f64, unit: &'static str, goal: f64) -> Self {
        Self { name: name.to_owned(), value, unit, goal, at_most: false }
    }

    fn at_most(name: &str, value: f64, unit: &'static str, goal: f64) -> Self {
        Self { at_most: true, ..Self::at_least(name, value, unit, goal) }
    }

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
            .env("RUST_LOG", std::env::var("BENCH_LOG").unwrap_or_else(|_| "warn".to_owned()))
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

    /// Most memory that was resident at once, in MB.
    fn peak_memory(&self) -> Result<f64, Failure> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).ok_or("no VmHWM")?;
        let kibibytes: f64 = line.split_whitespace().nth(1).ok_or("no VmHWM")?.parse()?;
        Ok(kibibytes * 1024.0 / 1e6)
    }
}

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// What is measured, and by whom.
struct Bench {
    client: reqwest::Client,
    server: Server,
    /// A token that may send results.
    secret: String,
    pool: PgPool,
}

async fn run(program: &str, url: &str, file: Option<PathBuf>) -> Result<(), Failure> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::new();
    let pool = PgPoolOptions::new().max_connections(4).connect(url).await?;
    let server = Server::start(program, url, &client).await?;
    let secret = server::db::tokens::new_secret();
    let scopes = [server::db::tokens::Scope::Ingest];
    server::db::tokens::create(&pool, "bench", &secret, &scopes).await?;
    let bench = Bench { client, server, secret, pool };
    let (cases, nights) = (setting("BENCH_CASES", 51_000), setting("BENCH_NIGHTS", 40));
    let mut figures = ingest::first_night(&bench, cases).await?;
    figures.extend(pages::with_few_and_many_nights(&bench, nights).await?);
    figures.extend(ingest::another_night(&bench, cases).await?);
    report(&figures, file)
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
