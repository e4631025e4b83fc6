//! The page of one case in one run: its attempts with their evidence, how to run it again, and
//! its history on the same device profile.

use askama::Template;
use askama_web::WebTemplate;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use chrono::{DateTime, Utc};
use protocol::{Suite, Verdict};

use super::evidence::{AttemptSection, FIGURE_HEADS};
use super::rows::{CaseRow, RunHead};
use super::view::{self, Mark, Section, Shell};
use crate::app::AppState;
use crate::db::artifacts;
use crate::db::read_cases::{self, HistoryPoint};
use crate::db::read_runs::{self, CaseFilter};
use crate::error::{Error, Result};
use crate::extract::Path;
use crate::filters;

const HISTORY: i64 = 90;

/// The route.
pub fn router() -> Router<AppState> {
    Router::new().route("/runs/{run}/cases/{case}", get(show))
}

#[derive(Debug, Template, WebTemplate)]
#[template(path = "pages/case.html")]
struct CasePage {
    shell: Shell,
    run: RunHead,
    case: CaseRow,
    subject_href: String,
    cluster_href: String,
    waive_href: String,
    repro_command: String,
    repro: String,
    attempts: Vec<AttemptSection>,
    figure_heads: &'static [(&'static str, &'static str)],
    history: Vec<HistoryRow>,
    files: Vec<FileLine>,
}

/// A file that an attempt left.
#[derive(Debug)]
struct FileLine {
    attempt: i32,
    name: String,
    href: String,
    bytes: i64,
}

#[derive(Debug)]
struct HistoryRow {
    href: String,
    run_key: String,
    started_at: DateTime<Utc>,
    verdict: Mark,
    backend: String,
    is_new_backend: bool,
    is_this: bool,
}

async fn show(
    State(state): State<AppState>,
    Path((run_key, case_key)): Path<(String, String)>,
) -> Result<CasePage> {
    let pool = state.db.pool();
    let run = super::run::find(pool, &run_key).await?;
    let filter = CaseFilter { key: Some(case_key.clone()), ..CaseFilter::default() };
    let pairs = vec![run.id; run.suites.len()];
    let found = read_runs::select_cases(pool, &pairs, &run.suites, &filter, 1, 0).await?;
    let case =
        found.first().ok_or_else(|| Error::NoSuch { noun: "case", name: case_key.clone() })?;
    let attempts = read_cases::list_attempts(pool, run.id, &case_key).await?;
    let files = artifacts::list(pool, run.id, &case_key).await?;
    let history = read_cases::list_history(pool, &case_key, &run.device_profile, HISTORY).await?;

    let pin = format!("run={}", run.key);
    let subject_href = match case.suite.0 {
        Suite::Operators => {
            view::operator_href(super::operator::entry_name(&case.subject_base), &pin)
        }
        Suite::Tier1 | Suite::Tier2 | Suite::Dynamism => view::model_href(&case.subject_base, &pin),
        Suite::Imported(_) => String::new(),
    };
    let cluster_href = case.signature.as_ref().map_or(String::new(), |signature| {
        view::link(&view::run_href(&run.key), &[("signature", signature)]) + "#cases"
    });
    let decisive = case.decisive_attempt;
    let waive_href = match (case.verdict.0, case.outcome) {
        (Verdict::Failed | Verdict::Regressed | Verdict::Flaky, Some(outcome)) => {
            let asked = [("case", case.key.as_str()), ("outcome", outcome.0.as_str())];
            view::link("/waivers/new", &asked)
        }
        _ => String::new(),
    };
    let attempts: Vec<AttemptSection> =
        attempts.into_iter().map(|attempt| AttemptSection::new(attempt, decisive, &pin)).collect();
    let repro = attempts
        .iter()
        .filter_map(|attempt| attempt.evidence.as_ref())
        .map(|evidence| evidence.repro.clone())
        .find(|repro| !repro.is_empty())
        .unwrap_or_default();
    Ok(CasePage {
        shell: Shell::new(Section::Runs),
        subject_href,
        cluster_href,
        waive_href,
        repro_command: format!("runner repro {} {}", run.key, view::shell_quote(&case.key)),
        repro,
        attempts,
        figure_heads: &FIGURE_HEADS,
        files: files
            .into_iter()
            .map(|file| FileLine {
                href: format!("{}/{}", crate::api::artifacts::PATH, hex::encode(&file.sha256)),
                attempt: file.attempt,
                name: file.name,
                bytes: file.size,
            })
            .collect(),
        history: history_rows(history, &run.key, &case_key),
        case: CaseRow::new(case),
        run: RunHead::new(&run, state.clock.now()),
    })
}

/// Oldest first, with the runs marked in which the backend's version changed.
fn history_rows(mut points: Vec<HistoryPoint>, run_key: &str, case_key: &str) -> Vec<HistoryRow> {
    points.reverse();
    let mut before: Option<String> = None;
    points
        .into_iter()
        .map(|point| {
            let backend = point.backend_version.unwrap_or_default();
            let is_new_backend = before.as_ref().is_some_and(|before| *before != backend);
            before = Some(backend.clone());
            HistoryRow {
                href: view::case_href(&point.run_key, case_key),
                is_this: point.run_key == run_key,
                run_key: point.run_key,
                started_at: point.started_at,
                verdict: Mark::of_verdict(point.verdict.0),
                backend,
                is_new_backend,
            }
        })
        .collect()
}
