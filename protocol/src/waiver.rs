//! Whose leave covers a case: what a waiver says, and when it holds. Server and runner judge by it.
//!
//! A waiver forgives outcomes; it never changes them. One that names exactly one case also
//! expects that case to fail, so that a pass is reported and the waiver can go. A wide one (with
//! `*`, or bound to an operator or a model) only forgives.

use std::collections::BTreeMap;

use chrono::NaiveDate;
use pep440_rs::{Version, VersionSpecifiers};
use serde::{Deserialize, Serialize};

use crate::{CaseKey, Dtype, Mode, Outcome, Suite};

/// Longest validity, in days.
pub const MAX_DAYS: i64 = 366;
/// Shortest reason, in characters.
pub const MIN_REASON_CHARS: usize = 10;

/// What a waiver covers, under which conditions, and until when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// Case key in which `*` stands for any characters.
    pub case_pattern: String,
    /// Only cases of this suite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<Suite>,
    /// Only model cases of this model, as `timm:resnet18` without size and revision; `*` stands for
    /// any characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Only failures blamed on this overload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// Outcomes that it forgives.
    pub outcomes: Vec<Outcome>,
    /// Where it holds.
    #[serde(default)]
    pub conditions: Conditions,
    /// First day (UTC) on which it no longer holds.
    pub expires_on: NaiveDate,
}

/// Where a waiver holds; an empty list sets no condition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conditions {
    /// Device profiles: `tpu`, `tpu-sim`, … .
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_profiles: Vec<String>,
    /// Models of the device as they name themselves; `*` stands for any characters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_kinds: Vec<String>,
    /// Element types.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dtypes: Vec<Dtype>,
    /// Modes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modes: Vec<Mode>,
    /// Ranges of versions, by the name that the version has in the run: `torch`, `torch_tpu`, … .
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, VersionRange>,
}

/// A range of versions as Python writes it (PEP 440): `>=2.14, <2.16`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionRange(VersionSpecifiers);

impl VersionRange {
    /// Whether a version is in it. What is no version is in no range.
    #[must_use]
    pub fn contains(&self, version: &str) -> bool {
        // A build such as `2.15.0+cpu` is version 2.15.0.
        let public = version.split('+').next().unwrap_or_default();
        public.parse::<Version>().is_ok_and(|version| self.0.contains(&version))
    }
}

impl std::str::FromStr for VersionRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = |detail: String| format!("`{text}` is no range of versions: {detail}");
        let range: VersionSpecifiers = text.parse().map_err(|error| {
            let error: pep440_rs::VersionSpecifiersParseError = error;
            bad(error.to_string().lines().next().unwrap_or_default().to_owned())
        })?;
        if range.is_empty() {
            return Err(bad("it is empty".to_owned()));
        }
        Ok(Self(range))
    }
}

impl std::fmt::Display for VersionRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.0.to_string())
    }
}

impl Serialize for VersionRange {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for VersionRange {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The case a waiver is asked about.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Full text of the case key.
    pub case: &'a str,
    /// Profile of the device it was executed on.
    pub device_profile: &'a str,
    /// Model of that device.
    pub device_kind: &'a str,
    /// Versions of the run.
    pub versions: &'a BTreeMap<String, String>,
    /// Overload to blame, when known.
    pub operator: Option<&'a str>,
}

/// What waivers say of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// None covers it.
    None,
    /// One forgives this outcome, if it is bad.
    Forgiven,
    /// One names exactly this case, and so expects it to fail.
    Expected,
}

impl Leave {
    /// All of them, for tables.
    pub const ALL: [Self; 3] = [Self::None, Self::Forgiven, Self::Expected];
}

impl Terms {
    /// Whether it holds on that day. On its expiry date it no longer does.
    #[must_use]
    pub fn holds_on(&self, today: NaiveDate) -> bool {
        today < self.expires_on
    }

    /// Whether it names exactly one case.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.operator.is_none() && self.model.is_none() && !self.case_pattern.contains('*')
    }

    /// Whether the case is in its scope, whoever is to blame and wherever it was executed.
    #[must_use]
    pub fn names(&self, case: &str) -> bool {
        if !matches_pattern(&self.case_pattern, case) {
            return false;
        }
        if self.suite.is_none() && self.model.is_none() {
            return true;
        }
        let Ok(key) = case.parse::<CaseKey>() else { return false };
        self.suite.is_none_or(|suite| suite == key.suite())
            && self.model.as_deref().is_none_or(|model| names_model(model, &key))
    }

    /// The first condition that a run does not meet, in words; none when it meets those that do not
    /// depend on the case.
    #[must_use]
    pub fn unmet_by_run(
        &self,
        device_profile: &str,
        device_kind: &str,
        versions: &BTreeMap<String, String>,
    ) -> Option<String> {
        let Conditions { device_profiles, device_kinds, versions: ranges, .. } = &self.conditions;
        if !device_profiles.is_empty() && !device_profiles.iter().any(|p| p == device_profile) {
            return Some(format!("its device is {}", device_profiles.join(" or ")));
        }
        if !device_kinds.is_empty()
            && !device_kinds.iter().any(|kind| matches_pattern(kind, device_kind))
        {
            return Some(format!("its device kind is {}", device_kinds.join(" or ")));
        }
        ranges.iter().find_map(|(name, range)| match versions.get(name) {
            Some(version) if range.contains(version) => None,
            Some(version) => Some(format!("{name} {version} is not {range}")),
            None => Some(format!("the version of {name} is not known, and must be {range}")),
        })
    }

    /// Whether the case is in its scope, with its dtype and mode, whoever is to blame.
    #[must_use]
    pub fn names_variant(&self, case: &str) -> bool {
        self.names(case) && self.takes_variant(case)
    }

    fn takes_variant(&self, case: &str) -> bool {
        let Conditions { dtypes, modes, .. } = &self.conditions;
        if dtypes.is_empty() && modes.is_empty() {
            return true;
        }
        let Ok(key) = case.parse::<CaseKey>() else { return false };
        let Some(variant) = key.variant() else { return false };
        (dtypes.is_empty() || dtypes.contains(&variant.dtype))
            && (modes.is_empty() || modes.contains(&variant.mode))
    }

    /// Whether it speaks of this case at all, in this run.
    #[must_use]
    pub fn covers(&self, subject: Subject<'_>) -> bool {
        self.operator.as_deref().is_none_or(|operator| Some(operator) == subject.operator)
            && self
                .unmet_by_run(subject.device_profile, subject.device_kind, subject.versions)
                .is_none()
            && self.names_variant(subject.case)
    }

    /// The leave that it gives to a case that came out so; on a day on which it holds.
    #[must_use]
    pub fn leave(&self, subject: Subject<'_>, outcome: Outcome) -> Leave {
        let speaks = outcome == Outcome::Pass || self.outcomes.contains(&outcome);
        if !speaks || !self.covers(subject) {
            return Leave::None;
        }
        match (outcome, self.is_exact()) {
            (_, true) => Leave::Expected,
            (Outcome::Pass, false) => Leave::None,
            (_, false) => Leave::Forgiven,
        }
    }
}

/// `timm:resnet18` names `timm:resnet18#tiny` and `timm:resnet18@main#full`; no operator case, and
/// no imported one.
fn names_model(pattern: &str, key: &CaseKey) -> bool {
    if key.suite() == Suite::Operators || key.suite().is_imported() {
        return false;
    }
    let base = key.subject_base();
    let unpinned = base.rsplit_once('@').map_or(base, |(model, _)| model);
    matches_pattern(pattern, unpinned) || matches_pattern(pattern, base)
}

/// The leave for a case, and the waiver that gives it: the first one that does.
pub fn find_leave<'a, I>(
    waivers: impl IntoIterator<Item = (I, &'a Terms)>,
    subject: Subject<'_>,
    outcome: Outcome,
    today: NaiveDate,
) -> Option<(Leave, I)> {
    waivers.into_iter().filter(|(_, terms)| terms.holds_on(today)).find_map(|(id, terms)| {
        let leave = terms.leave(subject, outcome);
        (leave != Leave::None).then_some((leave, id))
    })
}

/// Whether `text` has the shape of `pattern`, in which `*` stands for any characters.
#[must_use]
pub fn matches_pattern(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(place) => rest = &rest[place + part.len()..],
            None => return false,
        }
    }
    true
}

/// What a person answers for, beside the terms.
#[derive(Debug, Clone, Copy)]
pub struct Statement<'a> {
    /// Why it may pass.
    pub reason: &'a str,
    /// Who gets it repaired.
    pub owner: &'a str,
    /// Address of the issue that follows it.
    pub issue: &'a str,
}

/// Something that a waiver may not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldProblem {
    /// Name of the field.
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: &'static str,
    /// What to do.
    pub hint: &'static str,
}

/// Everything that a waiver may not say. One that has ended already is not among it: such a one
/// cannot be made, and an old file may well hold it.
#[must_use]
pub fn find_problems(
    terms: &Terms,
    statement: &Statement<'_>,
    today: NaiveDate,
) -> Vec<FieldProblem> {
    let mut problems = Vec::new();
    let mut bad = |field, problem, hint| problems.push(FieldProblem { field, problem, hint });
    let optional = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    for (field, text, longest) in [
        ("case_pattern", terms.case_pattern.clone(), 600),
        ("operator", optional(&terms.operator), 300),
        ("model", optional(&terms.model), 300),
        ("reason", statement.reason.to_owned(), 2_000),
        ("owner", statement.owner.to_owned(), 200),
        ("issue", statement.issue.to_owned(), 500),
    ] {
        let length = text.trim().chars().count();
        if length == 0 || length > longest || text.contains('\0') {
            bad(field, "is empty or too long", "docs/waivers.md says what it holds");
        }
    }
    let everything = |text: &str| text.chars().all(|c| c == '*');
    let bound = terms.operator.is_some() || terms.model.as_deref().is_some_and(|m| !everything(m));
    if everything(&terms.case_pattern) && !bound {
        bad(
            "case_pattern",
            "covers every case",
            "name an operator or a model, or narrow the pattern",
        );
    }
    let forgivable = |o: &Outcome| o.is_conclusive() && *o != Outcome::Pass;
    if terms.outcomes.is_empty() || !terms.outcomes.iter().all(forgivable) {
        bad("outcomes", "must name failures", "what taught nothing cannot be waived");
    }
    if statement.reason.trim().chars().count() < MIN_REASON_CHARS {
        bad("reason", "is shorter than 10 characters", "say why it may pass");
    }
    let issue = statement.issue;
    let address = issue.strip_prefix("https://").or_else(|| issue.strip_prefix("http://"));
    if address.is_none_or(|rest| rest.is_empty() || rest.contains(char::is_whitespace)) {
        bad("issue", "is not an address", "give the address of the issue that follows it");
    }
    if (terms.expires_on - today).num_days() > MAX_DAYS {
        bad("expires_on", "is more than a year ahead", "a waiver ends; make it anew when it must");
    }
    problems
}

#[cfg(test)]
#[path = "waiver_tests.rs"]
mod tests;
