//! A gate file: `gates/NAME.toml`, read and checked when the server starts.

use protocol::Suite;
use serde::{Deserialize, Deserializer};
use sha2::{Digest as _, Sha256};

/// One gate.
#[derive(Debug, Clone)]
pub struct GateFile {
    /// Stem of the file's name.
    pub name: String,
    /// For people.
    pub title: String,
    /// All of them must hold.
    pub rules: Vec<Rule>,
    /// SHA-256 of the file's text, which goes into every answer.
    pub sha256: [u8; 32],
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    title: String,
    rule: Vec<Rule>,
}

/// What one suite on one device profile must fulfil.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Names it in answers.
    pub name: String,
    /// Which cases it is about.
    #[serde(deserialize_with = "suite")]
    pub suite: Suite,
    /// Device profile. Without it any device counts that is not simulated; a simulated one
    /// counts only where it is named here.
    #[serde(default)]
    pub device: Option<String>,
    /// Least part of the planned cases that must be judged, 0 to 1; all when absent.
    #[serde(default = "all", deserialize_with = "fraction")]
    pub completeness_min: f64,
    /// Least number of planned cases: a shrunken plan must not pass.
    pub planned_min: u64,
    /// Least pass rate, 0 to 1.
    #[serde(default, deserialize_with = "optional_fraction")]
    pub pass_rate_min: Option<f64>,
    /// Most cases that fail and had passed in the baseline.
    #[serde(default)]
    pub new_fail_max: Option<u64>,
    /// Key of the run that `new_fail_max` compares with; each case's last known pass when absent.
    #[serde(default)]
    pub baseline: Option<String>,
    /// Most flaky cases.
    #[serde(default)]
    pub flaky_max: Option<u64>,
    /// Largest part of the planned cases of which nothing was learnt, 0 to 1.
    #[serde(default, deserialize_with = "optional_fraction")]
    pub infra_max: Option<f64>,
    /// Most hours since the run began.
    pub stale_hours: u64,
}

const fn all() -> f64 {
    1.0
}

fn suite<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Suite, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

fn fraction<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let value = f64::deserialize(deserializer)?;
    if (0.0..=1.0).contains(&value) {
        Ok(value)
    } else {
        Err(serde::de::Error::custom(format!("{value} is not a part from 0.0 to 1.0")))
    }
}

fn optional_fraction<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    fraction(deserializer).map(Some)
}

/// Why a text is not a gate file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{file}:{line}`: {problem}")]
pub struct GateFileError {
    file: String,
    line: usize,
    problem: String,
}

impl GateFile {
    /// Reads a gate from the text of `file`.
    pub fn parse(name: &str, file: &str, text: &str) -> Result<Self, GateFileError> {
        let fail = |line, problem: String| GateFileError { file: file.to_owned(), line, problem };
        let parsed: Text = toml::from_str(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            fail(line_of(text, start), error.message().trim().replace('\n', ", "))
        })?;
        if parsed.rule.is_empty() {
            return Err(fail(1, "a gate without a rule would always be open".to_owned()));
        }
        for (number, rule) in parsed.rule.iter().enumerate() {
            let line = line_of_rule(text, number);
            if rule.planned_min == 0 {
                let problem = format!("`planned_min` of `{}` is 0: nothing would pass", rule.name);
                return Err(fail(line, problem));
            }
            if rule.baseline.is_some() && rule.new_fail_max.is_none() {
                let problem =
                    format!("`baseline` of `{}` is used by `new_fail_max` only", rule.name);
                return Err(fail(line, problem));
            }
            if parsed.rule[..number].iter().any(|other| other.name == rule.name) {
                return Err(fail(line, format!("two rules are named `{}`", rule.name)));
            }
        }
        Ok(Self {
            name: name.to_owned(),
            title: parsed.title,
            rules: parsed.rule,
            sha256: Sha256::digest(text.as_bytes()).into(),
        })
    }
}

/// From 1.
fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|b| **b == b'\n').count() + 1
}

/// Line of the `number`th `[[rule]]`, from 0.
fn line_of_rule(text: &str, number: usize) -> usize {
    let heads =
        text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with("[[rule]]"));
    heads.map(|(line, _)| line + 1).nth(number).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "title = \"Nightly\"\n\n[[rule]]\nname = \"tier1\"\nsuite = \"tier1\"\n\
                        device = \"tpu\"\nplanned_min = 10\nstale_hours = 26\n";

    #[test]
    fn what_is_not_said_is_strict() {
        let gate = GateFile::parse("nightly", "gates/nightly.toml", GOOD).unwrap();
        assert_eq!(gate.rules[0].suite, Suite::Tier1);
        assert!((gate.rules[0].completeness_min - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn every_mistake_is_found_on_its_line() {
        for (mistake, line, problem) in [
            (GOOD.replace("planned_min = 10", "planned_min = 0"), 3, "is 0"),
            (GOOD.replace("\"tier1\"\ndev", "\"tier9\"\ndev"), 5, "unknown suite `tier9`"),
            (GOOD.replace("stale_hours", "stale_hour"), 8, "unknown field `stale_hour`"),
            (GOOD.replace("planned_min = 10\n", ""), 3, "missing field `planned_min`"),
            (format!("{GOOD}pass_rate_min = 97.1\n"), 9, "97.1 is not a part from 0.0 to 1.0"),
            (format!("{GOOD}infra_max = nan\n"), 9, "is not a part"),
            (format!("{GOOD}flaky_max = -1\n"), 9, "-1"),
            (format!("{GOOD}baseline = \"r1\"\n"), 3, "`new_fail_max` only"),
            (format!("{GOOD}{}", &GOOD[GOOD.find("[[").unwrap()..]), 9, "two rules are named"),
            ("title = \"x\"\nrule = []\n".to_owned(), 1, "always be open"),
            (format!("{GOOD}x ="), 9, ""),
        ] {
            let error = GateFile::parse("nightly", "gates/nightly.toml", &mistake).unwrap_err();
            let text = error.to_string();
            assert!(text.starts_with(&format!("`gates/nightly.toml:{line}`")), "{text}\n{mistake}");
            assert!(text.contains(problem), "{text}");
        }
    }
}
