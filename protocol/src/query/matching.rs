//! A query held against a case.

use std::borrow::Cow;

use super::{Field, Term};
use crate::{CaseKey, Suite};

/// What a query is matched against.
pub trait Queried {
    /// Values of a field; none where the case has no such thing. Most have one; an operator case
    /// answers for its entry and for the overload that it names.
    fn values(&self, field: Field) -> Vec<Cow<'_, str>>;
}

impl Queried for CaseKey {
    fn values(&self, field: Field) -> Vec<Cow<'_, str>> {
        let variant = self.variant();
        let subject = || self.subject_base();
        let is_operator = self.suite() == Suite::Operators;
        let is_model = !is_operator && !self.suite().is_imported();
        let value: Option<Cow<'_, str>> = match field {
            Field::Case => Some(self.as_str().into()),
            Field::Suite => Some(self.suite().to_string().into()),
            Field::Operator => {
                is_operator.then(|| subject().strip_prefix("opinfo:").unwrap_or(subject()).into())
            }
            Field::Model => is_model.then(|| self.subject().into()),
            Field::Dtype => variant.map(|variant| variant.dtype.as_str().into()),
            Field::Mode => variant.map(|variant| variant.mode.as_str().into()),
            Field::Direction => variant.map(|variant| variant.direction.as_str().into()),
            Field::Layout => {
                variant.map(|variant| variant.layout.unwrap_or_else(|| "plain".to_owned()).into())
            }
            Field::Outcome | Field::Verdict | Field::Stage | Field::Error | Field::Message => None,
        };
        value.into_iter().collect()
    }
}

/// How a pattern is held against a value: here, and where a database does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// It stands somewhere in the value, in small letters or capitals.
    Within,
    /// It names the operator, with or without `aten::`, or the operator of an overload.
    Overloads,
    /// `*` and `?` included, it covers the whole value.
    Whole,
}

impl Field {
    /// Long texts are searched, short ones are compared whole, and so is whatever has wildcards.
    #[must_use]
    pub fn manner(self, pattern: &str) -> Manner {
        match self {
            _ if pattern.contains(['*', '?']) => Manner::Whole,
            Self::Case | Self::Model | Self::Message | Self::Error => Manner::Within,
            Self::Operator => Manner::Overloads,
            Self::Suite
            | Self::Dtype
            | Self::Mode
            | Self::Direction
            | Self::Layout
            | Self::Outcome
            | Self::Verdict
            | Self::Stage => Manner::Whole,
        }
    }
}

impl Term {
    pub(super) fn matches(&self, case: &impl Queried) -> bool {
        let values = case.values(self.field);
        let is_one = |value: &Cow<'_, str>| self.alternatives.iter().any(|p| self.fits(p, value));
        values.iter().any(is_one) != self.negated
    }

    fn fits(&self, pattern: &str, value: &str) -> bool {
        match self.field.manner(pattern) {
            Manner::Within => value.to_lowercase().contains(&pattern.to_lowercase()),
            Manner::Overloads => {
                value == pattern
                    || value.strip_prefix(pattern).is_some_and(|rest| rest.starts_with('.'))
                    || value.strip_prefix("aten::").is_some_and(|bare| bare == pattern)
            }
            Manner::Whole => wildcard(pattern, value),
        }
    }
}

/// Whether a pattern with `*` (any characters) and `?` (one) covers the whole text, in time
/// proportional to the product of their lengths whatever the pattern.
#[must_use]
pub fn wildcard(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        if p < pattern.len() && pattern[p] == '*' {
            retry = Some((p, t));
            p += 1;
        } else if p < pattern.len() && (pattern[p] == '?' || pattern[p] == text[t]) {
            p += 1;
            t += 1;
        } else if let Some((star, from)) = retry {
            retry = Some((star, from + 1));
            p = star + 1;
            t = from + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::super::Query;
    use super::*;

    fn key(text: &str) -> CaseKey {
        text.parse().unwrap()
    }

    fn found(query: &str, case: &str) -> bool {
        Query::parse(query).unwrap().matches(&key(case))
    }

    const ADD: &str = "operators/opinfo:add#0/bfloat16.eager.forward";
    const NORM: &str = "operators/opinfo:linalg.norm.subgradients#2/float32.compile.train";
    const LLAMA: &str = "tier1/transformers:LlamaForCausalLM#tiny/float32.compile.forward";

    #[test]
    fn every_field_of_a_planned_case_can_be_asked_for() {
        for (query, case, expected) in [
            ("", ADD, true),
            ("op:add dtype:bf16 mode:eager", ADD, true),
            ("op:add dtype:fp32", ADD, false),
            ("op:ad", ADD, false),
            ("op:ad*", ADD, true),
            ("op:linalg.norm", NORM, true),
            ("op:add", LLAMA, false),
            ("model:llama", LLAMA, true),
            ("model:llama", ADD, false),
            ("suite:tier1,tier2", LLAMA, true),
            ("suite:!tier1", LLAMA, false),
            ("suite:!tier1", ADD, true),
            ("dtype:float16,bfloat16", ADD, true),
            ("direction:train layout:plain", NORM, true),
            ("layout:!plain", NORM, false),
            ("opinfo:add", ADD, true),
            ("transformers:Llama", LLAMA, true),
            ("*norm*train", NORM, true),
            ("!softmax", ADD, true),
            ("LLAMA", LLAMA, true),
        ] {
            assert_eq!(found(query, case), expected, "{query:?} on {case}");
        }
    }

    #[test]
    fn what_only_an_executed_case_has_is_matched_there() {
        struct Executed;
        impl Queried for Executed {
            fn values(&self, field: Field) -> Vec<Cow<'_, str>> {
                match field {
                    Field::Operator => vec!["add".into(), "aten::add.Tensor".into()],
                    Field::Outcome => vec!["unsupported".into()],
                    Field::Verdict => vec!["unexpected pass".into()],
                    Field::Message => vec!["operator 'x' is not implemented for TPU".into()],
                    Field::Case
                    | Field::Suite
                    | Field::Model
                    | Field::Dtype
                    | Field::Mode
                    | Field::Direction
                    | Field::Layout
                    | Field::Stage
                    | Field::Error => Vec::new(),
                }
            }
        }
        for (query, expected) in [
            ("op:aten.add outcome:!pass", true),
            ("op:aten.add.Tensor", true),
            ("op:aten::add", true),
            ("op:aten.ad", false),
            ("op:aten.sub", false),
            ("verdict:unexpected-pass", true),
            ("verdict:\"unexpected pass\"", true),
            ("message:\"not implemented\"", true),
            ("error:RuntimeError", false),
            ("error:!RuntimeError", true),
        ] {
            assert_eq!(Query::parse(query).unwrap().matches(&Executed), expected, "{query}");
        }
    }

    #[test]
    fn wildcards_cover_the_whole_text_and_never_explode() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abbcd", false),
            ("?", "é", true),
            ("*a*b*c*", "xaxbxcx", true),
            ("", "a", false),
        ] {
            assert_eq!(wildcard(pattern, text), expected, "{pattern} on {text}");
        }
        assert!(!wildcard(&"*a".repeat(500), &"a".repeat(400)));
    }
}
