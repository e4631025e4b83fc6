//! Pages read by several clients at once, with little and with much stored.

use std::time::{Duration, Instant};

use sqlx::PgPool;

use crate::{Bench, Failure, Figure};

/// Clients that read pages at once.
const CLIENTS: usize = 4;
/// Times that each client reads each page.
const READS: usize = 40;

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
                 decisive_attempt, stage, error_class, message, operator, seconds, signature, operators)
             SELECT $1, v.case_id, v.position, v.verdict, v.outcome, v.attempts,
                 v.decisive_attempt, v.stage, v.error_class, v.message, v.operator, v.seconds,
                 v.signature, v.operators
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
    // The server adds up the cases of runs that it finds sealed.
    while sqlx::query_scalar("SELECT EXISTS (SELECT FROM runs WHERE NOT summarised)")
        .fetch_one(pool)
        .await?
    {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    sqlx::query("VACUUM ANALYZE").execute(pool).await?;
    Ok(())
}

/// What each page costs with a tenth of the nights, and with all of them.
pub(super) async fn with_few_and_many_nights(
    bench: &Bench,
    nights: usize,
) -> Result<Vec<Figure>, Failure> {
    let few = (nights / 10).max(2);
    let pages = [
        ("home", "/"),
        ("runs", "/runs"),
        ("run", "/runs/night-0"),
        ("case", "/runs/night-0/cases/operators%2Fopinfo%3Aop5%230%2Ffloat16.eager.forward"),
        ("operators", "/operators"),
        ("entries", "/operators?view=entries"),
        ("overloads", "/operators?view=overloads"),
        ("operator", "/operators/aten::op5.Tensor"),
        ("operator of every case", "/operators/aten::empty.memory_format"),
        ("models", "/models"),
        ("model", "/models/timm:model50"),
        ("compare", "/compare?a=night-1&b=night-0"),
        ("compare of the API", "/api/v1/compare?a=night-1&b=night-0"),
        ("gate", "/gates/nightly"),
        ("gate of the API", "/api/v1/gates/nightly?candidate=night-0"),
    ];
    let Bench { client, server, pool, .. } = bench;
    add_nights(pool, 1, few).await?;
    let mut small = Vec::new();
    for (_, path) in pages {
        small.push(p95(client, &format!("{}{path}", server.1)).await?);
    }
    add_nights(pool, few, nights).await?;
    let stored: i64 = sqlx::query_scalar("SELECT count(*) FROM attempts").fetch_one(pool).await?;
    println!("pages: {stored} attempts over {nights} nights, {CLIENTS} clients");
    let mut figures = Vec::new();
    for ((name, path), small) in pages.into_iter().zip(small) {
        let large = p95(client, &format!("{}{path}", server.1)).await?;
        println!(
            "{name}: {:.1} ms with {few} nights, {:.1} ms with {nights}",
            small * 1e3,
            large * 1e3
        );
        let cost = format!("page {name}, 95th percentile");
        figures.push(Figure::at_most(&cost, large * 1e3, "ms", 100.0));
        let growth = format!("page {name}, growth from {few} to {nights} nights");
        figures.push(Figure::at_most(&growth, large / small, "times", 1.5));
    }
    Ok(figures)
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
