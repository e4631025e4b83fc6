//! What ran when in one run, and what took longest.

use std::collections::BTreeMap;

use askama::Template;
use askama_web::WebTemplate;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use chrono::{DateTime, Utc};

use super::rows::RunHead;
use super::view::{self, Mark, Section, Shell};
use crate::app::AppState;
use crate::charts::timeline::{Span, TimelineChart};
use crate::db::read_timeline::{self, LongAttempt};
use crate::db::sources;
use crate::error::Result;
use crate::extract::Path;
use crate::filters;

/// Attempts listed.
const LONGEST: i64 = 30;

/// The route.
pub fn router() -> Router<AppState> {
    Router::new().route("/runs/{run}/timeline", get(show))
}

#[derive(Debug, Template, WebTemplate)]
#[template(path = "pages/timeline.html")]
struct TimelinePage {
    shell: Shell,
    run: RunHead,
    attempts: usize,
    /// Those that took no time of their own: somebody else's execution, or a skip.
    instant: usize,
    chart: Option<TimelineChart>,
    longest: Vec<LongRow>,
}

#[derive(Debug)]
struct LongRow {
    href: String,
    case: String,
    attempt: i32,
    started_at: DateTime<Utc>,
    seconds: f64,
    outcome: Mark,
}

/// Address of the timeline of a run.
pub(super) fn href(run_key: &str) -> String {
    format!("{}/timeline", view::run_href(run_key))
}

async fn show(State(state): State<AppState>, Path(key): Path<String>) -> Result<TimelinePage> {
    let pool = state.db.pool();
    let run = super::run::find(pool, &key).await?;
    let rows = read_timeline::list_spans(pool, run.id).await?;
    let sources = sources::list(pool, run.id).await?;
    let places: BTreeMap<i16, usize> =
        sources.iter().enumerate().map(|(place, source)| (source.number, place)).collect();
    let names: Vec<String> = sources
        .iter()
        .enumerate()
        .map(|(place, source)| match source.part {
            Some((shard, shards)) => format!("shard {shard}/{shards}"),
            None => format!("runner {}", place + 1),
        })
        .collect();
    let spans: Vec<Span> = rows
        .iter()
        .map(|row| Span {
            source: places.get(&row.source).copied().unwrap_or(0),
            started_at: row.started_at,
            seconds: row.seconds,
            outcome: row.outcome.0,
        })
        .collect();
    let longest = read_timeline::list_longest(pool, run.id, LONGEST).await?;
    Ok(TimelinePage {
        shell: Shell::new(Section::Runs),
        attempts: rows.len(),
        instant: spans.iter().filter(|span| span.seconds <= 0.0).count(),
        chart: TimelineChart::new(&spans, &names),
        longest: longest.into_iter().map(|row| LongRow::new(row, &run.key)).collect(),
        run: RunHead::new(&run, state.clock.now()),
    })
}

impl LongRow {
    fn new(row: LongAttempt, run_key: &str) -> Self {
        Self {
            href: view::case_href(run_key, &row.case),
            case: row.case,
            attempt: row.attempt,
            started_at: row.started_at,
            seconds: row.seconds,
            outcome: Mark::of_outcome(row.outcome.0),
        }
    }
}
