//! Badges for other people's pages: a gate's answer, or a suite's newest figure. Grey when the
//! figure is stale or there is none, because a badge outlives what it was taken from.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use protocol::Suite;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::AppState;
use crate::db::runs::{self, RunFilter};
use crate::db::verdicts;
use crate::error::Result;
use crate::extract::{Path, Query};
use crate::gates;
use crate::judge::completeness::{Completeness, RunState};
use crate::judge::gate::{Answer, LATEST, Reason};
use crate::judge::rates;

/// The endpoints.
pub fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(gate)).routes(routes!(suite))
}

/// Query of a badge.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct BadgeQuery {
    /// Only runs of this device profile.
    device: Option<String>,
}

/// Colours that stay readable under white text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tone {
    Good,
    Bad,
    Unknown,
    Stale,
}

impl Tone {
    const fn colour(self) -> &'static str {
        match self {
            Self::Good => "#1a7f37",
            Self::Bad => "#b42318",
            Self::Unknown => "#8a5a00",
            Self::Stale => "#6e7781",
        }
    }
}

/// The badge of a gate's answer for the newest runs.
#[utoipa::path(get, path = "/badges/gates/{name}", tag = "badges",
    params(("name" = String, Path, description = "Name of the gate"), BadgeQuery),
    responses((status = 200, description = "A picture", body = String,
        content_type = "image/svg+xml")))]
async fn gate(
    State(state): State<AppState>,
    Path(name): Path<String>,
    Query(query): Query<BadgeQuery>,
) -> Result<Response> {
    let answer = gates::ask(&state, &name, LATEST, query.device.as_deref()).await?;
    let checks = || answer.rules.iter().flat_map(|rule| &rule.checks);
    let has = |reason: Reason| checks().any(|check| check.reason == reason);
    let (text, tone) = match answer.answer {
        Answer::Closed => ("closed", Tone::Bad),
        Answer::Open => ("open", Tone::Good),
        Answer::Incomplete if has(Reason::NoData) => ("no data", Tone::Stale),
        Answer::Incomplete if has(Reason::Stale) => ("stale", Tone::Stale),
        Answer::Incomplete => ("incomplete", Tone::Unknown),
    };
    // A closed answer that rests on an old run is no news either.
    let tone = if has(Reason::Stale) { Tone::Stale } else { tone };
    Ok(picture(&format!("gate {name}"), text, tone))
}

/// The badge of a suite's newest sealed run.
#[utoipa::path(get, path = "/badges/suites/{suite}", tag = "badges",
    params(("suite" = Suite, Path, description = "The suite"), BadgeQuery),
    responses((status = 200, description = "A picture", body = String,
        content_type = "image/svg+xml")))]
async fn suite(
    State(state): State<AppState>,
    Path(suite): Path<Suite>,
    Query(query): Query<BadgeQuery>,
) -> Result<Response> {
    let filter = RunFilter {
        without_simulated: query.device.is_none(),
        device_profile: query.device,
        suite: Some(suite),
        state: Some(RunState::Sealed),
        without_void: true,
        without_reruns: true,
        ..RunFilter::default()
    };
    let Some(run) = runs::list(state.db.pool(), &filter, 1).await?.pop() else {
        return Ok(picture(suite.as_str(), "no data", Tone::Stale));
    };
    let tally = verdicts::list_tallies(state.db.pool(), &[run.id])
        .await?
        .into_iter()
        .filter(|(_, of, ..)| *of == suite)
        .map(|(_, _, verdict, cases)| (verdict, cases))
        .collect();
    let rate = rates::pass_rate(&tally);
    let name = if run.simulated { format!("{suite} (simulated)") } else { suite.to_string() };
    let mut text = format!("{} of {} pass", rate.part, rate.whole);
    let mut tone = if rate.whole == 0 {
        Tone::Unknown
    } else if rate.part == rate.whole {
        Tone::Good
    } else {
        Tone::Bad
    };
    if run.completeness != Some(Completeness::Complete) {
        text.push_str(", incomplete");
        tone = if tone == Tone::Good { Tone::Unknown } else { tone };
    }
    if state.clock.now() - run.started_at > chrono::Duration::hours(rates::STALE_AFTER_HOURS) {
        text = format!("stale since {}", run.started_at.format("%F"));
        tone = Tone::Stale;
    }
    Ok(picture(&name, &text, tone))
}

fn picture(name: &str, text: &str, tone: Tone) -> Response {
    // About what a letter takes in an 11 pixel sans serif; the text is fitted to it.
    let width = |text: &str| 7 * text.chars().count() + 10;
    let (left, right) = (width(name), width(text));
    let whole = left + right;
    let colour = tone.colour();
    let (name, text) = (escape(name), escape(text));
    let body = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{whole}\" height=\"20\" role=\"img\" \
         aria-label=\"{name}: {text}\"><title>{name}: {text}</title>\
         <rect width=\"{left}\" height=\"20\" fill=\"#3d444d\"/>\
         <rect x=\"{left}\" width=\"{right}\" height=\"20\" fill=\"{colour}\"/>\
         <g fill=\"#fff\" font-family=\"Verdana,DejaVu Sans,sans-serif\" font-size=\"11\">\
         <text x=\"5\" y=\"14\" textLength=\"{}\">{name}</text>\
         <text x=\"{}\" y=\"14\" textLength=\"{}\">{text}</text></g></svg>\n",
        left - 10,
        left + 5,
        right - 10
    );
    let headers =
        [(header::CONTENT_TYPE, "image/svg+xml"), (header::CACHE_CONTROL, "no-cache, max-age=0")];
    (headers, body).into_response()
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}
