//! A person's leave for a failure to pass the gate, and its end. The gate applies waivers as they
//! are when it is asked; the stored verdicts of recent runs are brought in step here.

use chrono::NaiveDate;
use protocol::Outcome;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::judgement;
use crate::app::AppState;
use crate::db::runs::{self, RunFilter};
use crate::db::tokens::Caller;
use crate::db::{audit, verdicts, waivers};
use crate::error::{Error, Result};
use crate::judge::waiver::matches_pattern;

/// Longest validity, in days; the schema has the same limit.
const MAX_DAYS: i64 = 366;

/// A waiver to make. Whoever sends it approves it, so its author is somebody else.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewWaiver {
    /// Case key in which `*` stands for any characters.
    pub case_pattern: String,
    /// Only failures blamed on this overload.
    #[serde(default)]
    pub operator: Option<String>,
    /// Only on this device profile.
    #[serde(default)]
    pub device_profile: Option<String>,
    /// Outcomes that it forgives.
    pub outcomes: Vec<Outcome>,
    /// Why it may pass.
    pub reason: String,
    /// Who gets it repaired.
    pub owner: String,
    /// Where that is followed.
    pub issue: String,
    /// Who asked for it.
    pub author: String,
    /// First day (UTC) on which it no longer holds.
    pub expires_on: NaiveDate,
}

/// Makes a waiver; answers its id.
pub async fn create_waiver(state: &AppState, caller: &Caller, new: NewWaiver) -> Result<i64> {
    let now = state.clock.now();
    check(&new, &caller.name, now.date_naive())?;
    let mut transaction = state.db.pool().begin().await?;
    let id = waivers::create(&mut *transaction, &new, &caller.name, now).await?;
    let subject = format!("waiver {id}");
    audit::record(&mut *transaction, Some(caller), "waiver.create", &subject, json!(new)).await?;
    transaction.commit().await?;
    judge_again(state, &new.case_pattern).await?;
    Ok(id)
}

/// Ends a waiver before its time.
pub async fn revoke_waiver(state: &AppState, caller: &Caller, id: i64) -> Result<()> {
    let now = state.clock.now();
    let mut transaction = state.db.pool().begin().await?;
    let pattern = waivers::revoke(&mut *transaction, id, now)
        .await?
        .ok_or_else(|| Error::no_such("waiver", id))?;
    let subject = format!("waiver {id}");
    audit::record(&mut *transaction, Some(caller), "waiver.revoke", &subject, json!({})).await?;
    transaction.commit().await?;
    judge_again(state, &pattern).await
}

fn check(new: &NewWaiver, approver: &str, today: NaiveDate) -> Result<()> {
    let bad = |field: &str, problem: &str, hint: &str| {
        Err(Error::bad_request(format!("`{field}` {problem}"), hint))
    };
    for (field, text, longest) in [
        ("case_pattern", &new.case_pattern, 600),
        ("reason", &new.reason, 2_000),
        ("owner", &new.owner, 200),
        ("issue", &new.issue, 500),
        ("author", &new.author, 80),
    ] {
        let length = text.trim().chars().count();
        if length == 0 || length > longest || text.contains('\0') {
            return bad(field, "is empty or too long", "see docs/api.md for what it holds");
        }
    }
    if new.case_pattern.chars().all(|c| c == '*') && new.operator.is_none() {
        return bad("case_pattern", "covers every case", "name an operator, or narrow the pattern");
    }
    let forgivable = |o: &Outcome| o.is_conclusive() && *o != Outcome::Pass;
    if new.outcomes.is_empty() || !new.outcomes.iter().all(forgivable) {
        return bad("outcomes", "must name failures", "what taught nothing cannot be waived");
    }
    if new.reason.trim().chars().count() < 10 {
        return bad("reason", "is shorter than 10 characters", "say why it may pass");
    }
    let address = new.issue.strip_prefix("https://").or_else(|| new.issue.strip_prefix("http://"));
    if address.is_none_or(|rest| rest.is_empty() || rest.contains(char::is_whitespace)) {
        return bad("issue", "is not an address", "give the address of the issue that follows it");
    }
    if new.author.trim().eq_ignore_ascii_case(approver.trim()) {
        return bad("author", "is who sends this", "a waiver is approved by somebody else's token");
    }
    let days = (new.expires_on - today).num_days();
    if !(1..=MAX_DAYS).contains(&days) {
        return bad("expires_on", "is not within a year from tomorrow", "a waiver ends");
    }
    for (field, text) in [("operator", &new.operator), ("device_profile", &new.device_profile)] {
        if text
            .as_ref()
            .is_some_and(|text| text.is_empty() || text.len() > 300 || text.contains('\0'))
        {
            return bad(field, "is empty or too long", "leave it out, or name one");
        }
    }
    Ok(())
}

/// Judges the cases that the pattern names again, in recent runs, one run at a time.
async fn judge_again(state: &AppState, pattern: &str) -> Result<()> {
    let filter = RunFilter { without_void: true, ..RunFilter::default() };
    for run in runs::list(state.db.pool(), &filter, judgement::RECENT_RUNS).await? {
        let key = run.key.parse().map_err(anyhow::Error::from)?;
        let mut transaction = state.db.pool().begin().await?;
        let locked = super::lock(&mut transaction, &key).await?;
        let planned = verdicts::list_planned(&mut transaction, &locked, None).await?;
        let named: Vec<i64> = planned
            .iter()
            .filter(|case| matches_pattern(pattern, &case.key))
            .map(|case| case.case_id)
            .collect();
        if !named.is_empty() {
            let now = state.clock.now();
            judgement::judge_cases(&mut transaction, &locked, Some(&named), now).await?;
        }
        transaction.commit().await?;
    }
    Ok(())
}
