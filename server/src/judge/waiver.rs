//! Whose leave covers a case today. What a waiver covers, and when, is [`protocol::waiver`]'s, so
//! that runners judge by the same rule.

use std::collections::BTreeMap;

use chrono::NaiveDate;
use protocol::waiver::{self, Leave, Terms};

use super::verdict::Observed;

/// A person's leave for a bad outcome to pass the gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiver {
    /// To name it by.
    pub id: i64,
    /// What it covers, and until when.
    pub terms: Terms,
}

/// The case a waiver is asked about.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Full text of the case key.
    pub case: &'a str,
    /// Where it was executed.
    pub device_profile: &'a str,
    /// Overload to blame, when known.
    pub operator: Option<&'a str>,
}

/// Stored waivers set no condition on these, so that none is asked for them.
static NO_VERSIONS: BTreeMap<String, String> = BTreeMap::new();

/// The leave for a case, and the waiver that gives it: the first that covers it.
#[must_use]
pub fn find_leave(
    waivers: &[Waiver],
    subject: Subject<'_>,
    observed: Observed,
    today: NaiveDate,
) -> (Leave, Option<i64>) {
    let Some(outcome) = observed.outcome() else { return (Leave::None, None) };
    let subject = waiver::Subject {
        case: subject.case,
        device_profile: subject.device_profile,
        device_kind: "",
        versions: &NO_VERSIONS,
        operator: subject.operator,
    };
    let waivers = waivers.iter().map(|waiver| (waiver.id, &waiver.terms));
    match waiver::find_leave(waivers, subject, outcome, today) {
        Some((leave, id)) => (leave, Some(id)),
        None => (Leave::None, None),
    }
}
