//! The home page: for every device profile the figures of its suites, what blocks most and what
//! failed alike; gates, waivers that end soon, the fleet, and the newest runs. A figure is made in
//! `figure`.

use std::cmp::Reverse;

use askama::Template;
use askama_web::WebTemplate;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use chrono::{Days, NaiveDate};
use protocol::Suite;
use sqlx::PgPool;

use super::devices::{self, DeviceLine};
use super::figure::{Material, Nights, SuiteCard};
use super::rows::{Counts, RunRow};
use super::run::ClusterRow;
use super::scope;
use super::view::{self, Mark, Section, Shell};
use crate::app::AppState;
use crate::db::Db;
use crate::db::read_home::{self, Blocker, NewestRun};
use crate::db::read_runs::{self, RunFilter, RunView};
use crate::db::read_trend;
use crate::db::read_waived::{self, EXPIRING_DAYS, WaiverTally};
use crate::db::waivers::{self, WaiverRow};
use crate::error::Result;
use crate::filters;
use crate::gates;
use crate::judge::gate::LATEST;

const LATEST_RUNS: i64 = 10;
const TOP_BLOCKERS: i64 = 8;
const TOP_CLUSTERS: usize = 5;
/// Read of each run, since some of the largest may be of cases that taught nothing.
const MOST_CLUSTERS: i64 = 20;
const MOST_EXPIRING: usize = 5;

/// The route.
pub fn router() -> Router<AppState> {
    Router::new().route("/", get(show))
}

#[derive(Debug, Template, WebTemplate)]
#[template(path = "pages/home.html")]
struct HomePage {
    shell: Shell,
    public_url: String,
    gates: Vec<GateLine>,
    waivers: WaiverTally,
    expiring: Vec<ExpiringRow>,
    sections: Vec<DeviceSection>,
    devices: Vec<DeviceLine>,
    runs: Vec<RunRow>,
}

#[derive(Debug)]
struct GateLine {
    name: String,
    href: String,
    title: String,
    answer: Mark,
    simulated: bool,
}

#[derive(Debug)]
struct DeviceSection {
    profile: String,
    simulated: bool,
    cards: Vec<SuiteCard>,
    blockers: Vec<BlockerRow>,
    blockers_total: i64,
    clusters: Vec<ClusterRow>,
    pin: String,
}

/// A waiver that ends soon.
#[derive(Debug)]
struct ExpiringRow {
    case_pattern: String,
    owner: String,
    expires_on: NaiveDate,
    days_left: i64,
}

#[derive(Debug)]
pub(super) struct BlockerRow {
    pub(super) overload: String,
    pub(super) href: String,
    pub(super) models: i64,
    pub(super) cases: i64,
    pub(super) marks: Vec<Mark>,
}

impl BlockerRow {
    pub(super) fn new(blocker: Blocker, pin: &str) -> Self {
        Self {
            href: view::operator_href(&blocker.overload, pin),
            overload: blocker.overload,
            models: blocker.models,
            cases: blocker.cases,
            marks: blocker
                .outcomes
                .iter()
                .filter_map(|word| word.parse().ok())
                .map(Mark::of_outcome)
                .collect(),
        }
    }
}

async fn show(State(state): State<AppState>) -> Result<HomePage> {
    let pool = state.db.pool();
    let (now, today) = (state.clock.now(), state.clock.today());
    let newest = read_home::list_newest_runs(pool).await?;
    let latest = read_runs::select_runs(pool, &RunFilter::default(), LATEST_RUNS, 0).await?;
    let open = RunFilter { state: Some("running".to_owned()), ..RunFilter::default() };
    let open = read_runs::select_runs(pool, &open, i64::MAX, 0).await?;
    let mut ids: Vec<i64> = newest.iter().map(|run| run.run_id).collect();
    let filter = RunFilter { ids: Some(ids.clone()), ..RunFilter::default() };
    let mut heads = read_runs::select_runs(pool, &filter, i64::MAX, 0).await?;
    heads.extend(open);
    ids.extend(latest.iter().map(|run| run.id));
    let counts = Counts::new(&read_runs::list_tallies(pool, &ids).await?);
    let material = Material {
        newest: &newest,
        releases: &read_trend::list_releases(pool).await?,
        nights: &Nights::read(pool, now, None, None).await?,
        heads: &heads,
        counts: &counts,
        now,
    };
    let mut sections = Vec::new();
    for profile in profiles(&newest) {
        sections.push(device_section(&state.db, &profile, &material).await?);
    }
    Ok(HomePage {
        shell: Shell::new(Section::Home),
        public_url: state.settings.public_url.clone(),
        gates: gate_lines(&state).await?,
        waivers: read_waived::tally(pool, today).await?,
        expiring: expiring(pool, today).await?,
        sections,
        devices: devices::list(pool, now).await?,
        runs: latest.iter().map(|run| RunRow::new(run, &counts, now)).collect(),
    })
}

/// Device profiles with a sealed run, hardware before simulation.
pub(super) fn profiles(newest: &[NewestRun]) -> Vec<String> {
    let mut names: Vec<String> = newest.iter().map(|run| run.device_profile.clone()).collect();
    names.sort_by_key(|name| (scope::preference(name), name.clone()));
    names.dedup();
    names
}

/// Waivers that end soon, the next one first.
async fn expiring(pool: &PgPool, today: NaiveDate) -> Result<Vec<ExpiringRow>> {
    let days = Days::new(u64::from(EXPIRING_DAYS.unsigned_abs()));
    let until = today.checked_add_days(days).unwrap_or(today);
    let rows = waivers::list_expiring(pool, today, until).await?;
    let row = |waiver: WaiverRow| ExpiringRow {
        days_left: (waiver.expires_on - today).num_days(),
        case_pattern: waiver.case_pattern,
        owner: waiver.owner,
        expires_on: waiver.expires_on,
    };
    Ok(rows.into_iter().take(MOST_EXPIRING).map(row).collect())
}

async fn gate_lines(state: &AppState) -> Result<Vec<GateLine>> {
    let mut lines = Vec::new();
    for gate in state.gates.iter() {
        let answer = gates::ask(state, &gate.name, LATEST, None).await?;
        lines.push(GateLine {
            name: gate.name.clone(),
            href: format!("/gates/{}", view::encode(&gate.name)),
            title: gate.title.clone(),
            answer: Mark::of_answer(answer.answer.as_str()),
            simulated: answer.rules.iter().any(|rule| rule.simulated),
        });
    }
    Ok(lines)
}

async fn device_section(db: &Db, profile: &str, material: &Material<'_>) -> Result<DeviceSection> {
    let mut cards = Vec::new();
    let mut runs: Vec<&RunView> = Vec::new();
    let mut suites = Vec::new();
    // An integration has a card where it has a run, and ours always: no data is said too.
    let mut shown = Suite::ALL.to_vec();
    let own = material.newest.iter().filter(|run| run.device_profile == profile);
    shown.extend(own.map(|run| run.suite.0).filter(|suite| suite.is_imported()));
    shown.dedup();
    for suite in &shown {
        let (card, head) = SuiteCard::find(db, profile, *suite, material).await?;
        cards.push(card);
        if let Some(head) = head {
            runs.push(head);
            suites.push(suite.to_string());
        }
    }
    let run_ids: Vec<i64> = runs.iter().map(|run| run.id).collect();
    let simulated = runs.iter().any(|run| run.simulated);
    let list = read_home::list_blockers(db.pool(), &run_ids, &suites, None, TOP_BLOCKERS);
    let blockers = db.kept("blockers", &run_ids, (&suites, TOP_BLOCKERS), list).await?;
    let pin = format!("device={profile}");
    Ok(DeviceSection {
        profile: profile.to_owned(),
        simulated,
        cards,
        blockers_total: blockers.first().map_or(0, |blocker| blocker.total),
        blockers: blockers.iter().map(|b| BlockerRow::new(b.clone(), &pin)).collect(),
        clusters: top_clusters(db, runs).await?,
        pin: view::encode(profile),
    })
}

/// The largest clusters over some runs; those of which nothing was learnt stand last.
async fn top_clusters(db: &Db, mut runs: Vec<&RunView>) -> Result<Vec<ClusterRow>> {
    runs.sort_by_key(|run| run.id);
    runs.dedup_by_key(|run| run.id);
    let mut clusters = Vec::new();
    for run in runs {
        let list = read_runs::list_clusters(db.pool(), run.id, MOST_CLUSTERS);
        let of_run = db.kept("clusters", &[run.id], MOST_CLUSTERS, list).await?;
        clusters.extend(of_run.iter().map(|row| ClusterRow::new(row.clone(), &run.key)));
    }
    clusters.sort_by_key(|row| (row.mark.tone == "quiet", Reverse(row.cases)));
    clusters.truncate(TOP_CLUSTERS);
    Ok(clusters)
}
