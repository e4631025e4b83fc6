//! The page of one model: its cases in every suite, what stops it, its sweeps over sizes, and the
//! operators it uses with what the operator suite says of each.

use std::collections::HashMap;

use askama::Template;
use askama_web::WebTemplate;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use protocol::Suite;
use serde::Deserialize;

use super::count::{self, Count};
use super::history::{self, HistoryPoint};
use super::home::BlockerRow;
use super::model_details::Details;
use super::model_graphs::{GraphCell, Graphs, PopularityCell};
use super::rows::{self, CaseRow};
use super::scope::{self, Scope};
use super::view::{self, Mark, Section, Shell};
use crate::app::AppState;
use crate::db::graphs;
use crate::db::read_cases;
use crate::db::read_home;
use crate::db::read_operators::{self, OverloadCount};
use crate::db::read_runs::{self, CaseFilter, CaseView};
use crate::error::{Error, Result};
use crate::extract::{Path, Query};
use crate::filters;

const MOST_BLOCKERS: i64 = 50;

/// The route.
pub fn router() -> Router<AppState> {
    Router::new().route("/models/{subject}", get(show))
}

#[derive(Debug, Deserialize)]
struct Parameters {
    device: Option<String>,
    run: Option<String>,
}

#[derive(Debug, Template, WebTemplate)]
#[template(path = "pages/model.html")]
struct ModelPage {
    shell: Shell,
    scope: Scope,
    name: String,
    popularity: Option<PopularityCell>,
    graphs: Vec<GraphCell>,
    suites: Vec<SuiteSection>,
    blockers: Vec<BlockerRow>,
    details: Details,
    history: Vec<HistoryPoint>,
    operators: Vec<UsedOperator>,
    operators_passed: usize,
}

#[derive(Debug)]
struct SuiteSection {
    title: String,
    question: &'static str,
    count: Count,
    cases: Vec<CaseRow>,
}

/// An overload that the model dispatches, with the operator suite's figures for it.
#[derive(Debug)]
struct UsedOperator {
    overload: String,
    href: String,
    calls: String,
    suite_cases: i64,
    suite_passed: i64,
    suite_rate: String,
    status: Mark,
}

async fn show(
    State(state): State<AppState>,
    Path(name): Path<String>,
    Query(asked): Query<Parameters>,
) -> Result<ModelPage> {
    let pool = state.db.pool();
    let model_suites: Vec<String> = Suite::MODELS.iter().map(ToString::to_string).collect();
    if !read_operators::is_known_subject(pool, &name, &model_suites).await? {
        return Err(Error::no_such("model", name));
    }
    let pins = scope::Asked { device: asked.device.as_deref(), run: asked.run.as_deref() };
    let scope = scope::find(pool, pins, Suite::ALL, Suite::MODELS, state.clock.now()).await?;
    let (ids, suites) = scope.only(|suite| suite != Suite::Operators);
    let filter = CaseFilter {
        subject_base: Some(name.clone()),
        manifest_order: true,
        ..CaseFilter::default()
    };
    let cases = read_runs::select_cases(pool, &ids, &suites, &filter, i64::MAX, 0).await?;
    let blockers =
        read_home::list_blockers(pool, &ids, &suites, Some(&name), MOST_BLOCKERS).await?;
    let used = read_operators::count_overloads_of_subject(pool, &ids, &suites, &name).await?;
    let (suite_ids, suite_names) = scope.only(|suite| suite == Suite::Operators);
    let tested = read_operators::count_overloads(pool, &suite_ids, &suite_names, None).await?;
    let profile = scope.profile.as_str();
    let history =
        read_cases::list_subject_history(pool, &name, &model_suites, profile, history::MOST_RUNS)
            .await?;
    let seen = graphs::list_of_models(pool, &ids, &suites).await?;
    let operators = used_operators(used, tested, &scope.pin);
    Ok(ModelPage {
        shell: Shell::new(Section::Models),
        popularity: PopularityCell::of(&state.popularity, &name),
        graphs: Graphs::new(seen, &scope.pin).of(&name),
        suites: suite_sections(&cases),
        details: Details::read(pool, &cases).await?,
        history: history::points(history),
        blockers: blockers.into_iter().map(|b| BlockerRow::new(b, &scope.pin)).collect(),
        operators_passed: operators.iter().filter(|o| o.status.tone == "good").count(),
        operators,
        name,
        scope,
    })
}

fn suite_sections(cases: &[CaseView]) -> Vec<SuiteSection> {
    Suite::MODELS
        .iter()
        .map(|suite| {
            let mut count = Count::default();
            let own: Vec<&CaseView> = cases.iter().filter(|case| case.suite.0 == *suite).collect();
            for case in &own {
                count.add(case.verdict.0, case.outcome.map(|word| word.0), 1);
            }
            SuiteSection {
                title: rows::suite_title(*suite),
                question: rows::suite_question(*suite),
                count,
                cases: own.into_iter().map(CaseRow::new).collect(),
            }
        })
        .collect()
}

/// Joins what the model dispatches with what the operator suite found; the worst first.
fn used_operators(
    used: Vec<OverloadCount>,
    tested: Vec<OverloadCount>,
    pin: &str,
) -> Vec<UsedOperator> {
    let tested: HashMap<String, OverloadCount> =
        tested.into_iter().map(|count| (count.overload.clone(), count)).collect();
    let mut rows: Vec<UsedOperator> = used
        .into_iter()
        .map(|count| {
            let suite = tested.get(&count.overload);
            let (cases, passed) = suite.map_or((0, 0), |suite| (suite.cases, suite.passed));
            UsedOperator {
                href: view::operator_href(&count.overload, pin),
                calls: count.calls.map_or_else(|| "not counted".to_owned(), |c| c.to_string()),
                suite_cases: cases,
                suite_passed: passed,
                suite_rate: count::percent(passed.cast_unsigned(), cases.cast_unsigned()),
                status: status(&count, suite),
                overload: count.overload,
            }
        })
        .collect();
    rows.sort_by_key(|row| {
        let rank =
            ["bad", "warn", "absent", "good"].iter().position(|tone| *tone == row.status.tone);
        (rank, row.overload.clone())
    });
    rows
}

/// In one word: what this model's cases say of it, and only then what the operator suite says.
fn status(count: &OverloadCount, suite: Option<&OverloadCount>) -> Mark {
    if count.blamed > 0 {
        return Mark { word: "stops this model", shape: "cross", tone: "bad" };
    }
    if count.fell_back > 0 {
        return Mark { word: "fallback", shape: "diamond", tone: "warn" };
    }
    match suite {
        None => Mark { word: "not in the operator suite", shape: "gap", tone: "absent" },
        Some(suite) if suite.blamed > 0 => {
            Mark { word: "blamed elsewhere", shape: "half", tone: "warn" }
        }
        Some(_) => Mark { word: "never blamed", shape: "tick", tone: "good" },
    }
}
