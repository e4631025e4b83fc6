//! Device profiles and the kinds of device seen under each, with how old their evidence is.

use std::collections::BTreeMap;

use askama::Template;
use askama_web::WebTemplate;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use chrono::{DateTime, Utc};
use sqlx::PgPool;

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
pub(super) struct DeviceLine {
    pub(super) profile: String,
    pub(super) runs_href: String,
    pub(super) kind: String,
    pub(super) simulated: bool,
    pub(super) runs: i64,
    pub(super) void: i64,
    pub(super) hosts: i64,
    pub(super) first_started_at: DateTime<Utc>,
    pub(super) last: Option<LastRun>,
    pub(super) evidence: Option<Evidence>,
}

#[derive(Debug)]
pub(super) struct LastRun {
    pub(super) key: String,
    pub(super) href: String,
    pub(super) state: Mark,
    pub(super) age: String,
    pub(super) started_at: DateTime<Utc>,
    pub(super) versions: Vec<(String, String)>,
}

/// The newest sealed run that counts.
#[derive(Debug)]
pub(super) struct Evidence {
    pub(super) href: String,
    pub(super) suites: String,
    pub(super) age: String,
    pub(super) measured_at: DateTime<Utc>,
    pub(super) is_stale: bool,
}

async fn show(State(state): State<AppState>) -> Result<DevicesPage> {
    let devices = list(state.db.pool(), state.clock.now()).await?;
    Ok(DevicesPage { shell: Shell::new(Section::Devices), devices })
}

/// Every device that a run was announced on, hardware before simulation.
pub(super) async fn list(pool: &PgPool, now: DateTime<Utc>) -> Result<Vec<DeviceLine>> {
    let mut devices = read_fleet::list_devices(pool).await?;
    devices.sort_by_key(|device| scope::preference(&device.profile));
    let newest = devices.iter().map(|device| device.newest_run_id);
    let ids = newest.chain(devices.iter().filter_map(|device| device.newest_sealed_id)).collect();
    let filter = RunFilter { ids: Some(ids), ..RunFilter::default() };
    let runs = read_runs::select_runs(pool, &filter, i64::MAX, 0).await?;
    let runs: BTreeMap<i64, RunView> = runs.into_iter().map(|run| (run.id, run)).collect();
    Ok(devices.into_iter().map(|device| DeviceLine::new(device, &runs, now)).collect())
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
