//! The list of runs, newest first, by device profile, suite and state.

use askama::Template;
use askama_web::WebTemplate;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use protocol::Suite;
use serde::Deserialize;

use super::rows::{Counts, RunRow};
use super::view::{self, Choice, Pager, Section, Shell};
use crate::app::AppState;
use crate::db::read_runs::{self, RunFilter};
use crate::error::{Error, Result};
use crate::extract::Query;
use crate::filters;

const PAGE_SIZE: u64 = 50;
const STATES: [&str; 4] = ["running", "complete", "incomplete", "void"];

/// The route.
pub fn router() -> Router<AppState> {
    Router::new().route("/runs", get(show))
}

#[derive(Debug, Deserialize)]
struct Parameters {
    device: Option<String>,
    suite: Option<String>,
    state: Option<String>,
    page: Option<String>,
}

#[derive(Debug, Template, WebTemplate)]
#[template(path = "pages/runs.html")]
struct RunsPage {
    shell: Shell,
    runs: Vec<RunRow>,
    devices: Vec<Choice>,
    suites: Vec<Choice>,
    states: Vec<Choice>,
    is_filtered: bool,
    pager: Pager,
}

async fn show(State(state): State<AppState>, Query(asked): Query<Parameters>) -> Result<RunsPage> {
    let pool = state.db.pool();
    let suite = view::word::<Suite>(asked.suite.as_deref())?;
    let chosen_state = view::text(asked.state.as_deref());
    if let Some(word) = &chosen_state
        && !STATES.contains(&word.as_str())
    {
        return Err(Error::bad_request(
            format!("unknown state `{word}`: it must be one of {}", STATES.join(", ")),
            "choose one of these words, or leave it out",
        ));
    }
    let filter = RunFilter {
        device: view::text(asked.device.as_deref()),
        suite,
        state: chosen_state,
        ..RunFilter::default()
    };
    let page = view::page_number(asked.page.as_deref())?;
    let offset = (page - 1).saturating_mul(PAGE_SIZE);
    let runs = read_runs::select_runs(pool, &filter, PAGE_SIZE.cast_signed(), offset.cast_signed())
        .await?;
    let ids: Vec<i64> = runs.iter().map(|run| run.id).collect();
    let counts = Counts::new(&read_runs::list_tallies(pool, &ids).await?);
    let profiles = read_runs::list_device_profiles(pool).await?;
    let imported = read_runs::list_imported_suites(pool).await?;
    let total = runs.first().map_or(0, |run| run.total).cast_unsigned();
    let parameters = [
        ("device", filter.device.as_deref().unwrap_or_default()),
        ("suite", suite.as_ref().map_or("", Suite::as_str)),
        ("state", filter.state.as_deref().unwrap_or_default()),
    ];
    let now = state.clock.now();
    Ok(RunsPage {
        shell: Shell::new(Section::Runs),
        is_filtered: parameters.iter().any(|(_, value)| !value.is_empty()),
        devices: Choice::words(profiles.iter().map(String::as_str), filter.device.as_deref()),
        suites: Choice::suites(&imported, suite),
        states: Choice::words(STATES, filter.state.as_deref()),
        pager: Pager::new("/runs", &parameters, page, PAGE_SIZE, total),
        runs: runs.iter().map(|run| RunRow::new(run, &counts, now)).collect(),
    })
}
