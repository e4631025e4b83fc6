//! The Atom feed of regressions: one entry for each run in which something failed that had passed.

use std::collections::HashMap;

use askama::Template;
use atom_syndication::{Content, Entry, Feed, Link, Person, Text};
use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use serde::Deserialize;

use super::view::{self, Mark};
use crate::app::AppState;
use crate::db::read_live::{self, RegressedCase, RegressedRun};
use crate::error::{Error, Result};
use crate::extract::Query;
use crate::filters;

const MOST_ENTRIES: i64 = 30;
const MOST_CASES: i64 = 20;
/// Where the feed is.
pub(super) const REGRESSIONS: &str = "/feeds/regressions.atom";

/// The route.
pub fn router() -> Router<AppState> {
    Router::new().route(REGRESSIONS, get(regressions))
}

#[derive(Debug, Deserialize)]
struct Parameters {
    device: Option<String>,
}

/// What a feed reader shows of a run.
#[derive(Debug, Template)]
#[template(path = "partials/_feed_entry.html")]
struct EntryBody<'a> {
    run: &'a RegressedRun,
    cases: Vec<CaseLine<'a>>,
}

#[derive(Debug)]
struct CaseLine<'a> {
    case: &'a RegressedCase,
    href: String,
    outcome: Mark,
}

async fn regressions(
    State(state): State<AppState>,
    Query(asked): Query<Parameters>,
) -> Result<Response> {
    let pool = state.db.pool();
    let device = view::text(asked.device.as_deref());
    let runs = read_live::list_regressed_runs(pool, device.as_deref(), MOST_ENTRIES).await?;
    let ids: Vec<i64> = runs.iter().map(|run| run.run_id).collect();
    let mut cases: HashMap<i64, Vec<RegressedCase>> = HashMap::new();
    for case in read_live::list_regressed_cases(pool, &ids, MOST_CASES).await? {
        cases.entry(case.run_id).or_default().push(case);
    }
    let site = state.settings.public_url.as_str();
    let own = cases_of(&cases);
    let entries = runs.iter().map(|run| entry(site, run, own(run))).collect::<Result<_>>()?;
    let address = view::link(
        &format!("{site}{REGRESSIONS}"),
        &[("device", device.as_deref().unwrap_or_default())],
    );
    let feed = Feed {
        title: Text::plain(match &device {
            Some(profile) => {
                format!("Regressions on {} · TorchTPU conformance", filters::make_visible(profile))
            }
            None => "Regressions · TorchTPU conformance".to_owned(),
        }),
        id: address.clone(),
        updated: runs.first().map_or(state.clock.now(), |run| run.sealed_at).fixed_offset(),
        authors: vec![Person { name: "TorchTPU conformance".to_owned(), ..Person::default() }],
        links: vec![link("self", address, "application/atom+xml"), page_link(format!("{site}/"))],
        entries,
        ..Feed::default()
    };
    let headers = [(header::CONTENT_TYPE, "application/atom+xml; charset=utf-8")];
    Ok((headers, feed.to_string()).into_response())
}

fn cases_of<'a>(
    cases: &'a HashMap<i64, Vec<RegressedCase>>,
) -> impl Fn(&RegressedRun) -> &'a [RegressedCase] {
    |run| cases.get(&run.run_id).map_or(&[], Vec::as_slice)
}

fn entry(site: &str, run: &RegressedRun, cases: &[RegressedCase]) -> Result<Entry> {
    let line = |case| CaseLine::new(site, run, case);
    let body = EntryBody { run, cases: cases.iter().map(line).collect() };
    let simulated = if run.simulated { ", simulated" } else { "" };
    let page = format!("{site}{}", view::run_href(&run.run_key));
    Ok(Entry {
        title: Text::plain(format!(
            "{} regressed on {}{simulated}: {}",
            run.cases,
            filters::make_visible(&run.device_profile),
            run.run_key
        )),
        // The same for ever, so that a run that is judged again is no second entry.
        id: format!("{page}#regressed"),
        updated: run.sealed_at.fixed_offset(),
        links: vec![page_link(view::link(&page, &[("verdict", "regressed")]))],
        content: Some(Content {
            value: Some(body.render().map_err(|error| Error::Internal(error.into()))?),
            content_type: Some("html".to_owned()),
            ..Content::default()
        }),
        ..Entry::default()
    })
}

impl<'a> CaseLine<'a> {
    fn new(site: &str, run: &RegressedRun, case: &'a RegressedCase) -> Self {
        Self {
            href: format!("{site}{}", view::case_href(&run.run_key, &case.case)),
            outcome: Mark::of_outcome(case.outcome.0),
            case,
        }
    }
}

fn page_link(href: String) -> Link {
    link("alternate", href, "text/html")
}

fn link(rel: &str, href: String, content_type: &str) -> Link {
    Link { href, rel: rel.to_owned(), mime_type: Some(content_type.to_owned()), ..Link::default() }
}
