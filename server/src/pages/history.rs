//! The strip of a subject's last runs on a device profile: all its cases of each run in one mark.

use chrono::{DateTime, Utc};

use super::count::Count;
use super::view::{self, Mark};
use crate::db::read_cases::SubjectHistory;

/// Runs that a strip looks back at.
pub(super) const MOST_RUNS: i64 = 60;

/// One run.
#[derive(Debug)]
pub(super) struct HistoryPoint {
    pub(super) href: String,
    pub(super) run_key: String,
    pub(super) started_at: DateTime<Utc>,
    pub(super) count: Count,
    pub(super) mark: Mark,
    pub(super) backend: String,
    /// Whether the run before it was of another backend.
    pub(super) is_new_backend: bool,
}

/// Oldest first, from lines that are newest first; lines of one run stand together.
pub(super) fn points(lines: Vec<SubjectHistory>) -> Vec<HistoryPoint> {
    let mut points: Vec<HistoryPoint> = Vec::new();
    for line in lines.into_iter().rev() {
        let backend = line.backend_version.unwrap_or_default();
        if points.last().is_none_or(|point| point.run_key != line.run_key) {
            points.push(HistoryPoint {
                href: view::run_href(&line.run_key),
                run_key: line.run_key,
                started_at: line.started_at,
                count: Count::default(),
                mark: Count::default().mark(),
                is_new_backend: points.last().is_some_and(|before| before.backend != backend),
                backend,
            });
        }
        if let Some(point) = points.last_mut() {
            point.count.add(line.verdict.0, line.outcome.map(|word| word.0), line.cases);
            point.mark = point.count.mark();
        }
    }
    points
}
