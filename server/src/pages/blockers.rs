//! Which operators to fix first, so that most models of Tier 1 run: the ranking of
//! `runner blockers`, by the same rule, over a run that was pushed.

use askama::Template;
use askama_web::WebTemplate;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use protocol::blockers::{Hindered, Step, rank};
use protocol::evidence::Blocker;
use protocol::{Outcome, Suite};
use serde::Deserialize;

use super::rows::Counts;
use super::scope::{self, Scope};
use super::view::{self, Section, Shell};
use crate::app::AppState;
use crate::db::read_blockers::{self, StoppedCase};
use crate::db::read_runs;
use crate::error::Result;
use crate::extract::Query;
use crate::filters;

/// Cases named of those that are in no step.
const SHOWN_CASES: usize = 50;

/// The route.
pub fn router() -> Router<AppState> {
    Router::new().route("/blockers", get(show))
}

#[derive(Debug, Deserialize)]
struct Parameters {
    device: Option<String>,
    run: Option<String>,
}

#[derive(Debug, Template, WebTemplate)]
#[template(path = "pages/blockers.html")]
struct BlockersPage {
    shell: Shell,
    scope: Scope,
    planned: u64,
    judged: u64,
    hindered: usize,
    operators: usize,
    steps: Vec<StepRow>,
    left_out: Vec<LeftOut>,
}

#[derive(Debug)]
struct StepRow {
    operators: Vec<(String, String)>,
    models: Vec<(String, String)>,
    operators_so_far: usize,
    models_so_far: usize,
}

/// Cases that are in no step, and why.
#[derive(Debug)]
struct LeftOut {
    id: &'static str,
    title: &'static str,
    cases: Vec<(String, String)>,
    total: usize,
}

async fn show(
    State(state): State<AppState>,
    Query(asked): Query<Parameters>,
) -> Result<BlockersPage> {
    let pool = state.db.pool();
    let pins = scope::Asked { device: asked.device.as_deref(), run: asked.run.as_deref() };
    let tier1 = [Suite::Tier1];
    let scope = scope::find(pool, pins, &tier1, &tier1, state.clock.now()).await?;
    let mut page = BlockersPage {
        shell: Shell::new(Section::Models),
        planned: 0,
        judged: 0,
        hindered: 0,
        operators: 0,
        steps: Vec::new(),
        left_out: Vec::new(),
        scope,
    };
    let Some(run_id) = page.scope.run_ids.first().copied() else { return Ok(page) };
    let run = page.scope.run_key_of(Suite::Tier1).unwrap_or_default().to_owned();
    let counts = Counts::new(&read_runs::list_tallies(pool, &[run_id]).await?);
    let count = counts.of(run_id, Suite::Tier1);
    (page.planned, page.judged) = (count.planned(), count.judged());

    let sorted = Sorted::new(read_blockers::list_stopped(pool, run_id).await?);
    page.hindered = sorted.hindered.len();
    let steps = rank(&sorted.hindered);
    page.operators = steps.last().map_or(0, |step| step.operators_so_far);
    page.steps = steps.into_iter().map(|step| StepRow::new(step, &run)).collect();
    page.left_out = [
        LeftOut::new(
            "not-known",
            "Not every operator in their way is known",
            sorted.not_known,
            &run,
        ),
        LeftOut::new(
            "host-limited",
            "Held up by the host that simulates the backend, not by the backend",
            sorted.host_limited,
            &run,
        ),
    ]
    .into_iter()
    .filter(|cases| cases.total > 0)
    .collect();
    Ok(page)
}

/// Cases by what is known of them, as `runner blockers` tells them apart.
#[derive(Debug, Default)]
struct Sorted {
    hindered: Vec<Hindered>,
    not_known: Vec<String>,
    host_limited: Vec<String>,
}

impl Sorted {
    fn new(stopped: Vec<StoppedCase>) -> Self {
        let mut sorted = Self::default();
        for StoppedCase { case, outcome, blockers } in stopped {
            // What cannot be read any more is not known.
            let blockers: Option<Vec<Blocker>> =
                blockers.and_then(|text| serde_json::from_str(&text).ok());
            match (blockers, outcome.0) {
                (Some(blockers), _) if !blockers.is_empty() => {
                    match Hindered::of(case.clone(), 1, &blockers) {
                        Some(one) => sorted.hindered.push(one),
                        None => sorted.host_limited.push(case),
                    }
                }
                (_, Outcome::HostLimit) => sorted.host_limited.push(case),
                (_, Outcome::Error | Outcome::Unsupported | Outcome::Crash) => {
                    sorted.not_known.push(case);
                }
                _ => {}
            }
        }
        sorted
    }
}

impl StepRow {
    fn new(step: Step, run: &str) -> Self {
        let pin = format!("run={run}");
        let operator = |name: String| (view::operator_href(&name, &pin), name);
        Self {
            operators: step.operators.into_iter().map(operator).collect(),
            models: step.models.into_iter().map(|key| (view::case_href(run, &key), key)).collect(),
            operators_so_far: step.operators_so_far,
            models_so_far: step.models_so_far,
        }
    }
}

impl LeftOut {
    fn new(id: &'static str, title: &'static str, cases: Vec<String>, run: &str) -> Self {
        let total = cases.len();
        let link = |key: String| (view::case_href(run, &key), key);
        Self { id, title, total, cases: cases.into_iter().take(SHOWN_CASES).map(link).collect() }
    }
}
