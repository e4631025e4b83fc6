//! What an operator or model page looks at: the newest sealed run of every suite on one device
//! profile, or one run that the address pins. The address always says which.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use protocol::Suite;
use sqlx::PgPool;

use super::rows;
use super::view::{self, Choice, Mark};
use crate::db::read_home::{self, NewestRun};
use crate::db::read_runs::{self, RunFilter, RunView};
use crate::error::{Error, Result};

/// The (run, suite) pairs of a page.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// `device=PROFILE` or `run=KEY`, kept in the links of the page.
    pub pin: String,
    /// The device profile; empty when there is no run at all.
    pub profile: String,
    /// Key of the pinned run, or empty.
    pub pinned_run: String,
    /// Whether any of its results are simulated.
    pub simulated: bool,
    /// Runs it looks at, newest first.
    pub runs: Vec<RunView>,
    /// The same as lines.
    pub lines: Vec<ScopeLine>,
    /// In parallel with `suites`.
    pub run_ids: Vec<i64>,
    /// In parallel with `run_ids`.
    pub suites: Vec<String>,
    /// Device profiles to choose from; the value is the address.
    pub profiles: Vec<Choice>,
}

/// A run that a page looks at.
#[derive(Debug, Clone)]
pub struct ScopeLine {
    /// Its key.
    pub key: String,
    /// Its page.
    pub href: String,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// How far it has come.
    pub state: Mark,
    /// Whether it is too old to be believed as news.
    pub is_stale: bool,
}

impl Scope {
    /// Whether there is nothing to look at.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.run_ids.is_empty()
    }

    /// `?device=…` or `?run=…`, to keep what is looked at in a link.
    #[must_use]
    pub fn query(&self) -> String {
        view::link("", &self.pin.split_once('=').into_iter().collect::<Vec<_>>())
    }

    /// Pairs of some suites only.
    #[must_use]
    pub fn only(&self, chosen: impl Fn(Suite) -> bool) -> (Vec<i64>, Vec<String>) {
        let pairs = self.run_ids.iter().zip(&self.suites);
        pairs
            .filter(|(_, suite)| suite.parse::<Suite>().is_ok_and(&chosen))
            .map(|(id, suite)| (*id, suite.clone()))
            .unzip()
    }

    /// Key of the run that stands for a suite.
    #[must_use]
    pub fn run_key_of(&self, suite: Suite) -> Option<&str> {
        let place = self.suites.iter().position(|name| name == suite.as_str())?;
        let id = self.run_ids[place];
        self.runs.iter().find(|run| run.id == id).map(|run| run.key.as_str())
    }
}

/// Real hardware before simulation, and what lies on purpose last.
#[must_use]
pub fn preference(profile: &str) -> usize {
    let order = ["tpu", "cuda", "tpu-sim", "cpu"];
    let last = order.len() + usize::from(profile == "faulty");
    order.iter().position(|name| *name == profile).unwrap_or(last)
}

/// What an address asks for.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// `?device=`
    pub device: Option<&'a str>,
    /// `?run=`
    pub run: Option<&'a str>,
}

/// Finds the runs for `?device=` or `?run=`; without either, for the most real device profile
/// that has a run of a `deciding` suite.
pub async fn find(
    pool: &PgPool,
    asked: Asked<'_>,
    wanted: &[Suite],
    deciding: &[Suite],
    now: DateTime<Utc>,
) -> Result<Scope> {
    let newest = read_home::list_newest_runs(pool).await?;
    let mut scope = match asked.run.filter(|key| !key.is_empty()) {
        Some(key) => pinned(pool, key, wanted).await?,
        None => {
            let decides = |run: &&NewestRun| deciding.contains(&run.suite.0);
            let best = newest.iter().filter(decides).min_by_key(|r| preference(&r.device_profile));
            let profile = asked.device.filter(|name| !name.is_empty());
            match profile.or(best.map(|run| run.device_profile.as_str())) {
                Some(profile) => of_profile(pool, &newest, profile, wanted).await?,
                None => Scope::default(),
            }
        }
    };
    scope.lines = scope.runs.iter().map(|run| ScopeLine::new(run, now)).collect();
    scope.profiles = choices(&newest, &scope);
    scope.simulated = scope.runs.iter().any(|run| run.simulated);
    Ok(scope)
}

impl ScopeLine {
    fn new(run: &RunView, now: DateTime<Utc>) -> Self {
        Self {
            key: run.key.clone(),
            href: view::run_href(&run.key),
            started_at: run.started_at,
            state: Mark::of_run(&run.state, run.completeness.as_deref()),
            is_stale: rows::is_stale(run, now),
        }
    }
}

async fn pinned(pool: &PgPool, key: &str, wanted: &[Suite]) -> Result<Scope> {
    let filter = RunFilter { key: Some(key.to_owned()), ..RunFilter::default() };
    let runs = read_runs::select_runs(pool, &filter, 1, 0).await?;
    let run = runs.first().ok_or_else(|| Error::no_such("run", key))?;
    let suites: Vec<String> =
        wanted.iter().map(ToString::to_string).filter(|suite| run.suites.contains(suite)).collect();
    Ok(Scope {
        pin: format!("run={key}"),
        profile: run.device_profile.clone(),
        pinned_run: run.key.clone(),
        run_ids: vec![run.id; suites.len()],
        suites,
        runs,
        ..Scope::default()
    })
}

async fn of_profile(
    pool: &PgPool,
    newest: &[NewestRun],
    profile: &str,
    wanted: &[Suite],
) -> Result<Scope> {
    let of_wanted = |run: &&NewestRun| run.rank == 1 && wanted.contains(&run.suite.0);
    let pairs: BTreeMap<&str, i64> = newest
        .iter()
        .filter(of_wanted)
        .filter(|run| run.device_profile == profile)
        .map(|run| (run.suite.0.as_str(), run.run_id))
        .collect();
    let filter = RunFilter { ids: Some(pairs.values().copied().collect()), ..RunFilter::default() };
    Ok(Scope {
        pin: format!("device={profile}"),
        profile: profile.to_owned(),
        run_ids: pairs.values().copied().collect(),
        suites: pairs.keys().map(ToString::to_string).collect(),
        runs: read_runs::select_runs(pool, &filter, 100, 0).await?,
        ..Scope::default()
    })
}

fn choices(newest: &[NewestRun], scope: &Scope) -> Vec<Choice> {
    let mut profiles: Vec<&str> = newest.iter().map(|run| run.device_profile.as_str()).collect();
    profiles.push(&scope.profile);
    profiles.sort_by_key(|name| (preference(name), Reverse(name.len()), *name));
    profiles.dedup();
    profiles
        .into_iter()
        .filter(|name| !name.is_empty())
        .map(|name| Choice {
            value: view::link("", &[("device", name)]),
            label: name.to_owned(),
            chosen: name == scope.profile && scope.pinned_run.is_empty(),
        })
        .collect()
}
