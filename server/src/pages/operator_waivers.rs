//! Waivers that touch an operator: those bound to it, and those that name a case of its page.

use chrono::NaiveDate;
use protocol::inventory::operator_of;
use protocol::waiver::Terms;
use sqlx::PgPool;

use super::view::Mark;
use super::waivers::{MOST_WAIVERS, conditions, say_due};
use crate::db::read_runs::CaseView;
use crate::db::waivers;
use crate::error::Result;

/// Days that an expired waiver is still shown, for whoever wonders why a case fails again.
const SHOWN_AFTER_DAYS: i64 = 30;

/// A waiver that touches an operator.
#[derive(Debug)]
pub(super) struct TouchingWaiver {
    pub(super) id: i64,
    pub(super) holds: bool,
    pub(super) case_pattern: String,
    pub(super) operator: String,
    pub(super) conditions: String,
    pub(super) outcomes: Vec<Mark>,
    pub(super) reason: String,
    pub(super) owner: String,
    pub(super) issue: String,
    pub(super) expires_on: NaiveDate,
    /// `in 3 days`.
    pub(super) due: String,
    /// Cases of the page in its scope.
    pub(super) cases: usize,
}

/// Whether a waiver speaks of failures that this operator or overload is blamed for.
fn is_bound_to(terms: &Terms, name: &str) -> bool {
    terms.operator.as_deref().is_some_and(|own| own == name || operator_of(own) == name)
}

/// Whether the case is in its scope, wherever it was executed.
fn names(terms: &Terms, case: &CaseView) -> bool {
    terms.names_variant(&case.key)
        && terms.operator.as_deref().is_none_or(|own| case.operator.as_deref() == Some(own))
}

/// Those that hold or ended by their date lately, the ones that end first first. `cases` are those
/// that the page speaks of.
pub(super) async fn find(
    pool: &PgPool,
    name: &str,
    cases: &[CaseView],
    today: NaiveDate,
) -> Result<Vec<TouchingWaiver>> {
    let mut found = Vec::new();
    for row in waivers::list(pool, None, MOST_WAIVERS).await? {
        let days = (row.expires_on - today).num_days();
        if row.revoked_at.is_some() || days < -SHOWN_AFTER_DAYS {
            continue;
        }
        let terms = row.terms()?;
        let own = cases.iter().filter(|case| names(&terms, case)).count();
        if own == 0 && !is_bound_to(&terms, name) {
            continue;
        }
        found.push(TouchingWaiver {
            id: row.id,
            holds: days > 0,
            conditions: conditions(&row),
            case_pattern: row.case_pattern,
            operator: row.operator.unwrap_or_default(),
            outcomes: terms.outcomes.iter().copied().map(Mark::of_outcome).collect(),
            reason: row.reason,
            owner: row.owner,
            issue: row.issue,
            expires_on: row.expires_on,
            due: say_due(days),
            cases: own,
        });
    }
    found.sort_by_key(|waiver| (waiver.expires_on, waiver.id));
    Ok(found)
}
