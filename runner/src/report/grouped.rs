//! Failing cases by what they have in common: the operator, or the whole signature of the failure.

use std::collections::BTreeMap;

use protocol::signature::normalise;
use protocol::{CaseKey, Outcome, Stage, Suite};

use super::collected::{CaseRecord, Collected, Settled};

/// Cases that failed in the same way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cluster<'a> {
    pub(super) outcome: Outcome,
    pub(super) stage: Option<Stage>,
    pub(super) error_class: &'a str,
    pub(super) operator: Option<&'a str>,
    /// First line of the message without what differs from process to process.
    pub(super) line: String,
    /// In plan order; at least one.
    pub(super) cases: Vec<&'a CaseKey>,
}

impl Collected {
    /// Operators that the backend does not implement, with the cases that need them, the most
    /// needed first.
    pub(super) fn unimplemented(&self) -> Vec<(String, Vec<&CaseKey>)> {
        let wanted = |case: &CaseRecord<'_>| case.settled == Settled::Steady(Outcome::Unsupported);
        ranked(self.cases().filter(wanted).map(|case| {
            let operator = case.telling().and_then(|attempt| attempt.operator.clone());
            (operator.unwrap_or_else(|| "not named".to_owned()), case.key)
        }))
    }

    /// Operators and models that fail otherwise than by not being implemented, with the cases in
    /// which they do, the most of them first. An operator case of which no overload is known counts
    /// for its entry.
    pub(super) fn failing(&self) -> Vec<(String, Vec<&CaseKey>)> {
        let wanted = |case: &CaseRecord<'_>| {
            let (Settled::Steady(outcome) | Settled::Flaky(outcome)) = case.settled else {
                return false;
            };
            case.is_failure() && outcome.is_conclusive() && outcome != Outcome::Unsupported
        };
        ranked(self.cases().filter(wanted).map(|case| {
            let named = case.telling().and_then(|attempt| attempt.operator.clone());
            let of_key = || match case.key.suite() {
                Suite::Operators => {
                    let base = case.key.subject_base();
                    base.strip_prefix("opinfo:").unwrap_or(base).to_owned()
                }
                Suite::Tier1 | Suite::Tier2 | Suite::Dynamism | Suite::Imported(_) => {
                    case.key.subject_base().to_owned()
                }
            };
            (named.unwrap_or_else(of_key), case.key)
        }))
    }

    /// Failures by signature, the most frequent first.
    pub(super) fn clusters(&self) -> Vec<Cluster<'_>> {
        type Signature<'a> = (Outcome, Option<Stage>, &'a str, Option<&'a str>, String);
        let mut clusters: BTreeMap<Signature<'_>, Vec<&CaseKey>> = BTreeMap::new();
        for case in self.cases().filter(CaseRecord::is_failure) {
            let Some(attempt) = case.telling() else { continue };
            let operator = attempt.operator.as_deref();
            let class = attempt.error_class.as_str();
            let line = normalise(&attempt.message);
            clusters
                .entry((attempt.outcome, attempt.stage, class, operator, line))
                .or_default()
                .push(case.key);
        }
        let mut clusters: Vec<_> = clusters
            .into_iter()
            .map(|((outcome, stage, error_class, operator, line), cases)| Cluster {
                outcome,
                stage,
                error_class,
                operator,
                line,
                cases,
            })
            .collect();
        // The sort is stable: among equals the order is that of the signature.
        clusters.sort_by_key(|cluster| std::cmp::Reverse(cluster.cases.len()));
        clusters
    }
}

fn ranked<'a>(
    pairs: impl Iterator<Item = (String, &'a CaseKey)>,
) -> Vec<(String, Vec<&'a CaseKey>)> {
    let mut groups: BTreeMap<String, Vec<&CaseKey>> = BTreeMap::new();
    for (name, case) in pairs {
        groups.entry(name).or_default().push(case);
    }
    let mut ranked: Vec<_> = groups.into_iter().collect();
    ranked.sort_by_key(|(_, cases)| std::cmp::Reverse(cases.len()));
    ranked
}
