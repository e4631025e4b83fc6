//! A person's leave for a failure to pass the gate, and its end. The gate applies waivers as they
//! are when it is asked; the stored verdicts of recent runs are brought in step here.

use chrono::NaiveDate;
use protocol::Outcome;
use protocol::waiver::{self, Conditions, Statement, Terms, matches_pattern};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::judgement;
use crate::app::AppState;
use crate::db::runs::{self, RunFilter};
use crate::db::tokens::Caller;
use crate::db::{audit, verdicts, waivers};
use crate::error::{Error, Result};

/// A waiver to make. Whoever sends it approves it, so its author is somebody else.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
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

impl NewWaiver {
    fn terms(&self) -> Terms {
        Terms {
            case_pattern: self.case_pattern.clone(),
            suite: None,
            model: None,
            operator: self.operator.clone(),
            outcomes: self.outcomes.clone(),
            conditions: Conditions::default(),
            expires_on: self.expires_on,
        }
    }
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
    let statement = Statement { reason: &new.reason, owner: &new.owner, issue: &new.issue };
    if let Some(first) = waiver::find_problems(&new.terms(), &statement, today).first() {
        return bad(first.field, first.problem, first.hint);
    }
    if new.expires_on <= today {
        return bad("expires_on", "is not within a year from tomorrow", "a waiver ends");
    }
    for (field, text, longest) in
        [("author", Some(&new.author), 80), ("device_profile", new.device_profile.as_ref(), 300)]
    {
        let length = text.map_or(1, |text| text.trim().chars().count());
        if length == 0 || length > longest || text.is_some_and(|text| text.contains('\0')) {
            return bad(field, "is empty or too long", "see docs/api.md for what it holds");
        }
    }
    if new.author.trim().eq_ignore_ascii_case(approver.trim()) {
        return bad("author", "is who sends this", "a waiver is approved by somebody else's token");
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
