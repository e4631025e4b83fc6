//! What one attempt observed, where it stopped, and why a case was not executed.

words! {
    /// What one attempt at a case observed, without judgement (that is [`crate::Verdict`]).
    Outcome as "outcome" {
        /// Executed on the requested device, and every comparison held.
        Pass = "pass",
        /// Executed, but the answer differs from the reference or golden.
        Mismatch = "mismatch",
        /// Raised an error that is not one of the more specific kinds.
        Error = "error",
        /// The backend itself said that it does not implement this.
        Unsupported = "unsupported",
        /// Computed, but somewhere else than on the requested device.
        Fallback = "fallback",
        /// The worker process died by a signal or an exit of its own.
        Crash = "crash",
        /// A deadline outside the worker ran out.
        Timeout = "timeout",
        /// Host or device memory ran out, with evidence of which.
        Oom = "oom",
        /// Not executed, for a reason from the closed list [`SkipReason`].
        Skipped = "skipped",
        /// Download failed, device busy, disk full, reference failed: nothing learnt about the
        /// backend.
        Infra = "infra",
        /// `tpu-sim` only: its host cannot execute what a TPU could.
        HostLimit = "host-limit",
    }
}

impl Outcome {
    /// Whether the attempt says anything about the backend under test. What does not stays out
    /// of pass rates and counts against completeness.
    #[must_use]
    pub const fn is_conclusive(self) -> bool {
        match self {
            Self::Pass
            | Self::Mismatch
            | Self::Error
            | Self::Unsupported
            | Self::Fallback
            | Self::Crash
            | Self::Timeout
            | Self::Oom => true,
            Self::Skipped | Self::Infra | Self::HostLimit => false,
        }
    }

    /// Of two inconclusive outcomes of one case, the one that says more of it: `infra` says nothing,
    /// and does not hide what another attempt found out. Else the worse.
    #[must_use]
    pub const fn more_telling(self, other: Self) -> Self {
        match (self, other) {
            (Self::Infra, other) => other,
            (this, Self::Infra) => this,
            (this, other) if other.severity() > this.severity() => other,
            (this, _) => this,
        }
    }

    /// Whether the worker process that produced it can no longer be trusted with another case.
    #[must_use]
    pub const fn spoils_the_worker(self) -> bool {
        match self {
            Self::Crash | Self::Timeout | Self::Oom => true,
            Self::Pass
            | Self::Mismatch
            | Self::Error
            | Self::Unsupported
            | Self::Fallback
            | Self::Skipped
            | Self::Infra
            | Self::HostLimit => false,
        }
    }

    /// How bad it is, for the worst of several: the larger, the worse.
    #[must_use]
    pub const fn severity(self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Skipped => 1,
            Self::HostLimit => 2,
            Self::Infra => 3,
            Self::Unsupported => 4,
            Self::Fallback => 5,
            Self::Error => 6,
            Self::Mismatch => 7,
            Self::Oom => 8,
            Self::Timeout => 9,
            Self::Crash => 10,
        }
    }
}

words! {
    /// Where an attempt stopped. Present on everything that is not a pass.
    Stage as "stage" {
        /// Loading torch, the backend or the model library.
        Import = "import",
        /// Building the model or the operator's inputs.
        Build = "build",
        /// Computing the reference.
        Reference = "reference",
        /// Moving inputs or parameters to the device, or outputs back.
        Transfer = "transfer",
        /// Capturing the graph.
        Trace = "trace",
        /// Lowering the graph to the backend's program.
        Lower = "lower",
        /// Compiling the program.
        Compile = "compile",
        /// Executing it.
        Execute = "execute",
        /// Comparing actual with expected.
        Compare = "compare",
        /// Leaving: destructors, process exit.
        Teardown = "teardown",
    }
}

words! {
    /// Why a case was not executed. The list is closed: a free-text reason hides what it skips.
    SkipReason as "skip reason" {
        /// The device has too little memory for it.
        NotEnoughMemory = "not-enough-memory",
        /// The operator or model does not take this dtype, on any device.
        DtypeNotApplicable = "dtype-not-applicable",
        /// The backend documents that it will not support it.
        ByDesign = "by-design",
        /// Keeps crashing hosts; a waiver names the issue.
        Quarantined = "quarantined",
        /// A Python package that it needs is not installed.
        DependencyMissing = "dependency-missing",
        /// The run's time budget did not reach it.
        OverBudget = "over-budget",
        /// An imported report says so; its message may say why.
        Reported = "reported",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read_back_as_itself() {
        for outcome in Outcome::ALL {
            assert_eq!(outcome.as_str().parse::<Outcome>().unwrap(), *outcome);
        }
        for stage in Stage::ALL {
            assert_eq!(stage.as_str().parse::<Stage>().unwrap(), *stage);
        }
        for reason in SkipReason::ALL {
            assert_eq!(reason.as_str().parse::<SkipReason>().unwrap(), *reason);
        }
    }

    #[test]
    fn an_unknown_word_names_itself_and_the_choices() {
        let error = "passed".parse::<Outcome>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown outcome `passed`: it must be one of pass, mismatch, error, unsupported, \
             fallback, crash, timeout, oom, skipped, infra, host-limit"
        );
    }

    #[test]
    fn only_a_pass_is_the_best() {
        for outcome in Outcome::ALL {
            assert_eq!(outcome.severity() == 0, *outcome == Outcome::Pass);
        }
    }
}
