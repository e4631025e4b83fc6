//! Watches the gates, and sends what webhooks are to be told.

use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::app::AppState;
use crate::db::webhooks::{self, Due};
use crate::error::Result;
use crate::gates;
use crate::judge::gate::LATEST;
use crate::webhooks::{Event, next_try};

/// Between two looks at what is due.
const PERIOD: Duration = Duration::from_secs(2);
/// Between two looks at the gates, in periods.
const GATE_PERIODS: u32 = 30;
/// Longest time for one try.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Deliveries taken at once.
const BATCH: i64 = 20;

/// Runs until told to stop.
pub async fn run(state: AppState, stop: CancellationToken) {
    let client = match client() {
        Ok(client) => client,
        Err(error) => {
            tracing::error!(%error, "webhooks cannot be told anything");
            return;
        }
    };
    let mut periods = 0;
    loop {
        if periods % GATE_PERIODS == 0
            && let Err(error) = watch_gates(&state).await
        {
            tracing::warn!(error = ?error, "the gates could not be watched; trying again later");
        }
        if let Err(error) = deliver_due(&state, &client).await {
            tracing::warn!(error = ?error, "webhooks could not be told; trying again later");
        }
        periods += 1;
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
    }
}

/// A client that follows no redirect: a webhook is where its file says.
pub fn client() -> reqwest::Result<reqwest::Client> {
    // Another part of the process may have chosen already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .timeout(TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("torchtpu-conformance/", env!("CARGO_PKG_VERSION")))
        .build()
}

/// Asks every gate for the newest runs, and tells when an answer is another one than before.
pub async fn watch_gates(state: &AppState) -> Result<()> {
    for gate in state.gates.iter() {
        let now = state.clock.now();
        let (answer, _) = gates::evaluate_once(state, gate, LATEST, None, now).await?;
        let mut transaction = state.db.pool().begin().await?;
        let changed =
            webhooks::note_answer(&mut transaction, &gate.name, answer.answer, now).await?;
        if let Some(before) = changed {
            let body = json!({
                "event": Event::GateChanged, "gate": gate.name, "before": before,
                "answer": answer.answer,
                "page": format!("{}/gates/{}", state.settings.public_url, gate.name),
                "runs": answer.rules.iter().filter_map(|rule| rule.run.clone()).collect::<Vec<_>>(),
            });
            state.webhooks.tell(&mut transaction, Event::GateChanged, &body, now).await?;
        }
        transaction.commit().await?;
    }
    Ok(())
}

/// Sends everything that is due; answers how many were taken.
pub async fn deliver_due(state: &AppState, client: &reqwest::Client) -> Result<usize> {
    let mut taken = 0;
    loop {
        let now = state.clock.now();
        let until = now + chrono::Duration::seconds(60);
        let due = webhooks::take_due(state.db.pool(), now, until, BATCH).await?;
        if due.is_empty() {
            return Ok(taken);
        }
        for delivery in due {
            taken += usize::from(deliver(state, client, &delivery).await?);
        }
    }
}

async fn deliver(state: &AppState, client: &reqwest::Client, due: &Due) -> Result<bool> {
    let (status, problem, is_final) = match state.webhooks.find(&due.webhook) {
        None => (None, Some("there is no such webhook any more".to_owned()), true),
        Some(webhook) => {
            let answer = client
                .post(&webhook.url)
                .header("content-type", "application/json")
                .header("x-conformance-event", &due.event)
                .header("x-conformance-delivery", due.id)
                .header("x-conformance-signature", webhook.sign(due.id, &due.body))
                .body(due.body.clone())
                .send()
                .await;
            match answer {
                Ok(answer) if answer.status().is_success() => {
                    (Some(i32::from(answer.status().as_u16())), None, true)
                }
                Ok(answer) => {
                    let status = answer.status();
                    let problem = format!("answered {status}");
                    (Some(i32::from(status.as_u16())), Some(problem), false)
                }
                // Without the address, in which a secret may stand.
                Err(error) => (None, Some(error.without_url().to_string()), false),
            }
        }
    };
    let now = state.clock.now();
    let next = if is_final { None } else { next_try(due.tries, now) };
    if let Some(problem) = &problem {
        let given_up = next.is_none();
        tracing::warn!(
            webhook = due.webhook,
            delivery = due.id,
            problem,
            given_up,
            "not delivered"
        );
    }
    webhooks::note_try(state.db.pool(), due.id, status, problem.as_deref(), next, now).await?;
    Ok(problem.is_none())
}
