//! The list of gates, each with its answer of now, and the page of one gate, rule by rule. The
//! answer is the same one that `GET /api/v1/gates/{name}` gives.

use askama::Template;
use askama_web::WebTemplate;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use chrono::{DateTime, Utc};
use serde::Deserialize;

use super::rows;
use super::view::{self, Mark, Section, Shell};
use crate::app::AppState;
use crate::db;
use crate::db::gates::Given;
use crate::error::Result;
use crate::extract::{Path, Query};
use crate::filters;
use crate::gates;
use crate::judge::gate::{Blocking, CheckAnswer, GateAnswer, LATEST, RuleAnswer};

/// Answers listed on the page of a gate.
const MOST_GIVEN: i64 = 30;

/// The routes.
pub fn router() -> Router<AppState> {
    Router::new().route("/gates", get(list)).route("/gates/{name}", get(show))
}

#[derive(Debug, Deserialize)]
struct Parameters {
    candidate: Option<String>,
    device: Option<String>,
}

#[derive(Debug, Template, WebTemplate)]
#[template(path = "pages/gates.html")]
struct GatesPage {
    shell: Shell,
    gates: Vec<GateRow>,
}

#[derive(Debug)]
struct GateRow {
    name: String,
    href: String,
    title: String,
    answer: Mark,
    rules: Vec<RuleLine>,
}

#[derive(Debug)]
struct RuleLine {
    name: String,
    answer: Mark,
    simulated: bool,
}

#[derive(Debug, Template, WebTemplate)]
#[template(path = "pages/gate.html")]
struct GatePage {
    shell: Shell,
    name: String,
    title: String,
    answer: Mark,
    candidate: String,
    device: String,
    rules_sha256: String,
    command: String,
    api_href: String,
    rules: Vec<RuleSection>,
    given: Vec<GivenRow>,
}

/// An answer that was given before, or just now.
#[derive(Debug)]
struct GivenRow {
    answer: Mark,
    candidate: String,
    /// Keys and pages.
    runs: Vec<(String, String)>,
    rules: String,
    given_at: DateTime<Utc>,
}

#[derive(Debug)]
struct RuleSection {
    name: String,
    answer: Mark,
    suite: String,
    device: String,
    run: String,
    run_href: String,
    simulated: bool,
    counts: Vec<(Mark, u64)>,
    checks: Vec<CheckRow>,
}

#[derive(Debug)]
struct CheckRow {
    name: &'static str,
    answer: Mark,
    reason: &'static str,
    text: String,
    blocking: Vec<BlockingRow>,
    blocking_total: u64,
}

#[derive(Debug)]
struct BlockingRow {
    case: String,
    href: String,
    verdict: Mark,
    outcome: String,
    message: String,
}

async fn list(State(state): State<AppState>) -> Result<GatesPage> {
    let names: Vec<String> = state.gates.iter().map(|gate| gate.name.clone()).collect();
    let mut rows = Vec::with_capacity(names.len());
    for name in names {
        rows.push(GateRow::new(gates::ask(&state, &name, LATEST, None).await?));
    }
    Ok(GatesPage { shell: Shell::new(Section::Gates), gates: rows })
}

async fn show(
    State(state): State<AppState>,
    Path(name): Path<String>,
    Query(asked): Query<Parameters>,
) -> Result<GatePage> {
    let candidate = view::text(asked.candidate.as_deref());
    let device = view::text(asked.device.as_deref());
    let candidate = candidate.as_deref().unwrap_or(LATEST);
    let answer = gates::ask(&state, &name, candidate, device.as_deref()).await?;
    let given = db::gates::list_given(state.db.pool(), &name, MOST_GIVEN).await?;
    let page = GatePage::new(answer, device.unwrap_or_default(), &state.settings.public_url);
    Ok(GatePage { given: given.into_iter().map(GivenRow::new).collect(), ..page })
}

impl GateRow {
    fn new(answer: GateAnswer) -> Self {
        Self {
            href: format!("/gates/{}", view::encode(&answer.gate)),
            name: answer.gate,
            title: answer.title,
            answer: Mark::of_answer(answer.answer.as_str()),
            rules: answer
                .rules
                .into_iter()
                .map(|rule| RuleLine {
                    answer: Mark::of_answer(rule.answer.as_str()),
                    name: rule.name,
                    simulated: rule.simulated,
                })
                .collect(),
        }
    }
}

impl GatePage {
    fn new(answer: GateAnswer, device: String, public_url: &str) -> Self {
        let parameters = [("candidate", answer.candidate.as_str()), ("device", device.as_str())];
        let path = format!("/api/v1/gates/{}", view::encode(&answer.gate));
        let mut command = format!("runner gate {} --server {public_url}", answer.gate);
        if answer.candidate != LATEST {
            command += &format!(" --candidate {}", view::shell_quote(&answer.candidate));
        }
        Self {
            shell: Shell::new(Section::Gates),
            api_href: view::link(&path, &parameters),
            command,
            answer: Mark::of_answer(answer.answer.as_str()),
            rules: answer.rules.into_iter().map(RuleSection::new).collect(),
            name: answer.gate,
            title: answer.title,
            candidate: answer.candidate,
            rules_sha256: answer.rules_sha256,
            device,
            given: Vec::new(),
        }
    }
}

impl GivenRow {
    fn new(given: Given) -> Self {
        Self {
            answer: Mark::of_answer(&given.answer),
            candidate: given.candidate,
            runs: given
                .runs
                .into_iter()
                .map(|key| {
                    let href = view::run_href(&key);
                    (key, href)
                })
                .collect(),
            rules: given.rules_sha256[..12].to_owned(),
            given_at: given.evaluated_at,
        }
    }
}

impl RuleSection {
    fn new(rule: RuleAnswer) -> Self {
        let run = rule.run.unwrap_or_default();
        Self {
            name: rule.name,
            answer: Mark::of_answer(rule.answer.as_str()),
            suite: rows::suite_title(rule.suite),
            device: rule.device.unwrap_or_else(|| "any that is not simulated".to_owned()),
            run_href: view::run_href(&run),
            simulated: rule.simulated,
            counts: rule
                .counts
                .into_iter()
                .filter(|(_, cases)| *cases > 0)
                .map(|(verdict, cases)| (Mark::of_verdict(verdict), cases))
                .collect(),
            checks: rule.checks.into_iter().map(|check| CheckRow::new(check, &run)).collect(),
            run,
        }
    }
}

impl CheckRow {
    fn new(check: CheckAnswer, run: &str) -> Self {
        let row = |blocking: Blocking| BlockingRow {
            href: view::case_href(run, &blocking.case),
            case: blocking.case,
            verdict: Mark::of_verdict(blocking.verdict),
            outcome: blocking.outcome.unwrap_or_default(),
            message: blocking.message,
        };
        Self {
            name: check.check.as_str(),
            answer: Mark::of_answer(check.answer.as_str()),
            reason: check.reason.as_str(),
            text: check.text,
            blocking: check.blocking.into_iter().map(row).collect(),
            blocking_total: check.blocking_total,
        }
    }
}
