//! One search over the names of everything: runs, cases, operators, models.

use askama::Template;
use askama_web::WebTemplate;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use protocol::Verdict;
use serde::Deserialize;

use super::operator;
use super::rows::{self, Counts, RunRow};
use super::view::{self, Mark, Section, Shell};
use crate::app::AppState;
use crate::db::read_runs::{self, RunFilter};
use crate::db::read_search::{self, Found, FoundCase};
use crate::error::{Error, Result};
use crate::extract::Query;
use crate::filters;

/// Shown of each kind.
const SHOWN: i64 = 25;
/// Longer than any key.
const LONGEST_BYTES: usize = 4096;

/// The route.
pub fn router() -> Router<AppState> {
    Router::new().route("/search", get(show))
}

#[derive(Debug, Deserialize)]
struct Parameters {
    q: Option<String>,
}

#[derive(Debug, Template, WebTemplate)]
#[template(path = "pages/search.html")]
struct SearchPage {
    shell: Shell,
    text: String,
    groups: Vec<Group>,
    cases: Vec<CaseLine>,
    cases_total: i64,
    runs: Vec<RunRow>,
    is_empty: bool,
}

/// Names of one kind.
#[derive(Debug)]
struct Group {
    title: &'static str,
    total: i64,
    names: Vec<(String, String)>,
}

#[derive(Debug)]
struct CaseLine {
    key: String,
    suite: String,
    /// The newest run, and the case in it.
    run: Option<(String, String)>,
    verdict: Option<Mark>,
}

async fn show(
    State(state): State<AppState>,
    Query(asked): Query<Parameters>,
) -> Result<SearchPage> {
    let text = view::text(asked.q.as_deref()).unwrap_or_default();
    let mut page = SearchPage {
        shell: Shell::new(Section::Search),
        groups: Vec::new(),
        cases: Vec::new(),
        cases_total: 0,
        runs: Vec::new(),
        is_empty: true,
        text,
    };
    if page.text.is_empty() {
        return Ok(page);
    }
    if page.text.len() > LONGEST_BYTES || page.text.contains('\0') {
        return Err(Error::bad_request(
            "`q` is no text to search for",
            format!("search for up to {LONGEST_BYTES} bytes of a name, without NUL"),
        ));
    }
    let pool = state.db.pool();
    let text = page.text.as_str();
    let overloads = read_search::find_overloads(pool, text, SHOWN).await?;
    let models = read_search::find_subjects(pool, text, true, SHOWN).await?;
    let entries = read_search::find_subjects(pool, text, false, SHOWN).await?;
    let cases = read_search::find_cases(pool, text, SHOWN).await?;
    let ids = read_search::find_runs(pool, text, SHOWN).await?;
    let counts = Counts::new(&read_runs::list_tallies(pool, &ids).await?);
    let filter = RunFilter { ids: Some(ids), ..RunFilter::default() };
    let runs = read_runs::select_runs(pool, &filter, SHOWN, 0).await?;
    let now = state.clock.now();
    page.groups = [
        Group::new("Operators", overloads, |name| view::operator_href(name, "")),
        Group::new("Models", models, |name| view::model_href(name, "")),
        Group::new("Entries of the operator database", entries, |name| {
            view::operator_href(operator::entry_name(name), "")
        }),
    ]
    .into_iter()
    .filter(|group| group.total > 0)
    .collect();
    page.cases_total = cases.first().map_or(0, |case| case.total);
    page.cases = cases.into_iter().map(CaseLine::new).collect();
    page.runs = runs.iter().map(|run| RunRow::new(run, &counts, now)).collect();
    page.is_empty = page.groups.is_empty() && page.cases.is_empty() && page.runs.is_empty();
    Ok(page)
}

impl Group {
    fn new(title: &'static str, found: Vec<Found>, href: impl Fn(&str) -> String) -> Self {
        Self {
            title,
            total: found.first().map_or(0, |one| one.total),
            names: found.into_iter().map(|one| (href(&one.name), one.name)).collect(),
        }
    }
}

impl CaseLine {
    fn new(found: FoundCase) -> Self {
        let verdict = found.verdict.and_then(|word| word.parse::<Verdict>().ok());
        Self {
            run: found.run_key.map(|run| {
                let href = view::case_href(&run, &found.key);
                (run, href)
            }),
            verdict: verdict.map(Mark::of_verdict),
            suite: rows::suite_title(found.suite.0),
            key: found.key,
        }
    }
}
