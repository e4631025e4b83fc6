//! The pass rate of one suite on one device profile over the last nights, as a chart and as the
//! table of its nights.

use askama::Template;
use askama_web::WebTemplate;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use protocol::Suite;
use serde::Deserialize;

use super::figure::Nights;
use super::view::{self, Choice, Section, Shell};
use super::{home, rows};
use crate::app::AppState;
use crate::charts::trend::{NIGHTS, Night, Size, TrendChart};
use crate::db::read_home;
use crate::error::Result;
use crate::extract::Query;
use crate::filters;

/// The route.
pub fn router() -> Router<AppState> {
    Router::new().route("/trend", get(show))
}

#[derive(Debug, Deserialize)]
struct Parameters {
    suite: Option<String>,
    device: Option<String>,
}

#[derive(Debug, Template, WebTemplate)]
#[template(path = "pages/trend.html")]
struct TrendPage {
    shell: Shell,
    title: String,
    question: &'static str,
    profile: String,
    suites: Vec<Choice>,
    profiles: Vec<Choice>,
    chart: Option<TrendChart>,
    nights: Vec<NightRow>,
    most_nights: u64,
}

#[derive(Debug)]
struct NightRow {
    night: Night,
    /// Whether the night with a run before it was of another backend.
    is_new_backend: bool,
}

async fn show(State(state): State<AppState>, Query(asked): Query<Parameters>) -> Result<TrendPage> {
    let pool = state.db.pool();
    let now = state.clock.now();
    let suite = view::word::<Suite>(asked.suite.as_deref())?.unwrap_or(Suite::Operators);
    let newest = read_home::list_newest_runs(pool).await?;
    let profiles = home::profiles(&newest);
    let profile = view::text(asked.device.as_deref())
        .or_else(|| profiles.first().cloned())
        .unwrap_or_default();
    let nights = Nights::read(pool, now, Some(&profile), Some(suite)).await?;
    let own = nights.of(&profile, suite);
    let before = std::iter::once(None).chain(own.iter().map(Some));
    let mut rows: Vec<NightRow> = own
        .iter()
        .zip(before)
        .map(|(night, before)| NightRow {
            night: night.clone(),
            is_new_backend: before.is_some_and(|before| before.backend != night.backend),
        })
        .collect();
    rows.reverse();
    let at = |suite: Suite, device: &str| {
        view::link("/trend", &[("suite", suite.as_str()), ("device", device)])
    };
    Ok(TrendPage {
        shell: Shell::new(Section::Home),
        title: rows::suite_title(suite),
        question: rows::suite_question(suite),
        suites: Suite::ALL
            .iter()
            .chain(suite.is_imported().then_some(&suite))
            .map(|one| Choice {
                value: at(*one, &profile),
                label: rows::suite_title(*one),
                chosen: *one == suite,
            })
            .collect(),
        profiles: profiles
            .iter()
            .map(|one| Choice {
                value: at(suite, one),
                label: one.clone(),
                chosen: *one == profile,
            })
            .collect(),
        chart: TrendChart::new(own, now.date_naive(), Size::Large),
        nights: rows,
        most_nights: NIGHTS,
        profile,
    })
}
