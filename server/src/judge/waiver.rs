//! Whose leave covers a case today.
//!
//! A waiver forgives outcomes; it never changes them. One that names exactly one case also
//! expects that case to fail, so that a pass is reported and the waiver can go. A wide one (with
//! `*`, or bound to an operator) only forgives.

use chrono::NaiveDate;
use protocol::Outcome;

use super::verdict::{Leave, Observed};

/// A person's leave for a bad outcome to pass the gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiver {
    /// To name it by.
    pub id: i64,
    /// Case key in which `*` stands for any characters.
    pub case_pattern: String,
    /// Only failures blamed on this overload.
    pub operator: Option<String>,
    /// Only on this device profile.
    pub device_profile: Option<String>,
    /// Outcomes that it forgives.
    pub outcomes: Vec<Outcome>,
    /// First day (UTC) on which it no longer holds.
    pub expires_on: NaiveDate,
}

/// The case a waiver is asked about.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Full text of the case key.
    pub case: &'a str,
    /// Where it was executed.
    pub device_profile: &'a str,
    /// Overload to blame, when known.
    pub operator: Option<&'a str>,
}

impl Waiver {
    /// Whether it holds on that day. On its expiry date it no longer does.
    #[must_use]
    pub fn holds_on(&self, today: NaiveDate) -> bool {
        today < self.expires_on
    }

    fn is_exact(&self) -> bool {
        self.operator.is_none() && !self.case_pattern.contains('*')
    }

    fn covers(&self, subject: Subject<'_>) -> bool {
        self.device_profile.as_deref().is_none_or(|profile| profile == subject.device_profile)
            && self.operator.as_deref().is_none_or(|operator| Some(operator) == subject.operator)
            && matches_pattern(&self.case_pattern, subject.case)
    }
}

/// The leave for a case, and the waiver that gives it: the first that covers it.
#[must_use]
pub fn find_leave(
    waivers: &[Waiver],
    subject: Subject<'_>,
    observed: Observed,
    today: NaiveDate,
) -> (Leave, Option<i64>) {
    let Some(outcome) = observed.outcome() else { return (Leave::None, None) };
    for waiver in waivers.iter().filter(|waiver| waiver.holds_on(today)) {
        if !waiver.covers(subject) {
            continue;
        }
        if outcome == Outcome::Pass && waiver.is_exact() {
            return (Leave::Expected, Some(waiver.id));
        }
        if waiver.outcomes.contains(&outcome) {
            let leave = if waiver.is_exact() { Leave::Expected } else { Leave::Forgiven };
            return (leave, Some(waiver.id));
        }
    }
    (Leave::None, None)
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

#[cfg(test)]
mod tests {
    use super::*;

    const CASE: &str = "operators/opinfo:fft.rfft#0/float32.eager.forward";

    fn day(text: &str) -> NaiveDate {
        text.parse().unwrap()
    }

    fn waiver(pattern: &str) -> Waiver {
        Waiver {
            id: 7,
            case_pattern: pattern.to_owned(),
            operator: None,
            device_profile: None,
            outcomes: vec![Outcome::Unsupported],
            expires_on: day("2026-12-01"),
        }
    }

    fn subject(operator: Option<&'static str>) -> Subject<'static> {
        Subject { case: CASE, device_profile: "tpu", operator }
    }

    fn leave(waiver: &Waiver, outcome: Outcome, today: &str) -> Leave {
        let observed = super::super::verdict::observe([outcome]);
        find_leave(
            std::slice::from_ref(waiver),
            subject(Some("aten::_fft_r2c")),
            observed,
            day(today),
        )
        .0
    }

    #[test]
    fn it_ends_on_its_date_and_not_a_day_later() {
        let exact = waiver(CASE);
        assert_eq!(leave(&exact, Outcome::Unsupported, "2026-11-30"), Leave::Expected);
        assert_eq!(leave(&exact, Outcome::Unsupported, "2026-12-01"), Leave::None);
        assert_eq!(leave(&exact, Outcome::Unsupported, "2026-12-02"), Leave::None);
    }

    #[test]
    fn it_forgives_only_the_outcomes_it_names() {
        let wide = waiver("operators/opinfo:fft.*");
        for outcome in Outcome::ALL {
            let expected = match outcome {
                Outcome::Unsupported => Leave::Forgiven,
                Outcome::Pass
                | Outcome::Mismatch
                | Outcome::Error
                | Outcome::Fallback
                | Outcome::Crash
                | Outcome::Timeout
                | Outcome::Oom
                | Outcome::Skipped
                | Outcome::Infra
                | Outcome::HostLimit => Leave::None,
            };
            assert_eq!(leave(&wide, *outcome, "2026-11-30"), expected, "{outcome}");
        }
    }

    #[test]
    fn only_a_waiver_of_one_case_expects_it_to_fail() {
        assert_eq!(leave(&waiver(CASE), Outcome::Pass, "2026-11-30"), Leave::Expected);
        assert_eq!(leave(&waiver("operators/*"), Outcome::Pass, "2026-11-30"), Leave::None);
    }

    #[test]
    fn scope_narrows() {
        let mut other_device = waiver(CASE);
        other_device.device_profile = Some("cuda".to_owned());
        assert_eq!(leave(&other_device, Outcome::Unsupported, "2026-11-30"), Leave::None);
        let mut by_operator = waiver("*");
        by_operator.operator = Some("aten::_fft_r2c".to_owned());
        assert_eq!(leave(&by_operator, Outcome::Unsupported, "2026-11-30"), Leave::Forgiven);
        by_operator.operator = Some("aten::add.Tensor".to_owned());
        assert_eq!(leave(&by_operator, Outcome::Unsupported, "2026-11-30"), Leave::None);
    }

    #[test]
    fn patterns() {
        for (pattern, text, matches) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("*", "", true),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*a", "a", false),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "aXcYb", false),
            ("a**c", "abc", true),
            ("*b*", "abc", true),
            ("[a]", "a", false),
        ] {
            assert_eq!(matches_pattern(pattern, text), matches, "{pattern} {text}");
        }
    }
}
