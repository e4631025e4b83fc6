//! What is deleted, and when: pure choice by class, then small batches, so that ingest and pages
//! never wait long.
//!
//! First the evidence goes, which is nearly all of the bytes; verdicts stay, so that history and
//! baselines do. A run goes as a whole when its class says so, unless a run that stays has it as
//! its last known pass, or a gate pins it.

use std::collections::HashSet;

use chrono::{DateTime, Duration, Utc};
use protocol::words;
use serde_json::json;

use crate::db::retention::{self, RunAge};
use crate::db::{Db, artifacts, audit};

words! {
    /// How long a run is kept.
    Class as "class" {
        /// For ever, with its evidence.
        Release = "release",
        /// It is compared with for a year.
        Nightly = "nightly",
        /// A person withdrew it.
        Void = "void",
        /// Somebody's trial.
        Other = "other",
    }
}

/// The days.
#[derive(Debug, Clone, Copy)]
pub struct Days {
    /// Of attempts with their evidence.
    pub evidence: u32,
    /// Of nightly runs.
    pub nightly: u32,
    /// Of withdrawn runs.
    pub void: u32,
    /// Of other runs.
    pub other: u32,
}

/// What becomes of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It stays as it is.
    Keep,
    /// Its attempts go, its verdicts stay.
    DropEvidence,
    /// All of it goes.
    Delete,
}

/// The class of a run.
#[must_use]
pub fn classify(run: &RunAge) -> Class {
    if run.has_release_label {
        Class::Release
    } else if run.is_void {
        Class::Void
    } else if run.has_nightly_label {
        Class::Nightly
    } else {
        Class::Other
    }
}

/// What becomes of a run by its class alone.
#[must_use]
pub fn choose(run: &RunAge, days: Days, now: DateTime<Utc>) -> Fate {
    let age = now - run.started_at;
    let older = |days: u32| age > Duration::days(i64::from(days));
    let is_over = match classify(run) {
        Class::Release => return Fate::Keep,
        Class::Nightly => older(days.nightly),
        Class::Void => older(days.void),
        Class::Other => older(days.other),
    };
    // What still takes in results is nobody's to delete.
    if !run.is_sealed {
        Fate::Keep
    } else if is_over {
        Fate::Delete
    } else if older(days.evidence) && run.attempts > 0 {
        Fate::DropEvidence
    } else {
        Fate::Keep
    }
}

/// One run that is not kept as it is.
#[derive(Debug, Clone)]
pub struct Planned {
    /// The run.
    pub run: RunAge,
    /// Its class.
    pub class: Class,
    /// What becomes of it.
    pub fate: Fate,
    /// Why it stays although its class says otherwise.
    pub kept_because: Option<&'static str>,
}

/// What would be done. `pinned` are keys of runs that gates compare with.
pub async fn plan(
    db: &Db,
    days: Days,
    pinned: &HashSet<String>,
    now: DateTime<Utc>,
) -> anyhow::Result<Vec<Planned>> {
    let runs = retention::list_ages(db.pool()).await?;
    let staying: Vec<i64> = runs
        .iter()
        .filter(|run| choose(run, days, now) != Fate::Delete)
        .map(|run| run.id)
        .collect();
    let baselines: HashSet<i64> =
        retention::list_baselines(db.pool(), &staying).await?.into_iter().collect();
    let mut planned = Vec::new();
    for run in runs {
        let mut fate = choose(&run, days, now);
        if fate == Fate::Keep {
            continue;
        }
        let mut kept_because = None;
        if fate == Fate::Delete {
            if pinned.contains(&run.key) {
                kept_because = Some("a gate pins it");
            } else if baselines.contains(&run.id) {
                kept_because = Some("the last known pass of a case of a run that stays");
            }
            if kept_because.is_some() {
                fate = if run.attempts > 0 { Fate::DropEvidence } else { Fate::Keep };
            }
        }
        planned.push(Planned { class: classify(&run), run, fate, kept_because });
    }
    Ok(planned)
}

/// How long a file waits for an attempt to name it.
pub const ARTIFACT_GRACE: Duration = Duration::days(1);

/// Deletes the files that no attempt names any more, in transactions of at most `batch` files;
/// answers how many.
pub async fn delete_artifacts(db: &Db, batch: i64, now: DateTime<Utc>) -> anyhow::Result<u64> {
    let mut files = 0;
    loop {
        let before = now - ARTIFACT_GRACE;
        let deleted = artifacts::delete_unnamed(db.pool(), before, batch).await?;
        files += deleted;
        if deleted == 0 {
            return Ok(files);
        }
    }
}

/// Does it to one run, in transactions of at most `batch` rows; answers how many rows went.
pub async fn carry_out(db: &Db, planned: &Planned, batch: i64) -> anyhow::Result<u64> {
    let run = &planned.run;
    let mut rows = 0;
    if planned.fate == Fate::Keep {
        return Ok(rows);
    }
    // First, so that nobody judges it meanwhile by what is left.
    retention::note_dropped(db.pool(), run.id).await?;
    loop {
        let day = run.started_at.date_naive();
        let deleted = retention::delete_attempts(db.pool(), run.id, day, batch).await?;
        rows += deleted;
        if deleted == 0 {
            break;
        }
    }
    rows += artifacts::unlink(db.pool(), run.id).await?;
    if planned.fate == Fate::Delete {
        loop {
            let deleted = retention::delete_derived(db.pool(), run.id, batch).await?;
            rows += deleted;
            if deleted == 0 {
                break;
            }
        }
        retention::delete_run(db.pool(), run.id).await?;
        rows += 1;
    }
    let action = match planned.fate {
        Fate::Delete => "run.delete",
        Fate::DropEvidence | Fate::Keep => "run.drop_evidence",
    };
    let detail = json!({ "class": planned.class, "rows": rows });
    audit::record(db.pool(), None, action, &run.key, detail).await?;
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(days: i64) -> RunAge {
        RunAge {
            id: 1,
            key: "r".to_owned(),
            started_at: DateTime::UNIX_EPOCH - Duration::days(days),
            attempts: 7,
            is_sealed: true,
            is_void: false,
            has_release_label: false,
            has_nightly_label: false,
        }
    }

    #[test]
    fn each_class_has_its_days() {
        const DAYS: Days = Days { evidence: 90, nightly: 400, void: 30, other: 60 };
        let now = DateTime::UNIX_EPOCH;
        let release = |days| RunAge { has_release_label: true, is_void: true, ..run(days) };
        let nightly = |days| RunAge { has_nightly_label: true, ..run(days) };
        let void = |days| RunAge { is_void: true, has_nightly_label: true, ..run(days) };
        let open = |days| RunAge { is_sealed: false, ..run(days) };
        let bare = |days| RunAge { attempts: 0, ..nightly(days) };
        for (run, fate) in [
            (release(9_999), Fate::Keep),
            (nightly(90), Fate::Keep),
            (nightly(91), Fate::DropEvidence),
            (nightly(400), Fate::DropEvidence),
            (nightly(401), Fate::Delete),
            (bare(91), Fate::Keep),
            (void(30), Fate::Keep),
            (void(31), Fate::Delete),
            (run(60), Fate::Keep),
            (run(61), Fate::Delete),
            (open(9_999), Fate::Keep),
        ] {
            assert_eq!(choose(&run, DAYS, now), fate, "{run:?}");
        }
    }
}
