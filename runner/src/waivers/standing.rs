//! What became of each waiver in a run: whom it forgave, or why it was ignored.

use std::collections::BTreeMap;

use chrono::NaiveDate;
use protocol::CaseKey;
use protocol::ingest_api::create_run;

use super::{Waiver, Waivers};

/// What became of a waiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It forgave cases, or expected them to fail and they passed.
    Used {
        /// Cases that it forgave.
        waived: u64,
        /// Cases that passed although it expects them to fail.
        passed: u64,
    },
    /// It covers cases of the run, and none of them needed it.
    NotNeeded,
    /// It has ended, and was ignored.
    Expired,
    /// A condition is not met by this run.
    OtherRun(String),
    /// It names no case of the run's plan.
    Unmatched,
}

impl Standing {
    /// One word for it, for programs.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Used { .. } => "used",
            Self::NotNeeded => "not needed",
            Self::Expired => "expired",
            Self::OtherRun(_) => "not for this run",
            Self::Unmatched => "unmatched",
        }
    }

    /// Whether somebody has to look at it: it was meant to count, and does not.
    #[must_use]
    pub const fn is_loud(&self) -> bool {
        match self {
            Self::Expired | Self::Unmatched => true,
            Self::Used { passed, .. } => *passed > 0,
            Self::NotNeeded | Self::OtherRun(_) => false,
        }
    }

    /// In words, after the name of the waiver.
    #[must_use]
    pub fn describe(&self, waiver: &Waiver) -> String {
        let end = waiver.terms.expires_on;
        match self {
            Self::Used { waived, passed: 0 } => format!("forgave {waived} until {end}"),
            Self::Used { waived, passed } => {
                format!("forgave {waived}, and {passed} passed that it expects to fail: remove it")
            }
            Self::NotNeeded => format!("was not needed, and ends on {end}"),
            Self::Expired => format!("ended on {end} and is ignored; {} owns it", waiver.owner),
            Self::OtherRun(why) => format!("is not for this run: {why}"),
            Self::Unmatched => "names no case of this run, and is ignored".to_owned(),
        }
    }
}

/// Where each waiver stands, in the order of the file. `given` counts the cases that each forgave,
/// and those that passed although it expected otherwise.
#[must_use]
pub fn standing(
    waivers: &Waivers,
    run: &create_run::Request,
    planned: &[CaseKey],
    given: &BTreeMap<usize, (u64, u64)>,
    today: NaiveDate,
) -> Vec<Standing> {
    let of = |(index, waiver): (usize, &Waiver)| {
        let terms = &waiver.terms;
        if !terms.holds_on(today) {
            return Standing::Expired;
        }
        let unmet = terms.unmet_by_run(&run.device_profile, &run.device_kind, &run.versions);
        if let Some(unmet) = unmet {
            return Standing::OtherRun(unmet);
        }
        if let Some((waived, passed)) = given.get(&index).copied() {
            return Standing::Used { waived, passed };
        }
        let names = planned.iter().any(|key| terms.names_variant(key.as_str()));
        // Whom to blame is known of failures only, so that a waiver of an operator may be idle.
        if names { Standing::NotNeeded } else { Standing::Unmatched }
    };
    waivers.waivers.iter().enumerate().map(of).collect()
}
