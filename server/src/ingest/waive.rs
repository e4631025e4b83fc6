//! A person's leave for a failure to pass the gate, and its end. The gate applies waivers as they
//! are when it is asked; the stored verdicts of recent runs are brought in step here.

use std::collections::BTreeMap;

use chrono::NaiveDate;
use protocol::waiver::{self, Conditions, Statement, Terms, VersionRange};
use protocol::{Dtype, Mode, Outcome, Suite};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::judgement;
use crate::app::AppState;
use crate::db::runs::{self, RunFilter};
use crate::db::tokens::Caller;
use crate::db::waivers::{self, Origin};
use crate::db::{audit, verdicts};
use crate::error::{Error, Result};

mod reading;

/// Most words in one condition.
const MAX_WORDS: usize = 100;

/// A waiver to make, over the API or in the file that is kept with the code. Whoever sends it
/// approves it, so its author is somebody else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewWaiver {
    /// Case key in which `*` stands for any characters; every case when absent.
    #[serde(default = "everything")]
    pub case_pattern: String,
    /// Only cases of this suite.
    #[serde(default)]
    pub suite: Option<Suite>,
    /// Only model cases of this model, as `timm:resnet18`; `*` stands for any characters.
    #[serde(default)]
    pub model: Option<String>,
    /// Only failures blamed on this overload.
    #[serde(default)]
    pub operator: Option<String>,
    /// Where it holds; everywhere when absent.
    #[serde(default)]
    pub when: When,
    /// Outcomes that it forgives.
    pub outcomes: Vec<Outcome>,
    /// Why it may pass.
    pub reason: String,
    /// Who gets it repaired.
    pub owner: String,
    /// Where that is followed.
    pub issue: String,
    /// Who asked for it, when that is not the owner.
    #[serde(default)]
    pub author: Option<String>,
    /// First day (UTC) on which it no longer holds.
    #[serde(deserialize_with = "reading::day")]
    pub expires_on: NaiveDate,
}

fn everything() -> String {
    "*".to_owned()
}

/// Conditions, all of which must hold; each is one word or a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct When {
    /// Device profiles.
    #[serde(deserialize_with = "reading::one_or_more", skip_serializing_if = "Vec::is_empty")]
    pub device: Vec<String>,
    /// Models of the device as they name themselves; `*` stands for any characters.
    #[serde(deserialize_with = "reading::one_or_more", skip_serializing_if = "Vec::is_empty")]
    pub device_kind: Vec<String>,
    /// Element types.
    #[serde(deserialize_with = "reading::one_or_more", skip_serializing_if = "Vec::is_empty")]
    pub dtype: Vec<Dtype>,
    /// Modes.
    #[serde(deserialize_with = "reading::one_or_more", skip_serializing_if = "Vec::is_empty")]
    pub mode: Vec<Mode>,
    /// Ranges (PEP 440) by the name that the version has in the run.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub versions: BTreeMap<String, VersionRange>,
}

impl When {
    /// Of stored conditions.
    #[must_use]
    pub fn of(conditions: Conditions) -> Self {
        Self {
            device: conditions.device_profiles,
            device_kind: conditions.device_kinds,
            dtype: conditions.dtypes,
            mode: conditions.modes,
            versions: conditions.versions,
        }
    }
}

impl NewWaiver {
    /// As the judge reads it.
    #[must_use]
    pub fn terms(&self) -> Terms {
        let when = self.when.clone();
        Terms {
            case_pattern: self.case_pattern.clone(),
            suite: self.suite,
            model: self.model.clone(),
            operator: self.operator.clone(),
            outcomes: self.outcomes.clone(),
            conditions: Conditions {
                device_profiles: when.device,
                device_kinds: when.device_kind,
                dtypes: when.dtype,
                modes: when.mode,
                versions: when.versions,
            },
            expires_on: self.expires_on,
        }
    }

    /// Who asked for it.
    #[must_use]
    pub fn author(&self) -> &str {
        self.author.as_deref().unwrap_or(&self.owner)
    }

    /// Everything that it may not say, as field, problem and hint.
    pub(super) fn problems(&self, today: NaiveDate) -> Vec<(&'static str, String, &'static str)> {
        let statement = Statement { reason: &self.reason, owner: &self.owner, issue: &self.issue };
        let common = waiver::find_problems(&self.terms(), &statement, today);
        let mut problems: Vec<_> =
            common.into_iter().map(|p| (p.field, p.problem.to_owned(), p.hint)).collect();
        let hint = "docs/waivers.md says what it holds";
        let bad = |text: &str, longest: usize| {
            !(1..=longest).contains(&text.trim().chars().count()) || text.contains('\0')
        };
        let When { device, device_kind, versions, .. } = &self.when;
        let lists = [("when.device", device, 40), ("when.device_kind", device_kind, 200)];
        for (field, words, longest) in lists {
            if words.len() > MAX_WORDS || words.iter().any(|word| bad(word, longest)) {
                problems.push((field, "has too many words, or one too long".to_owned(), hint));
            }
        }
        if versions.len() > MAX_WORDS || versions.keys().any(|name| bad(name, 100)) {
            problems.push(("when.versions", "has too many or too long names".to_owned(), hint));
        }
        if bad(self.author(), 80) {
            problems.push(("author", "is empty or too long".to_owned(), hint));
        }
        problems
    }

    /// Whether whoever approves it asked for it.
    pub(super) fn is_asked_for_by(&self, approver: &str) -> bool {
        self.author().trim().eq_ignore_ascii_case(approver.trim())
    }
}

/// Makes a waiver; answers its id.
pub async fn create_waiver(state: &AppState, caller: &Caller, new: NewWaiver) -> Result<i64> {
    let now = state.clock.now();
    check(&new, &caller.name, now.date_naive())?;
    let mut transaction = state.db.pool().begin().await?;
    let origin = Origin::default();
    let id = waivers::create(&mut *transaction, &new, &caller.name, origin, now).await?;
    let subject = format!("waiver {id}");
    audit::record(&mut *transaction, Some(caller), "waiver.create", &subject, json!(new)).await?;
    transaction.commit().await?;
    judge_again(state, &[new.terms()]).await?;
    Ok(id)
}

/// Ends a waiver before its time.
pub async fn revoke_waiver(state: &AppState, caller: &Caller, id: i64) -> Result<()> {
    let now = state.clock.now();
    let mut transaction = state.db.pool().begin().await?;
    waivers::lock(&mut *transaction).await?;
    let row = waivers::find_open(&mut *transaction, id)
        .await?
        .ok_or_else(|| Error::no_such("waiver", id))?;
    if row.from_file {
        return Err(Error::conflict(
            format!("waiver {id} is in the file that is kept with the code"),
            "take it out of the file; it would come back with the next sync",
        ));
    }
    waivers::revoke(&mut *transaction, id, now).await?;
    let subject = format!("waiver {id}");
    audit::record(&mut *transaction, Some(caller), "waiver.revoke", &subject, json!({})).await?;
    transaction.commit().await?;
    judge_again(state, &[row.terms()?]).await
}

fn check(new: &NewWaiver, approver: &str, today: NaiveDate) -> Result<()> {
    if let Some((field, problem, hint)) = new.problems(today).into_iter().next() {
        return Err(Error::bad_request(format!("`{field}` {problem}"), hint));
    }
    if new.expires_on <= today {
        return Err(Error::bad_request(
            "`expires_on` is not within a year from tomorrow",
            "a waiver ends; name a day that is still to come",
        ));
    }
    if new.is_asked_for_by(approver) {
        return Err(Error::bad_request(
            "`author` (or `owner`, where there is none) is who sends this",
            "a waiver is approved by somebody else's token",
        ));
    }
    Ok(())
}

/// Judges the cases that any of them names again, in recent runs, one run at a time.
pub(super) async fn judge_again(state: &AppState, changed: &[Terms]) -> Result<()> {
    if changed.is_empty() {
        return Ok(());
    }
    let filter = RunFilter { without_void: true, ..RunFilter::default() };
    for run in runs::list(state.db.pool(), &filter, judgement::RECENT_RUNS).await? {
        let key = run.key.parse().map_err(anyhow::Error::from)?;
        let mut transaction = state.db.pool().begin().await?;
        let locked = super::lock(&mut transaction, &key).await?;
        let planned = verdicts::list_planned(&mut transaction, &locked, None).await?;
        let named: Vec<i64> = planned
            .iter()
            .filter(|case| changed.iter().any(|terms| terms.names_variant(&case.key)))
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
