//! The card of one suite on one device profile: its newest figure with its age, what changed since
//! the run before and since the last release, and its trend.

use std::collections::HashMap;

use chrono::{DateTime, Days, NaiveTime, Utc};
use protocol::{Suite, Verdict};
use sqlx::PgPool;

use super::count::Count;
use super::rows::{self, Counts};
use super::view;
use crate::charts::trend::{NIGHTS, Night, Size, TrendChart};
use crate::db::Db;
use crate::db::read_home::{self, Change, NewestRun};
use crate::db::read_runs::RunView;
use crate::db::read_trend::{self, ReleaseRun};
use crate::error::Result;
use crate::filters;

/// One suite. Without a figure it says so, and nothing else.
#[derive(Debug)]
pub(super) struct SuiteCard {
    pub(super) title: String,
    pub(super) question: &'static str,
    pub(super) figure: Option<Figure>,
    pub(super) trend: Option<TrendChart>,
    pub(super) trend_href: String,
}

/// One figure.
#[derive(Debug)]
pub(super) struct Figure {
    pub(super) href: String,
    pub(super) count: Count,
    pub(super) is_stale: bool,
    pub(super) age: String,
    pub(super) measured_at: DateTime<Utc>,
    /// Since the run before, and since the last release.
    pub(super) changes: Vec<ChangeLine>,
    /// Key and page of a newer run that is not sealed yet.
    pub(super) newer: Option<(String, String)>,
    pub(super) regressed: u64,
    pub(super) fixed: u64,
    pub(super) flaky: u64,
}

/// What changed since an earlier run; without one, why there is none.
#[derive(Debug)]
pub(super) struct ChangeLine {
    /// `run before`, `release 2.9`.
    pub(super) label: String,
    /// The two runs side by side.
    pub(super) href: String,
    pub(super) change: Option<Change>,
    pub(super) is_same: bool,
}

/// What every card of a page is made from.
#[derive(Debug)]
pub(super) struct Material<'a> {
    pub(super) newest: &'a [NewestRun],
    pub(super) releases: &'a [ReleaseRun],
    pub(super) nights: &'a Nights,
    pub(super) heads: &'a [RunView],
    pub(super) counts: &'a Counts,
    pub(super) now: DateTime<Utc>,
}

impl SuiteCard {
    /// The card, with the run that its figure is of.
    pub(super) async fn find<'a>(
        db: &Db,
        profile: &str,
        suite: Suite,
        material: &Material<'a>,
    ) -> Result<(Self, Option<&'a RunView>)> {
        let of_rank = |rank| {
            let is_it = |run: &&NewestRun| {
                run.device_profile == profile && run.suite.0 == suite && run.rank == rank
            };
            material.newest.iter().find(is_it)
        };
        let head = of_rank(1).and_then(|run| material.heads.iter().find(|h| h.id == run.run_id));
        let figure = match head {
            Some(head) => {
                let before = of_rank(2);
                Some(Figure::find(db, suite, head, before, material).await?)
            }
            None => None,
        };
        let nights = material.nights.of(profile, suite);
        let card = Self {
            title: rows::suite_title(suite),
            question: rows::suite_question(suite),
            figure,
            trend: TrendChart::new(nights, material.now.date_naive(), Size::Small),
            trend_href: view::link("/trend", &[("suite", suite.as_str()), ("device", profile)]),
        };
        Ok((card, head))
    }
}

impl Figure {
    async fn find(
        db: &Db,
        suite: Suite,
        head: &RunView,
        before: Option<&NewestRun>,
        material: &Material<'_>,
    ) -> Result<Self> {
        let mut changes = Vec::new();
        let pair = before.map(|run| (run.run_id, run.run_key.as_str()));
        changes.push(ChangeLine::find(db, suite, head, "run before".to_owned(), pair).await?);
        let of_card = |release: &&ReleaseRun| {
            release.device_profile == head.device_profile && release.suite.0 == suite
        };
        let release = material.releases.iter().find(of_card);
        let label =
            release.map_or("last release".to_owned(), |found| format!("release {}", found.release));
        let pair = release.map(|found| (found.run_id, found.run_key.as_str()));
        changes.push(ChangeLine::find(db, suite, head, label, pair).await?);

        let measured_at = rows::measured_at(head);
        let count = material.counts.of(head.id, suite);
        Ok(Self {
            href: view::run_href(&head.key),
            is_stale: rows::is_stale(head, material.now),
            age: filters::say_duration(material.now - measured_at),
            measured_at,
            changes,
            newer: find_newer(suite, head, material.heads),
            regressed: count.of(Verdict::Regressed),
            fixed: count.of(Verdict::Fixed),
            flaky: count.of(Verdict::Flaky),
            count,
        })
    }
}

impl ChangeLine {
    async fn find(
        db: &Db,
        suite: Suite,
        head: &RunView,
        label: String,
        before: Option<(i64, &str)>,
    ) -> Result<Self> {
        let (change, href) = match before {
            Some((id, key)) => {
                let compare = read_home::compare_runs(db.pool(), suite, head.id, id);
                let one = async { compare.await.map(|change| vec![change]) };
                let change = db.kept("change", &[head.id, id], suite, one).await?;
                (change.first().copied(), view::compare_href(key, &head.key))
            }
            None => (None, String::new()),
        };
        let is_same = change.is_some_and(|change| {
            change.gained == 0
                && change.lost == 0
                && change.no_longer_learnt == 0
                && change.newly_learnt == 0
                && change.only_now == 0
                && change.only_before == 0
        });
        Ok(Self { label, href, change, is_same })
    }
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

/// The last nights of every device profile and suite.
#[derive(Debug, Default)]
pub(super) struct Nights(HashMap<(String, Suite), Vec<Night>>);

impl Nights {
    /// Reads those that a trend looks back at.
    pub(super) async fn read(
        pool: &PgPool,
        now: DateTime<Utc>,
        profile: Option<&str>,
        suite: Option<Suite>,
    ) -> Result<Self> {
        let first_day = now.date_naive().checked_sub_days(Days::new(NIGHTS - 1));
        let since = first_day.unwrap_or_default().and_time(NaiveTime::MIN).and_utc();
        let tallies = read_trend::list_nights(pool, since, profile, suite).await?;
        let mut nights: HashMap<(String, Suite), Vec<Night>> = HashMap::new();
        for tally in tallies {
            let place = (tally.device_profile, tally.suite.0);
            let own = nights.entry(place).or_default();
            let day = tally.started_at.date_naive();
            if own.last().is_none_or(|night| night.day != day) {
                own.push(Night {
                    day,
                    href: view::run_href(&tally.run_key),
                    run: tally.run_key,
                    backend: tally.backend_version.unwrap_or_default(),
                    count: Count::default(),
                });
            }
            if let Some(night) = own.last_mut() {
                night.count.add(tally.verdict.0, None, tally.cases);
            }
        }
        Ok(Self(nights))
    }

    /// Of one card, oldest first.
    pub(super) fn of(&self, profile: &str, suite: Suite) -> &[Night] {
        self.0.get(&(profile.to_owned(), suite)).map_or(&[], Vec::as_slice)
    }
}
