//! Suites: the four that a runner executes, and those imported from somebody else's JUnit report.

use serde::{Deserialize, Serialize};

use crate::UnknownWord;

/// A named set of cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Suite {
    /// Every ATen overload, by the entries of PyTorch's operator database.
    Operators,
    /// A model builds, moves, runs and returns finite values.
    Tier1,
    /// A model's outputs agree with a GPU golden (or a reference computed now).
    Tier2,
    /// One compile serves a bounded range of sizes.
    Dynamism,
    /// The tests of an integration (vLLM, SGLang, …), executed elsewhere and imported from its
    /// JUnit report: `junit:vllm`.
    Imported(Integration),
}

/// What the name of an imported suite begins with, so that a slip in the name of one of ours is
/// never taken for an import.
const IMPORTED: &str = "junit:";
/// Longest name of an integration, in bytes.
const MAX_NAME_BYTES: usize = 32;

/// Whose tests an imported suite holds. Kept in place and not on the heap, because suites are
/// copied everywhere.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Integration {
    /// The whole name of the suite with its prefix, and zeros after it: so the order is that of
    /// the text.
    text: [u8; IMPORTED.len() + MAX_NAME_BYTES],
}

impl Integration {
    /// From its own name, as in `vllm`; none for what is no such name.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        let is_first = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let is_word = |b: u8| is_first(b) || matches!(b, b'-' | b'_' | b'.');
        let bytes = name.as_bytes();
        let fits = bytes.len() <= MAX_NAME_BYTES
            && bytes.first().is_some_and(|b| is_first(*b))
            && bytes.iter().all(|b| is_word(*b));
        if !fits {
            return None;
        }
        let mut text = [0; IMPORTED.len() + MAX_NAME_BYTES];
        text[..IMPORTED.len()].copy_from_slice(IMPORTED.as_bytes());
        text[IMPORTED.len()..IMPORTED.len() + bytes.len()].copy_from_slice(bytes);
        Some(Self { text })
    }

    /// Its own name, as in `vllm`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.suite_name()[IMPORTED.len()..]
    }

    fn suite_name(&self) -> &str {
        let length = self.text.iter().position(|b| *b == 0).unwrap_or(self.text.len());
        std::str::from_utf8(&self.text[..length]).expect("only ASCII is let in")
    }
}

impl std::fmt::Debug for Integration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.suite_name())
    }
}

impl Suite {
    /// Those that a runner executes, in the order in which they are shown. Imported ones are not
    /// among them.
    pub const ALL: &'static [Self] = &[Self::Operators, Self::Tier1, Self::Tier2, Self::Dynamism];

    /// Those whose subjects are models, in the same order.
    pub const MODELS: &'static [Self] = &[Self::Tier1, Self::Tier2, Self::Dynamism];

    /// The one text form, used on the wire, in the database and on pages.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Operators => "operators",
            Self::Tier1 => "tier1",
            Self::Tier2 => "tier2",
            Self::Dynamism => "dynamism",
            Self::Imported(integration) => integration.suite_name(),
        }
    }

    /// Whether its cases were executed elsewhere.
    #[must_use]
    pub const fn is_imported(self) -> bool {
        match self {
            Self::Imported(_) => true,
            Self::Operators | Self::Tier1 | Self::Tier2 | Self::Dynamism => false,
        }
    }
}

impl std::fmt::Display for Suite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl std::str::FromStr for Suite {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(suite) = Self::ALL.iter().find(|suite| suite.as_str() == text) {
            return Ok(*suite);
        }
        let imported = text.strip_prefix(IMPORTED).and_then(Integration::new);
        imported.map(Self::Imported).ok_or_else(|| UnknownWord {
            noun: "suite",
            text: text.chars().take(80).collect(),
            allowed: "operators, tier1, tier2, dynamism".to_owned(),
        })
    }
}

impl Serialize for Suite {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Suite {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl utoipa::PartialSchema for Suite {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::schema::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .pattern(Some("^(operators|tier1|tier2|dynamism|junit:[a-z0-9][a-z0-9._-]{0,31})$"))
            .description(Some("A suite of the runner, or one imported from a JUnit report"))
            .examples(["operators", "junit:vllm"])
            .into()
    }
}

#[cfg(feature = "schema")]
impl utoipa::ToSchema for Suite {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_suite_is_read_back_as_itself() {
        let long = format!("junit:{}", "x".repeat(32));
        let imported = ["junit:vllm", "junit:torch-titan_2.x", long.as_str()];
        let ours = Suite::ALL.iter().map(Suite::as_str);
        for text in ours.chain(imported) {
            let suite: Suite = text.parse().unwrap();
            assert_eq!(suite.as_str(), text);
            assert_eq!(suite.is_imported(), text.starts_with("junit:"));
            let json = serde_json::to_string(&suite).unwrap();
            assert_eq!(serde_json::from_str::<Suite>(&json).unwrap(), suite);
        }
    }

    #[test]
    fn no_slip_is_an_import() {
        let long = format!("junit:{}", "x".repeat(33));
        for text in ["vllm", "junit:", "junit:-x", "junit:vLLM", "junit:a/b", "tier9", "", &long] {
            let error = text.parse::<Suite>().unwrap_err().to_string();
            assert!(error.contains("operators, tier1"), "{text}: {error}");
        }
    }

    #[test]
    fn imports_come_after_ours_and_by_name() {
        let suite = |text: &str| text.parse::<Suite>().unwrap();
        let mut suites =
            [suite("junit:vllm"), suite("junit:ray"), suite("tier2"), suite("junit:v")];
        suites.sort();
        assert_eq!(suites.map(|s| s.to_string()), ["tier2", "junit:ray", "junit:v", "junit:vllm"]);
    }
}
