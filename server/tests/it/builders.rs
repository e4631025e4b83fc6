//! Scripted runners: what a run plans, and what it says.

use std::collections::BTreeMap;

use protocol::ingest_api::{Attempt, Source, create_run, post_results, put_manifest};
use protocol::{CaseKey, Evidence, Outcome, SkipReason, Stage, Suite};
use sha2::{Digest as _, Sha256};

use super::harness::at;

/// What one run says.
#[derive(Debug, Clone)]
#[must_use]
pub(crate) struct Script {
    pub(crate) key: String,
    pub(crate) suite: Suite,
    device_profile: String,
    started_at: String,
    planned: Vec<CaseKey>,
    attempts: Vec<Attempt>,
    source: Option<Source>,
    labels: BTreeMap<String, String>,
}

/// A run of the operator suite on the device profile `tpu`.
pub(crate) fn run(key: &str) -> Script {
    Script {
        key: key.to_owned(),
        suite: Suite::Operators,
        device_profile: "tpu".to_owned(),
        started_at: "2026-11-30T02:00:00Z".to_owned(),
        planned: Vec::new(),
        attempts: Vec::new(),
        source: None,
        labels: [("branch".to_owned(), "main".to_owned())].into(),
    }
}

impl Script {
    pub(crate) fn of(mut self, suite: Suite) -> Self {
        self.suite = suite;
        self
    }

    pub(crate) fn on(mut self, device_profile: &str) -> Self {
        device_profile.clone_into(&mut self.device_profile);
        self
    }

    pub(crate) fn started(mut self, at: &str) -> Self {
        at.clone_into(&mut self.started_at);
        self
    }

    /// It executes again what came out badly in that run.
    pub(crate) fn rerun_of(mut self, run: &str) -> Self {
        self.labels.insert("rerun_of".to_owned(), run.to_owned());
        self
    }

    /// With a label of that name.
    pub(crate) fn label(mut self, name: &str) -> Self {
        self.labels.insert(name.to_owned(), "yes".to_owned());
        self
    }

    /// Sent from that journal, as the shard `shard` of `shards`.
    pub(crate) fn sent_as(mut self, journal: &str, shard: u32, shards: u32) -> Self {
        self.source = Some(Source { journal: journal.to_owned(), shard, shards });
        self
    }

    pub(crate) fn source(&self) -> Option<Source> {
        self.source.clone()
    }

    pub(crate) fn case(&self, name: &str) -> CaseKey {
        format!("{}/opinfo:{name}#0/float32.eager.forward", self.suite).parse().unwrap()
    }

    /// The name that [`Script::case`] was given.
    pub(crate) fn short(&self, case: &str) -> String {
        let case: CaseKey = case.parse().unwrap();
        case.subject_base().trim_start_matches("opinfo:").to_owned()
    }

    /// Plans a case, without an attempt.
    pub(crate) fn plans(mut self, name: &str) -> Self {
        let case = self.case(name);
        if !self.planned.contains(&case) {
            self.planned.push(case);
        }
        self
    }

    /// Plans a case and adds an attempt at it.
    pub(crate) fn observes(self, name: &str, outcome: Outcome) -> Self {
        self.observes_with(name, outcome, |_| ())
    }

    pub(crate) fn passes(self, name: &str) -> Self {
        self.observes(name, Outcome::Pass)
    }

    /// The same entry in another variant: `bfloat16.compile.train.out`.
    pub(crate) fn passes_as(self, name: &str, variant: &str) -> Self {
        self.observes_as(name, variant, Outcome::Pass, |_| ())
    }

    /// An attempt at an entry in another variant.
    pub(crate) fn observes_as(
        self,
        name: &str,
        variant: &str,
        outcome: Outcome,
        change: impl FnOnce(&mut Attempt),
    ) -> Self {
        let case = format!("{}/opinfo:{name}#0/{variant}", self.suite).parse().unwrap();
        self.observes_case(case, outcome, change)
    }

    pub(crate) fn observes_with(
        self,
        name: &str,
        outcome: Outcome,
        change: impl FnOnce(&mut Attempt),
    ) -> Self {
        let case = self.case(name);
        self.observes_case(case, outcome, change)
    }

    fn observes_case(
        mut self,
        case: CaseKey,
        outcome: Outcome,
        change: impl FnOnce(&mut Attempt),
    ) -> Self {
        if !self.planned.contains(&case) {
            self.planned.push(case.clone());
        }
        let before = self.attempts.iter().filter(|attempt| attempt.case == case).count();
        let mut attempt = Attempt {
            case,
            attempt: u32::try_from(before).unwrap() + 1,
            outcome,
            stage: (outcome != Outcome::Pass).then_some(Stage::Execute),
            error_class: if outcome == Outcome::Pass { "" } else { "RuntimeError" }.to_owned(),
            message: if outcome == Outcome::Pass { "" } else { "it broke at 0x7f" }.to_owned(),
            operator: None,
            started_at: at("2026-11-30T02:00:01Z"),
            seconds: 0.25,
            evidence: Evidence {
                device_used: "tpu:0".to_owned(),
                skip_reason: (outcome == Outcome::Skipped).then_some(SkipReason::ByDesign),
                ..Evidence::default()
            },
        };
        change(&mut attempt);
        self.attempts.push(attempt);
        self
    }

    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/api/v1/runs/{}{rest}", self.key)
    }

    pub(crate) fn announcement(&self) -> create_run::Request {
        create_run::Request {
            protocol_version: protocol::PROTOCOL_VERSION,
            run_key: self.key.parse().unwrap(),
            suites: vec![self.suite],
            device_profile: self.device_profile.clone(),
            device_kind: "TPU v6e".to_owned(),
            simulated: self.device_profile == "tpu-sim",
            versions: [("torch".to_owned(), "2.15.0".to_owned())].into(),
            host: "tpu-host-3".to_owned(),
            started_at: at(&self.started_at),
            labels: self.labels.clone(),
        }
    }

    pub(crate) fn manifest(&self) -> put_manifest::Request {
        let text = put_manifest::Request::hash_text(&self.planned);
        put_manifest::Request {
            hash: hex::encode(Sha256::digest(text.as_bytes())),
            cases: self.planned.clone(),
        }
    }

    pub(crate) fn results(&self) -> post_results::Request {
        post_results::Request { source: self.source.clone(), results: self.attempts.clone() }
    }

    /// The same plan, with only the attempts at these places.
    pub(crate) fn pick(&self, places: &[usize]) -> Self {
        let attempts = places.iter().map(|place| self.attempts[*place].clone()).collect();
        Self { attempts, ..self.clone() }
    }

    /// How many attempts there are.
    pub(crate) fn len(&self) -> usize {
        self.attempts.len()
    }

    /// The same plan, with only the attempts from `first` on, `count` of them.
    pub(crate) fn slice(&self, first: usize, count: usize) -> Self {
        let attempts = self.attempts.iter().skip(first).take(count).cloned().collect();
        Self { attempts, ..self.clone() }
    }

    /// The same plan with nothing done.
    pub(crate) fn bare(&self) -> Self {
        self.slice(0, 0)
    }
}
