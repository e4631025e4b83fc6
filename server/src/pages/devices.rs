//! Device profiles and the kinds of device seen under each, with how old their evidence is.

use std::collections::BTreeMap;

use askama::Template;
use askama_web::WebTemplate;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use chrono::{DateTime, Utc};

use super::view::{self, Mark, Section, Shell};
use super::{rows, scope};
use crate::app::AppState;
use crate::db::read_fleet::{self, Device};
use crate::db::read_runs::{self, RunFilter, RunView};
use crate::error::Result;
use crate::filters;

/// The route.
pub fn router() -> Router<AppState> {
    Router::new().route("/devices", get(show))
}

#[derive(Debug, Template, WebTemplate)]
#[template(path = "pages/devices.html")]
struct DevicesPage {
    shell: Shell,
    devices: Vec<DeviceLine>,
}

#[derive(Debug)]
struct DeviceLine {
    profile: String,
    runs_href: String,
    kind: String,
    simulated: bool,
    runs: i64,
    void: i64,
    hosts: i64,
    first_started_at: DateTime<Utc>,
    last: Option<LastRun>,
    evidence: Option<Evidence>,
}

#[derive(Debug)]
struct LastRun {
    key: String,
    href: String,
    state: Mark,
    age: String,
    started_at: DateTime<Utc>,
    versions: Vec<(String, String)>,
}

/// The newest sealed run that counts.
#[derive(Debug)]
struct Evidence {
    href: String,
    suites: String,
    age: String,
    measured_at: DateTime<Utc>,
    is_stale: bool,
}

async fn show(State(state): State<AppState>) -> Result<DevicesPage> {
    let pool = state.db.pool();
    let now = state.clock.now();
    let mut devices = read_fleet::list_devices(pool).await?;
    devices.sort_by_key(|device| scope::preference(&device.profile));
    let newest = devices.iter().map(|device| device.newest_run_id);
    let ids = newest.chain(devices.iter().filter_map(|device| device.newest_sealed_id)).collect();
    let filter = RunFilter { ids: Some(ids), ..RunFilter::default() };
    let runs = read_runs::select_runs(pool, &filter, i64::MAX, 0).await?;
    let runs: BTreeMap<i64, RunView> = runs.into_iter().map(|run| (run.id, run)).collect();
    Ok(DevicesPage {
        shell: Shell::new(Section::Devices),
        devices: devices.into_iter().map(|device| DeviceLine::new(device, &runs, now)).collect(),
    })
}

impl DeviceLine {
    fn new(device: Device, runs: &BTreeMap<i64, RunView>, now: DateTime<Utc>) -> Self {
        let sealed = device.newest_sealed_id.and_then(|id| runs.get(&id));
        Self {
            runs_href: view::link("/runs", &[("device", &device.profile)]),
            profile: device.profile,
            kind: device.kind,
            simulated: device.simulated,
            runs: device.runs,
            void: device.void,
            hosts: device.hosts,
            first_started_at: device.first_started_at,
            last: runs.get(&device.newest_run_id).map(|run| LastRun::new(run, now)),
            evidence: sealed.map(|run| Evidence {
                href: view::run_href(&run.key),
                suites: run.suites.join(", "),
                age: filters::say_duration(now - rows::measured_at(run)),
                measured_at: rows::measured_at(run),
                is_stale: rows::is_stale(run, now),
            }),
        }
    }
}

impl LastRun {
    fn new(run: &RunView, now: DateTime<Utc>) -> Self {
        Self {
            key: run.key.clone(),
            href: view::run_href(&run.key),
            state: Mark::of_run(&run.state, run.completeness.as_deref()),
            age: filters::say_duration(now - run.started_at),
            started_at: run.started_at,
            versions: rows::RunHead::new(run, now).versions,
        }
    }
}
