//! Judgement on a case over all its attempts, its baseline and its waivers.
//!
//! Only the words are here; the rule that chooses among them is `server/src/judge/`.

words! {
    /// What the server says of one case of one run.
    Verdict as "verdict" {
        /// Every attempt passed.
        Passed = "passed",
        /// Passed, and the baseline had not.
        Fixed = "fixed",
        /// Did not pass, and neither had the baseline (or there is none).
        Failed = "failed",
        /// Did not pass, and the baseline had.
        Regressed = "regressed",
        /// Attempts of this run differ.
        Flaky = "flaky",
        /// Did not pass, and a valid waiver covers it.
        Waived = "waived",
        /// Passed although a waiver expected otherwise.
        UnexpectedPass = "unexpected pass",
        /// Skipped for a reason from the closed list.
        Skipped = "skipped",
        /// Attempted, but nothing was learnt about the backend (`infra`, `host-limit`).
        Inconclusive = "inconclusive",
        /// Planned, and no attempt has arrived.
        Missing = "missing",
    }
}

impl Verdict {
    /// Whether it may be shown green.
    #[must_use]
    pub const fn is_good(self) -> bool {
        match self {
            Self::Passed | Self::Fixed => true,
            Self::Failed
            | Self::Regressed
            | Self::Flaky
            | Self::Waived
            | Self::UnexpectedPass
            | Self::Skipped
            | Self::Inconclusive
            | Self::Missing => false,
        }
    }

    /// Whether something was learnt about the backend, so that it counts towards completeness.
    #[must_use]
    pub const fn is_judged(self) -> bool {
        match self {
            Self::Passed
            | Self::Fixed
            | Self::Failed
            | Self::Regressed
            | Self::Flaky
            | Self::Waived
            | Self::UnexpectedPass
            | Self::Skipped => true,
            Self::Inconclusive | Self::Missing => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read_back_as_itself() {
        for verdict in Verdict::ALL {
            assert_eq!(verdict.as_str().parse::<Verdict>().unwrap(), *verdict);
        }
    }

    #[test]
    fn what_was_not_judged_is_never_good() {
        for verdict in Verdict::ALL {
            assert!(!verdict.is_good() || verdict.is_judged());
        }
    }
}
