//! How long models take, and where the time goes.

use std::collections::BTreeMap;

use protocol::ingest_api::Attempt;

/// Stages named; the rest are together.
const MOST_STAGES: usize = 5;

/// Seconds of the executions of one suite.
#[derive(Debug, Clone, Default)]
pub(super) struct Times {
    executed: u32,
    seconds: f64,
    stages: BTreeMap<String, f64>,
}

impl Times {
    /// Adds an execution; what took no time was none: a skip, or that of another case.
    pub(super) fn add(&mut self, attempt: &Attempt) {
        if attempt.seconds <= 0.0 || attempt.evidence.executed_as.is_some() {
            return;
        }
        self.executed += 1;
        self.seconds += attempt.seconds;
        for (stage, seconds) in &attempt.evidence.stage_seconds {
            *self.stages.entry(stage.clone()).or_default() += seconds;
        }
    }

    /// `27.4 s for each of 26 executions: execute 14.1, compile 8.0, …`; nothing without one.
    pub(super) fn describe(&self) -> Option<String> {
        if self.executed == 0 {
            return None;
        }
        let each = |seconds: f64| seconds / f64::from(self.executed);
        let mut stages: Vec<(&str, f64)> =
            self.stages.iter().map(|(stage, seconds)| (stage.as_str(), *seconds)).collect();
        stages.sort_by(|a, b| b.1.total_cmp(&a.1));
        stages.truncate(MOST_STAGES);
        let named: f64 = stages.iter().map(|(_, seconds)| seconds).sum();
        stages.push(("all else", (self.seconds - named).max(0.0)));
        let parts: Vec<String> = stages
            .iter()
            .map(|(stage, seconds)| format!("{stage} {:.2}", each(*seconds)))
            .collect();
        let (seconds, executed) = (each(self.seconds), self.executed);
        let plural = if executed == 1 { "" } else { "s" };
        let parts = parts.join(", ");
        Some(format!("{seconds:.2} s for each of {executed} execution{plural}: {parts}"))
    }
}

#[cfg(test)]
mod tests {
    use protocol::Outcome;

    use super::*;

    fn attempt(seconds: f64, stages: &[(&str, f64)]) -> Attempt {
        let stage_seconds = stages.iter().map(|(stage, s)| ((*stage).to_owned(), *s)).collect();
        Attempt {
            case: "dynamism/transformers:GPT2LMHeadModel#tiny/float32.compile.forward"
                .parse()
                .unwrap(),
            attempt: 1,
            outcome: Outcome::Pass,
            stage: None,
            error_class: String::new(),
            message: String::new(),
            operator: None,
            started_at: "2026-11-30T12:00:00Z".parse().unwrap(),
            seconds,
            evidence: protocol::Evidence { stage_seconds, ..protocol::Evidence::default() },
        }
    }

    #[test]
    fn the_longest_stages_are_named_and_nothing_is_left_out() {
        let mut times = Times::default();
        assert_eq!(times.describe(), None);
        times.add(&attempt(0.0, &[]));
        assert_eq!(times.describe(), None, "a skip is no execution");
        times.add(&attempt(6.0, &[("execute", 4.0), ("compile", 1.0), ("reference", 0.5)]));
        assert_eq!(
            times.describe().unwrap(),
            "6.00 s for each of 1 execution: execute 4.00, compile 1.00, reference 0.50, all else 0.50"
        );
        let stages = [("build", 0.1), ("trace", 3.0), ("compile", 9.0), ("import", 0.01)];
        times.add(&attempt(14.0, &stages));
        assert_eq!(
            times.describe().unwrap(),
            "10.00 s for each of 2 executions: compile 5.00, execute 2.00, trace 1.50, \
             reference 0.25, build 0.05, all else 1.20"
        );
        let mut shared = attempt(6.0, &[("execute", 6.0)]);
        shared.evidence.executed_as = Some(shared.case.clone());
        times.add(&shared);
        assert!(times.describe().unwrap().contains("of 2 executions"));
    }
}
