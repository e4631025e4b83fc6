//! How far the answers of an entry of the operator suite were from what was expected, over runs: the
//! largest error of each element type, drawn and as a table.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use protocol::Comparison;
use protocol::evidence::Figures;
use serde::Deserialize;
use sqlx::PgPool;

use super::view;
use crate::charts::distribution::{Distances, DistributionChart};
use crate::charts::errors::ErrorChart;
use crate::db::read_errors;
use crate::error::Result;
use crate::filters;

/// Runs that are looked back at.
const MOST_RUNS: i64 = 20;

/// All of it; empty where nothing was compared.
#[derive(Debug, Default)]
pub(super) struct ErrorHistory {
    pub(super) chart: Option<ErrorChart>,
    /// Distances of the chosen run, else of the newest.
    pub(super) distribution: Option<Distribution>,
    pub(super) dtypes: Vec<String>,
    pub(super) rows: Vec<ErrorRow>,
}

/// Distances in one run.
#[derive(Debug)]
pub(super) struct Distribution {
    pub(super) run_key: String,
    pub(super) run_href: String,
    pub(super) chart: DistributionChart,
}

/// One run, newest first in the table.
#[derive(Debug)]
pub(super) struct ErrorRow {
    pub(super) run_key: String,
    pub(super) href: String,
    pub(super) started_at: DateTime<Utc>,
    /// Largest absolute error and, where it is counted, largest distance in ULP; a dash where
    /// nothing was compared.
    pub(super) cells: Vec<String>,
}

/// The part of the evidence that is looked at.
#[derive(Debug, Deserialize)]
struct Compared {
    #[serde(default)]
    comparisons: Vec<Comparison>,
}

/// The largest errors seen.
#[derive(Debug, Default, Clone, Copy)]
struct Worst {
    absolute: Option<f64>,
    ulp: Option<f64>,
}

impl Worst {
    fn add(&mut self, figures: &Figures) {
        // Pairs of which one is not finite have no distance, and are the largest error there is.
        let apart = (figures.nonfinite_mismatched > 0).then_some(f64::INFINITY);
        let finite = figures.max_abs_error.map(|number| number.0);
        self.absolute = larger(self.absolute, larger(finite, apart));
        self.ulp = larger(self.ulp, figures.ulp_max.map(|number| number.0));
    }

    fn say(self) -> String {
        match (self.absolute, self.ulp) {
            (None, _) => "–".to_owned(),
            (Some(error), None) => filters::say_figure(error),
            (Some(error), Some(ulp)) => {
                format!("{} ({} ULP)", filters::say_figure(error), filters::say_figure(ulp))
            }
        }
    }
}

/// NaN is larger than everything: it must not hide behind a number.
fn larger(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    let or_infinite = |error: f64| if error.is_nan() { f64::INFINITY } else { error };
    a.into_iter().chain(b).map(or_infinite).max_by(f64::total_cmp)
}

/// Notes the distance of one output.
fn note(distances: &mut Distances, figures: &Figures) {
    let apart = (figures.nonfinite_mismatched > 0).then_some(f64::INFINITY);
    match larger(figures.ulp_max.map(|number| number.0), apart) {
        Some(distance) => distances.values.push(distance),
        None => distances.without += 1,
    }
}

impl ErrorHistory {
    /// Of one subject on one device profile; distances are those of the run `shown`, where it is
    /// one of them, else of the newest.
    pub(super) async fn read(
        pool: &PgPool,
        subject: &str,
        profile: &str,
        shown: Option<&str>,
    ) -> Result<Self> {
        let attempts = read_errors::list_compared(pool, subject, profile, MOST_RUNS).await?;
        let mut runs: Vec<(String, DateTime<Utc>)> = Vec::new();
        let mut worst: BTreeMap<String, BTreeMap<usize, Worst>> = BTreeMap::new();
        let is_there = |key: &&str| attempts.iter().any(|attempt| attempt.run_key == *key);
        let newest = attempts.first().map(|attempt| attempt.run_key.as_str());
        let shown = shown.filter(is_there).or(newest).unwrap_or_default().to_owned();
        let mut distances: BTreeMap<String, Distances> = BTreeMap::new();
        for attempt in attempts {
            let is_shown = attempt.run_key == shown;
            if runs.last().is_none_or(|(key, _)| *key != attempt.run_key) {
                runs.push((attempt.run_key, attempt.started_at));
            }
            // What this server cannot read is shown as stored on the page of the case.
            let Ok(compared) = serde_json::from_str::<Compared>(&attempt.evidence) else {
                continue;
            };
            let of_dtype = worst.entry(attempt.dtype.0.to_string()).or_default();
            let own = of_dtype.entry(runs.len() - 1).or_default();
            for tensor in compared.comparisons.iter().flat_map(|one| &one.tensors) {
                own.add(&tensor.figures);
                if is_shown {
                    note(distances.entry(tensor.dtype.clone()).or_default(), &tensor.figures);
                }
            }
        }
        worst.retain(|_, runs| runs.values().any(|worst| worst.absolute.is_some()));
        let distribution = DistributionChart::new(&distances, "ULP").map(|chart| Distribution {
            run_href: view::run_href(&shown),
            run_key: shown,
            chart,
        });
        Ok(Self { distribution, ..Self::new(&runs, &worst) })
    }

    fn new(
        runs: &[(String, DateTime<Utc>)],
        worst: &BTreeMap<String, BTreeMap<usize, Worst>>,
    ) -> Self {
        if worst.is_empty() {
            return Self::default();
        }
        let of = |dtype: &str, run: usize| {
            worst.get(dtype).and_then(|own| own.get(&run)).copied().unwrap_or_default()
        };
        let dtypes: Vec<String> = worst.keys().cloned().collect();
        let rows = runs.iter().enumerate().map(|(place, (key, started_at))| ErrorRow {
            href: view::run_href(key),
            run_key: key.clone(),
            started_at: *started_at,
            cells: dtypes.iter().map(|dtype| of(dtype, place).say()).collect(),
        });
        let oldest_first: Vec<usize> = (0..runs.len()).rev().collect();
        let errors = dtypes.iter().map(|dtype| {
            let own = oldest_first.iter().map(|place| of(dtype, *place).absolute);
            (dtype.clone(), own.collect())
        });
        let names: Vec<String> = oldest_first.iter().map(|place| runs[*place].0.clone()).collect();
        Self {
            chart: ErrorChart::new(&names, &errors.collect()),
            rows: rows.collect(),
            dtypes,
            distribution: None,
        }
    }
}
