//! Lines that several pages share: a run in a list, the head of a run, a case in a table.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Utc};
use protocol::Suite;

use super::count::Count;
use super::view::{self, Mark};
use crate::db::read_runs::{CaseView, RunView, Tally};
use crate::filters;
use crate::judge::rates;

/// When a run's figures were measured. The runner's clock may be wrong; a figure is never younger
/// than its arrival here.
#[must_use]
pub fn measured_at(run: &RunView) -> DateTime<Utc> {
    let finished = run.finished_at.unwrap_or(run.started_at);
    run.sealed_at.map_or(finished, |sealed| sealed.min(finished))
}

/// Whether a run's figures are too old to be believed as news.
#[must_use]
pub fn is_stale(run: &RunView, now: DateTime<Utc>) -> bool {
    now - measured_at(run) > chrono::Duration::hours(rates::STALE_AFTER_HOURS)
}

/// Counts per run and suite.
#[derive(Debug, Default)]
pub struct Counts(HashMap<i64, BTreeMap<Suite, Count>>);

impl Counts {
    /// From the tallies of some runs.
    #[must_use]
    pub fn new(tallies: &[Tally]) -> Self {
        let mut counts: HashMap<i64, BTreeMap<Suite, Count>> = HashMap::new();
        for tally in tallies {
            let suites = counts.entry(tally.run_id).or_default();
            suites.entry(tally.suite.0).or_default().add(tally.verdict.0, None, tally.cases);
        }
        Self(counts)
    }

    /// One suite of one run.
    #[must_use]
    pub fn of(&self, run_id: i64, suite: Suite) -> Count {
        let count = self.0.get(&run_id).and_then(|suites| suites.get(&suite));
        count.cloned().unwrap_or_default()
    }

    /// All suites of one run.
    #[must_use]
    pub fn total(&self, run_id: i64) -> Count {
        let mut total = Count::default();
        for count in self.0.get(&run_id).into_iter().flat_map(BTreeMap::values) {
            total += count;
        }
        total
    }
}

/// A suite's name for people.
#[must_use]
pub fn suite_title(suite: Suite) -> String {
    let title = match suite {
        Suite::Operators => "Operators",
        Suite::Tier1 => "Tier 1",
        Suite::Tier2 => "Tier 2",
        Suite::Dynamism => "Dynamism",
        Suite::Imported(integration) => return integration.name().to_owned(),
    };
    title.to_owned()
}

/// What a suite asks, in a few words.
#[must_use]
pub const fn suite_question(suite: Suite) -> &'static str {
    match suite {
        Suite::Imported(_) => "tests of an integration, imported from its report",
        Suite::Operators => "cases of PyTorch's operator database",
        Suite::Tier1 => "models run and return finite values",
        Suite::Tier2 => "models agree with their reference",
        Suite::Dynamism => "one compile serves a range of sizes",
    }
}

/// A run in a list.
#[derive(Debug)]
pub struct RunRow {
    /// Its key.
    pub key: String,
    /// Its page.
    pub href: String,
    /// Complete, incomplete, running, void.
    pub state: Mark,
    /// How the device is reached.
    pub device_profile: String,
    /// Whether simulated.
    pub simulated: bool,
    /// Suites, comma separated.
    pub suites: String,
    /// Over all suites.
    pub count: Count,
    /// Version of the backend under test.
    pub backend: String,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// How long ago that was.
    pub age: String,
}

impl RunRow {
    /// With the counts of its page.
    #[must_use]
    pub fn new(run: &RunView, counts: &Counts, now: DateTime<Utc>) -> Self {
        Self {
            key: run.key.clone(),
            href: view::run_href(&run.key),
            state: Mark::of_run(&run.state, run.completeness.as_deref()),
            device_profile: run.device_profile.clone(),
            simulated: run.simulated,
            suites: run.suites.join(", "),
            count: counts.total(run.id),
            backend: run
                .versions
                .get("torch_tpu")
                .or_else(|| run.versions.get("torch"))
                .cloned()
                .unwrap_or_default(),
            started_at: run.started_at,
            age: filters::say_duration(now - run.started_at),
        }
    }
}

/// The head of a run, on its page and on the pages of its cases.
#[derive(Debug)]
pub struct RunHead {
    /// Its key.
    pub key: String,
    /// Its page.
    pub href: String,
    /// Complete, incomplete, running, void.
    pub state: Mark,
    /// Whether simulated.
    pub simulated: bool,
    /// How the device is reached.
    pub device_profile: String,
    /// What the device says it is.
    pub device_kind: String,
    /// As the runner says.
    pub claimed_host: String,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// How long it took, or how long ago something last came.
    pub lasted: String,
    /// What sealed it, when that was not its runner.
    pub remark: &'static str,
    /// The version tuple, in its usual order.
    pub versions: Vec<(String, String)>,
    /// Free labels.
    pub labels: Vec<(String, String)>,
    /// Hex of the manifest's hash.
    pub manifest_hash: String,
    /// Attempts received.
    pub attempts: i64,
}

/// The parts of the version tuple that people look at first.
const VERSION_ORDER: [&str; 9] =
    ["torch_tpu", "torch", "libtpu", "xla", "driver", "commit", "dirty", "runner", "python"];

impl RunHead {
    /// From its row.
    #[must_use]
    pub fn new(run: &RunView, now: DateTime<Utc>) -> Self {
        let place = |name: &str| VERSION_ORDER.iter().position(|known| *known == name);
        let mut versions: Vec<(String, String)> =
            run.versions.iter().map(|(name, text)| (name.clone(), text.clone())).collect();
        versions
            .sort_by_key(|(name, _)| (place(name).unwrap_or(VERSION_ORDER.len()), name.clone()));
        let lasted = match run.finished_at {
            Some(end) => format!("took {}", filters::say_duration(end - run.started_at)),
            None => {
                let silence = filters::say_duration(now - run.last_activity_at);
                format!("last heard of {silence} ago")
            }
        };
        let by_silence = run.sealed_by.as_deref() == Some("silence");
        Self {
            key: run.key.clone(),
            href: view::run_href(&run.key),
            state: Mark::of_run(&run.state, run.completeness.as_deref()),
            simulated: run.simulated,
            device_profile: run.device_profile.clone(),
            device_kind: run.device_kind.clone(),
            claimed_host: run.claimed_host.clone(),
            started_at: run.started_at,
            lasted,
            remark: if by_silence { "closed by the server, because nothing more came" } else { "" },
            versions,
            labels: run.labels.iter().map(|(name, text)| (name.clone(), text.clone())).collect(),
            manifest_hash: run.manifest_hash.clone().unwrap_or_default(),
            attempts: run.attempts,
        }
    }

    /// Versions in one line, for the narrow head of a case page.
    #[must_use]
    pub fn version_line(&self) -> String {
        let parts = self.versions.iter().take(4);
        parts.map(|(name, text)| format!("{name} {text}")).collect::<Vec<_>>().join(" · ")
    }
}

/// A case in a table.
#[derive(Debug)]
pub struct CaseRow {
    /// Its page.
    pub href: String,
    /// Its suite.
    pub suite: Suite,
    /// What is executed.
    pub subject: String,
    /// Dtype, mode, direction, layout.
    pub variant: String,
    /// The judgement.
    pub verdict: Mark,
    /// The worst outcome.
    pub outcome: Mark,
    /// Where it stopped.
    pub stage: String,
    /// Class of the error.
    pub error_class: String,
    /// First line of what went wrong.
    pub message: String,
    /// Overload to blame.
    pub operator: String,
    /// Its page.
    pub operator_href: String,
    /// Attempts that arrived.
    pub attempts: i32,
    /// Wall time over all attempts.
    pub seconds: f64,
}

impl CaseRow {
    /// With links that keep the run in view.
    #[must_use]
    pub fn new(case: &CaseView) -> Self {
        let pin = format!("run={}", case.run_key);
        let layout = case.layout.as_deref().unwrap_or_default();
        let words = [case.dtype.as_str(), &case.mode, &case.direction, layout];
        let variant: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        let operator = case.operator.clone().unwrap_or_default();
        Self {
            href: view::case_href(&case.run_key, &case.key),
            suite: case.suite.0,
            subject: case.subject.clone(),
            variant: variant.join("."),
            verdict: Mark::of_verdict(case.verdict.0),
            outcome: Mark::of_case(case.outcome.map(|word| word.0)),
            stage: case.stage.clone().unwrap_or_default(),
            error_class: case.error_class.clone(),
            message: case.message.clone(),
            operator_href: view::operator_href(&operator, &pin),
            operator,
            attempts: case.attempts,
            seconds: case.seconds,
        }
    }

    /// The error class and where it happened, in one text.
    #[must_use]
    pub fn trouble(&self) -> String {
        match (self.error_class.is_empty(), self.stage.is_empty()) {
            (true, true) => String::new(),
            (true, false) => format!("at {}", self.stage),
            (false, true) => self.error_class.clone(),
            (false, false) => format!("{} at {}", self.error_class, self.stage),
        }
    }
}
