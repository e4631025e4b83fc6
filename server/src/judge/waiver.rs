//! Whose leave covers a case today. What a waiver covers, and when, is [`protocol::waiver`]'s, so
//! that runners judge by the same rule.

use chrono::NaiveDate;
use protocol::waiver::{self, Leave, Subject, Terms};

use super::verdict::Observed;

/// A person's leave for a bad outcome to pass the gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiver {
    /// To name it by.
    pub id: i64,
    /// What it covers, and until when.
    pub terms: Terms,
}

/// The leave for a case, and the waiver that gives it: the first that covers it.
#[must_use]
pub fn find_leave(
    waivers: &[Waiver],
    subject: Subject<'_>,
    observed: Observed,
    today: NaiveDate,
) -> (Leave, Option<i64>) {
    let Some(outcome) = observed.outcome() else { return (Leave::None, None) };
    let waivers = waivers.iter().map(|waiver| (waiver.id, &waiver.terms));
    match waiver::find_leave(waivers, subject, outcome, today) {
        Some((leave, id)) => (leave, Some(id)),
        None => (Leave::None, None),
    }
}
