//! The home page: for every device profile the newest figure of each suite with its age, what
//! changed since the run before, what blocks most, and the newest runs.

use std::collections::BTreeMap;

use askama::Template;
use askama_web::WebTemplate;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use chrono::{DateTime, Utc};
use protocol::Suite;
use sqlx::PgPool;

use super::count::Count;
use super::rows::{self, Counts, RunRow};
use super::scope;
use super::view::{self, Mark, Section, Shell};
use crate::app::AppState;
use crate::db::read_home::{self, Blocker, Change, NewestRun};
use crate::db::read_runs::{self, RunFilter, RunView};
use crate::db::read_waived::{self, WaiverTally};
use crate::error::Result;
use crate::filters;
use crate::gates;
use crate::judge::gate::LATEST;

const LATEST_RUNS: i64 = 10;
const TOP_BLOCKERS: i64 = 8;

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
    devices: Vec<DeviceSection>,
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
    pin: String,
}

/// One figure. Without a run it says so, and nothing else.
#[derive(Debug)]
struct SuiteCard {
    title: String,
    question: &'static str,
    figure: Option<Figure>,
}

#[derive(Debug)]
struct Figure {
    href: String,
    count: Count,
    is_stale: bool,
    age: String,
    measured_at: DateTime<Utc>,
    change: Option<ChangeLine>,
    /// Key and page of a newer run that is not sealed yet.
    newer: Option<(String, String)>,
    regressed: u64,
    fixed: u64,
}

#[derive(Debug)]
struct ChangeLine {
    previous_href: String,
    change: Change,
    is_same: bool,
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
    let now = state.clock.now();
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

    let mut profiles: BTreeMap<(usize, String), Vec<&NewestRun>> = BTreeMap::new();
    for run in &newest {
        let place = (scope::preference(&run.device_profile), run.device_profile.clone());
        profiles.entry(place).or_default().push(run);
    }
    let mut devices = Vec::new();
    for ((_, profile), runs) in &profiles {
        devices.push(device_section(pool, profile, runs, &heads, &counts, now).await?);
    }
    Ok(HomePage {
        shell: Shell::new(Section::Home),
        public_url: state.settings.public_url.clone(),
        gates: gate_lines(&state).await?,
        waivers: read_waived::tally(pool, state.clock.today()).await?,
        devices,
        runs: latest.iter().map(|run| RunRow::new(run, &counts, now)).collect(),
    })
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

/// The newest run that began after this one, on the same device, with this suite, and is not
/// sealed. It never takes the place of a sealed one, and is never kept quiet.
fn find_newer(suite: Suite, run: &RunView, heads: &[RunView]) -> Option<(String, String)> {
    let is_newer = |other: &&RunView| {
        other.state != "sealed"
            && other.device_profile == run.device_profile
            && other.started_at > run.started_at
            && other.suites.iter().any(|name| name == suite.as_str())
    };
    let newer = heads.iter().find(is_newer)?;
    Some((newer.key.clone(), view::run_href(&newer.key)))
}

async fn device_section(
    pool: &PgPool,
    profile: &str,
    runs: &[&NewestRun],
    heads: &[RunView],
    counts: &Counts,
    now: DateTime<Utc>,
) -> Result<DeviceSection> {
    let newest = |suite: Suite, rank| runs.iter().find(|r| r.suite.0 == suite && r.rank == rank);
    let mut cards = Vec::new();
    let (mut run_ids, mut suites) = (Vec::new(), Vec::new());
    let mut simulated = false;
    // An integration has a card where it has a run, and ours always: no data is said too.
    let mut shown = Suite::ALL.to_vec();
    shown.extend(runs.iter().map(|run| run.suite.0).filter(|suite| suite.is_imported()));
    shown.dedup();
    for suite in &shown {
        let mut figure = None;
        if let Some(run) = newest(*suite, 1)
            && let Some(head) = heads.iter().find(|head| head.id == run.run_id)
        {
            let change = match newest(*suite, 2) {
                Some(before) => Some(change_line(pool, *suite, run.run_id, before).await?),
                None => None,
            };
            let count = counts.of(run.run_id, *suite);
            let newer = find_newer(*suite, head, heads);
            figure = Some(Figure { newer, ..Figure::new(head, count, change, now) });
            simulated |= head.simulated;
            run_ids.push(run.run_id);
            suites.push(suite.to_string());
        }
        let (title, question) = (rows::suite_title(*suite), rows::suite_question(*suite));
        cards.push(SuiteCard { title, question, figure });
    }
    let blockers = read_home::list_blockers(pool, &run_ids, &suites, None, TOP_BLOCKERS).await?;
    let pin = format!("device={profile}");
    Ok(DeviceSection {
        profile: profile.to_owned(),
        simulated,
        cards,
        blockers_total: blockers.first().map_or(0, |blocker| blocker.total),
        blockers: blockers.into_iter().map(|b| BlockerRow::new(b, &pin)).collect(),
        pin: view::encode(profile),
    })
}

async fn change_line(
    pool: &PgPool,
    suite: Suite,
    run_id: i64,
    before: &NewestRun,
) -> Result<ChangeLine> {
    let change = read_home::compare_runs(pool, suite, run_id, before.run_id).await?;
    Ok(ChangeLine {
        previous_href: view::run_href(&before.run_key),
        is_same: change.gained == 0
            && change.lost == 0
            && change.no_longer_learnt == 0
            && change.newly_learnt == 0
            && change.only_now == 0
            && change.only_before == 0,
        change,
    })
}

impl Figure {
    fn new(run: &RunView, count: Count, change: Option<ChangeLine>, now: DateTime<Utc>) -> Self {
        let measured_at = rows::measured_at(run);
        let age = now - measured_at;
        Self {
            href: view::run_href(&run.key),
            is_stale: rows::is_stale(run, now),
            age: filters::say_duration(age),
            measured_at,
            change,
            newer: None,
            regressed: count.of(protocol::Verdict::Regressed),
            fixed: count.of(protocol::Verdict::Fixed),
            count,
        }
    }
}
