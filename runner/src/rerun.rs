//! Which cases of an earlier run are executed again, and their plan when only keys are known.
//!
//! Pure: how a case ended comes in as a [`CaseResult`], from a journal or from a server.

use std::collections::{BTreeMap, HashMap};

use protocol::worker_link::OperatorCase;
use protocol::{CaseKey, Outcome, RunKey, Suite, Verdict};

use crate::Error;
use crate::dynamic_form::DynamicForm;
use crate::event::CaseResult;
use crate::operator_key::operator_case;
use crate::plan::{Axes, CHECKPOINT, PlannedCase, PlannedModel, plan_cases};

/// What `--only` chooses by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Only {
    /// No attempt passed, and it was not skipped either.
    Failed,
    /// Some attempts passed and some did not.
    Flaky,
    /// There was no attempt.
    Missing,
    /// The worst attempt ended so.
    Outcome(Outcome),
}

impl Only {
    /// Whether a case that came out so is chosen.
    #[must_use]
    pub fn fits(self, result: Option<CaseResult>) -> bool {
        match (self, result) {
            (Self::Missing, result) => result.is_none(),
            (Self::Flaky, Some(CaseResult::Flaky(_))) => true,
            (Self::Failed, Some(CaseResult::Steady(outcome))) => {
                !matches!(outcome, Outcome::Pass | Outcome::Skipped)
            }
            (Self::Outcome(asked), Some(CaseResult::Steady(worst) | CaseResult::Flaky(worst))) => {
                asked == worst
            }
            (Self::Failed, Some(CaseResult::Flaky(_)) | None)
            | (Self::Flaky, Some(CaseResult::Steady(_)) | None)
            | (Self::Outcome(_), None) => false,
        }
    }
}

impl std::fmt::Display for Only {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Failed => f.write_str("failed"),
            Self::Flaky => f.write_str("flaky"),
            Self::Missing => f.write_str("missing"),
            Self::Outcome(outcome) => write!(f, "{outcome}"),
        }
    }
}

impl std::str::FromStr for Only {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "failed" => Ok(Self::Failed),
            "flaky" => Ok(Self::Flaky),
            "missing" => Ok(Self::Missing),
            outcome => {
                outcome.parse().map(Self::Outcome).map_err(|error: protocol::UnknownWord| {
                    format!("must be one of failed, flaky, missing, {}", error.allowed)
                })
            }
        }
    }
}

/// How a case came out, from what a server says of it.
#[must_use]
pub fn result_of(verdict: Verdict, outcome: Option<Outcome>) -> Option<CaseResult> {
    let wrap = if verdict == Verdict::Flaky { CaseResult::Flaky } else { CaseResult::Steady };
    outcome.map(wrap)
}

/// Keeps the cases that fit one of the words, in order; none is an error that says what there is.
pub fn choose<C>(
    run: &str,
    cases: Vec<(C, Option<CaseResult>)>,
    only: &[Only],
) -> Result<Vec<C>, Error> {
    let mut there: BTreeMap<String, usize> = BTreeMap::new();
    for (_, result) in &cases {
        *there.entry(describe(*result)).or_default() += 1;
    }
    let fits = |result| only.iter().any(|only| only.fits(result));
    let chosen: Vec<C> =
        cases.into_iter().filter(|(_, result)| fits(*result)).map(|(case, _)| case).collect();
    if !chosen.is_empty() {
        return Ok(chosen);
    }
    let only: Vec<String> = only.iter().map(Only::to_string).collect();
    let there: Vec<String> = there.iter().map(|(word, count)| format!("{count} {word}")).collect();
    let there = if there.is_empty() { "it has no case".to_owned() } else { there.join(", ") };
    Err(Error::NothingSelected {
        message: format!("no case of run `{run}` is `{}`: {there}", only.join(",")),
        hint: "`--only` takes failed, flaky, missing and every outcome, as `--only crash,timeout`"
            .to_owned(),
    })
}

fn describe(result: Option<CaseResult>) -> String {
    match result {
        None => "missing".to_owned(),
        Some(CaseResult::Steady(outcome)) => outcome.to_string(),
        Some(CaseResult::Flaky(worst)) => format!("flaky ({worst})"),
    }
}

/// The server and the run of an address such as `https://host/runs/KEY`; nothing for a text that
/// is no address.
pub fn parse_address(text: &str) -> Result<Option<(String, RunKey)>, Error> {
    if !text.contains("://") {
        return Ok(None);
    }
    let wrong = |problem: &str| Error::Usage {
        message: format!("`{text}` is no address of a run: {problem}"),
        hint: "an address reads `https://host/runs/KEY`, as a run's page has it".to_owned(),
    };
    let path = text.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
    let (base, key) = path.rsplit_once("/runs/").ok_or_else(|| wrong("it has no `/runs/KEY`"))?;
    let key = key.parse::<RunKey>().map_err(|error| wrong(&error.to_string()))?;
    let base = base.strip_suffix("/api/v1").unwrap_or(base);
    Ok(Some((base.to_owned(), key)))
}

/// Plans exactly these cases by the rules of every plan: operators by their keys alone, models by
/// their lists.
pub fn plan_keys(keys: &[CaseKey], models: &[PlannedModel]) -> Result<Vec<PlannedCase>, Error> {
    let mut axes = Axes {
        suites: vec![],
        modes: vec![],
        dtypes: vec![],
        directions: vec![],
        dynamic_forms: vec![],
        checkpoints: false,
    };
    for key in keys {
        let Some(variant) = key.variant() else { return Err(unplannable(key)) };
        add(&mut axes.suites, key.suite());
        add(&mut axes.modes, variant.mode);
        add(&mut axes.dtypes, variant.dtype);
        add(&mut axes.directions, variant.direction);
        add(&mut axes.dynamic_forms, DynamicForm::of(variant.layout.as_deref()));
        axes.checkpoints |= variant.layout.as_deref() == Some(CHECKPOINT);
    }
    let operators: Vec<OperatorCase> = keys.iter().filter_map(operator_case).collect();
    let planned = plan_cases(&axes, &operators, models)?;
    let mut planned: HashMap<CaseKey, PlannedCase> =
        planned.into_iter().map(|case| (case.key.clone(), case)).collect();
    keys.iter().map(|key| planned.remove(key).ok_or_else(|| unplannable(key))).collect()
}

fn add<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}

fn unplannable(key: &CaseKey) -> Error {
    if key.suite().is_imported() {
        return Error::Input {
            message: format!("`{key}` was imported from somebody else's report"),
            hint: "run it where it came from, and import the new report".to_owned(),
        };
    }
    if key.suite() == Suite::Operators {
        return Error::Input {
            message: format!("this runner plans no case `{key}`"),
            hint: "the run was made by another version: use the runner of that version".to_owned(),
        };
    }
    Error::Input {
        message: format!("no model list has the case `{key}`"),
        hint: "a server keeps no model lists: name those of the run with `--model-list FILE`, or \
               choose other cases with `--only`"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use protocol::worker_link::{ModelSpec, Task};

    use super::*;

    #[test]
    fn words_choose_by_how_a_case_came_out() {
        use CaseResult::{Flaky, Steady};
        use Outcome::{Crash, HostLimit, Mismatch, Pass, Skipped};
        for (word, chosen) in [
            ("failed", vec![Some(Steady(Crash)), Some(Steady(Mismatch)), Some(Steady(HostLimit))]),
            ("flaky", vec![Some(Flaky(Crash))]),
            ("missing", vec![None]),
            ("crash", vec![Some(Steady(Crash)), Some(Flaky(Crash))]),
            ("pass", vec![Some(Steady(Pass))]),
            ("skipped", vec![Some(Steady(Skipped))]),
            ("timeout", vec![]),
        ] {
            let all = [
                Some(Steady(Crash)),
                Some(Steady(Mismatch)),
                Some(Steady(HostLimit)),
                Some(Flaky(Crash)),
                None,
                Some(Steady(Pass)),
                Some(Steady(Skipped)),
            ];
            let only: Only = word.parse().unwrap();
            let found: Vec<_> = all.into_iter().filter(|result| only.fits(*result)).collect();
            assert_eq!(found, chosen, "{word}");
            assert_eq!(only.to_string(), word);
        }
        assert!("passed".parse::<Only>().unwrap_err().contains("failed, flaky, missing, pass"));
    }

    #[test]
    fn none_that_fits_says_what_there_is() {
        let pass = Some(CaseResult::Steady(Outcome::Pass));
        let error = choose("r", vec![(1, pass), (2, pass)], &[Only::Failed]).unwrap_err();
        assert_eq!(error.exit(), crate::exit::Exit::NothingSelected);
        assert_eq!(error.to_string(), "no case of run `r` is `failed`: 2 pass");
    }

    #[test]
    fn a_servers_words_are_a_result() {
        let flaky = result_of(Verdict::Flaky, Some(Outcome::Crash));
        assert_eq!(flaky, Some(CaseResult::Flaky(Outcome::Crash)));
        let waived = result_of(Verdict::Waived, Some(Outcome::Crash));
        assert_eq!(waived, Some(CaseResult::Steady(Outcome::Crash)));
        assert_eq!(result_of(Verdict::Missing, None), None);
    }

    #[test]
    fn an_address_names_server_and_run() {
        let read = |text: &str| {
            parse_address(text).unwrap().map(|(base, key)| (base, key.as_str().to_owned()))
        };
        let at = |base: &str| Some((base.to_owned(), "r-1".to_owned()));
        assert_eq!(read("https://h/runs/r-1"), at("https://h"));
        assert_eq!(read("http://h:1/c/runs/r-1/?tab=x#y"), at("http://h:1/c"));
        assert_eq!(read("http://h:1/api/v1/runs/r-1"), at("http://h:1"));
        assert_eq!(read("runs/r-1"), None);
        for bad in ["https://h/", "https://h/runs/", "https://h/runs/a/b"] {
            let error = parse_address(bad).unwrap_err();
            assert_eq!(error.exit(), crate::exit::Exit::Usage, "{bad}");
        }
    }

    fn keys(texts: &[&str]) -> Vec<CaseKey> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn model() -> PlannedModel {
        PlannedModel {
            spec: ModelSpec {
                source: "timm".to_owned(),
                id: "a/b".to_owned(),
                revision: None,
                checkpoint: None,
                size: "tiny".to_owned(),
                overrides: serde_json::Map::new(),
                batch: 3,
                sequence: 4,
            },
            dimensions: vec![],
            dtypes: vec![],
            tolerance_class: None,
            rule: None,
            graph: None,
            popularity: None,
            skip: None,
        }
    }

    #[test]
    fn keys_are_planned_again_in_their_order_and_nothing_else_is() {
        let keys = keys(&[
            "tier2/timm:a/b#tiny/bfloat16.compile.forward",
            "operators/opinfo:nn.functional.relu#12/float32.eager.train",
            "operators/opinfo:add#0/int64.compile.forward",
        ]);
        let planned = plan_keys(&keys, &[model()]).unwrap();
        assert_eq!(planned.iter().map(|case| case.key.clone()).collect::<Vec<_>>(), keys);
        assert_eq!(planned[0].task, Task::Model { model: model().spec, compare: true });
        let entry = "nn.functional.relu".to_owned();
        assert_eq!(planned[1].task, Task::Operator { entry, sample: 12, error_input: false });
    }

    #[test]
    fn a_key_that_cannot_be_planned_is_named() {
        for (key, part) in [
            ("tier2/timm:a/c#tiny/bfloat16.compile.forward", "--model-list"),
            ("operators/other:add#0/float32.eager.forward", "another version"),
            ("operators/opinfo:add#x/float32.eager.forward", "another version"),
        ] {
            let error = plan_keys(&keys(&[key]), &[model()]).unwrap_err();
            assert!(error.to_string().contains(key), "{error}");
            assert!(error.hint().contains(part), "{}", error.hint());
        }
    }
}
