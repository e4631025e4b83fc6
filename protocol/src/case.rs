//! The identity of a case: suite / subject / variant.
//!
//! A [`CaseKey`] is stable text, opaque to everyone but the planner that made it. Device kind,
//! topology and versions belong to the run and not to the key, so that the same case compares
//! across devices and nights.

use serde::{Deserialize, Serialize};

use crate::{Integration, Suite};

words! {
    /// How the backend is asked to execute.
    Mode as "mode" {
        /// The backend's default eager mode, which may defer and fuse.
        Eager = "eager",
        /// One operator at a time, launch blocking.
        Strict = "strict",
        /// `torch.compile` with the backend's own compiler.
        Compile = "compile",
    }
}

words! {
    /// How far a case goes.
    Direction as "direction" {
        /// Forward only.
        Forward = "forward",
        /// Forward and backward; for a model also one optimiser step.
        Train = "train",
    }
}

words! {
    /// How an operator is called, or which of its inputs it is called with: what a run of the
    /// operator suite chooses from.
    Form as "form" {
        /// The function itself, on its inputs as they are.
        Function = "function",
        /// With the result written to a tensor given as `out=`.
        Out = "out",
        /// In place.
        Inplace = "inplace",
        /// With every input at a step of two in memory.
        Noncontiguous = "noncontiguous",
        /// With the last two dimensions of every input swapped in memory.
        Transposed = "transposed",
        /// With the first row of every floating input in place of all its rows, at a step of zero.
        Expanded = "expanded",
        /// The function on its samples that have an input without elements.
        Empty = "empty",
        /// The function on its samples that have an input of no dimensions.
        ZeroDim = "zero-dim",
        /// Modules of `torch.nn`.
        Module = "module",
        /// Inputs that must be refused.
        ErrorInputs = "error-inputs",
    }
}

words! {
    /// Element types a case can be executed in; the names are PyTorch's.
    Dtype as "dtype" {
        Float64 = "float64",
        Float32 = "float32",
        Bfloat16 = "bfloat16",
        Float16 = "float16",
        Float8E4m3fn = "float8_e4m3fn",
        Float8E5m2 = "float8_e5m2",
        Complex64 = "complex64",
        Complex128 = "complex128",
        Int64 = "int64",
        Int32 = "int32",
        Int16 = "int16",
        Int8 = "int8",
        Uint8 = "uint8",
        Bool = "bool",
    }
}

/// The part of a case key that says how the subject is executed.
///
/// Text form: dtype, mode, direction, joined by `.`, and `.layout` where the layout is not the
/// plain one: `float32.eager.forward`, `float32.eager.forward.noncontiguous`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Variant {
    /// Element type of the floating-point (or only) inputs.
    pub dtype: Dtype,
    /// Eager, strict or compile.
    pub mode: Mode,
    /// Forward or train.
    pub direction: Direction,
    /// Form or memory layout where it matters (`out`, `inplace`, `noncontiguous`): `a-z0-9_`.
    pub layout: Option<String>,
}

impl std::fmt::Display for Variant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.dtype, self.mode, self.direction)?;
        self.layout.as_ref().map_or(Ok(()), |layout| write!(f, ".{layout}"))
    }
}

/// Names one case, for ever: `suite/subject/variant`, and `suite/subject` for an imported one, of
/// which nobody says how it was executed.
///
/// The subject may itself contain `/` (hub ids do), the suite and the variant cannot. Examples:
/// `operators/opinfo:nn.functional.relu#3/float32.eager.forward` (entry and sample number),
/// `operators/opinfo:add#error0/float32.eager.forward` (inputs that must be refused),
/// `operators/module:nn.Conv2d#0/float32.eager.train`,
/// `tier1/timm:resnet18#tiny/float32.compile.forward` (source, id and size; a pinned hub model
/// has `@revision` before the `#`), `junit:vllm/tests.test_engine::test_abort[8]` (class and name
/// in the report). In URLs it is percent-encoded.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct CaseKey(String);

/// Why a text is not a [`CaseKey`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a case key: {problem}")]
pub struct InvalidCaseKey {
    text: String,
    problem: String,
}

/// Longest case key that is accepted, in bytes.
pub const MAX_CASE_KEY_BYTES: usize = 512;

impl CaseKey {
    /// Builds the key from its parts; fails if the subject cannot be part of a key.
    pub fn new(suite: Suite, subject: &str, variant: &Variant) -> Result<Self, InvalidCaseKey> {
        format!("{suite}/{subject}/{variant}").parse()
    }

    /// The text form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The suite.
    #[must_use]
    pub fn suite(&self) -> Suite {
        let (suite, _) = self.0.split_once('/').expect("a key has been parsed");
        suite.parse().expect("a key has been parsed")
    }

    /// The subject: an operator entry with its sample, or a model with its size.
    #[must_use]
    pub fn subject(&self) -> &str {
        let (_, rest) = self.0.split_once('/').expect("a key has been parsed");
        if self.suite().is_imported() {
            return rest;
        }
        let (subject, _) = rest.rsplit_once('/').expect("a key has been parsed");
        subject
    }

    /// The subject without the sample number or size: what a dashboard has one page for.
    #[must_use]
    pub fn subject_base(&self) -> &str {
        let subject = self.subject();
        if self.suite().is_imported() {
            // A `#` in the name of somebody else's test means nothing to us.
            return subject;
        }
        subject.rsplit_once('#').map_or(subject, |(base, _)| base)
    }

    /// The variant; none of an imported case.
    #[must_use]
    pub fn variant(&self) -> Option<Variant> {
        if self.suite().is_imported() {
            return None;
        }
        let (_, text) = self.0.rsplit_once('/').expect("a key has been parsed");
        Some(parse_variant(text).expect("a key has been parsed"))
    }

    /// The variant of a case that a runner planned.
    ///
    /// # Panics
    /// Panics for an imported case, which no runner plans.
    #[must_use]
    pub fn planned_variant(&self) -> Variant {
        self.variant().expect("no runner plans an imported case")
    }

    /// The key of an imported case, from the class and the name in its report. What a key cannot
    /// hold is replaced, and then a hash of the whole keeps two of them apart.
    #[must_use]
    pub fn imported(integration: Integration, class: &str, name: &str, hash: &str) -> Self {
        let suite = Suite::Imported(integration);
        let whole = if class.is_empty() { name.to_owned() } else { format!("{class}::{name}") };
        let replaced: String =
            whole.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
        let room = MAX_CASE_KEY_BYTES - suite.as_str().len() - 1;
        if replaced == whole && !whole.is_empty() && whole.len() <= room {
            return Self(format!("{suite}/{whole}"));
        }
        let mark = format!("…{hash}");
        let mut end = replaced.len().min(room - mark.len());
        while !replaced.is_char_boundary(end) {
            end -= 1;
        }
        Self(format!("{suite}/{}{mark}", &replaced[..end]))
    }
}

impl std::fmt::Display for CaseKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.0)
    }
}

impl std::str::FromStr for CaseKey {
    type Err = InvalidCaseKey;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fail = |problem: &str| InvalidCaseKey {
            text: text.chars().take(120).collect(),
            problem: problem.to_owned(),
        };
        if text.len() > MAX_CASE_KEY_BYTES {
            return Err(fail("longer than 512 bytes"));
        }
        if text.chars().any(char::is_control) {
            return Err(fail("it contains a control character"));
        }
        let shape = "it must read `suite/subject/variant`";
        let (suite, rest) = text.split_once('/').ok_or_else(|| fail(shape))?;
        let suite = suite.parse::<Suite>();
        if suite.as_ref().is_ok_and(|suite| suite.is_imported()) && !rest.is_empty() {
            return Ok(Self(text.to_owned()));
        }
        let (subject, variant) = rest.rsplit_once('/').ok_or_else(|| fail(shape))?;
        suite.map_err(|e| fail(&e.to_string()))?;
        if subject.is_empty() {
            return Err(fail("the subject is empty"));
        }
        parse_variant(variant).map_err(|problem| fail(&problem))?;
        Ok(Self(text.to_owned()))
    }
}

fn parse_variant(text: &str) -> Result<Variant, String> {
    let mut words = text.split('.');
    let mut next = |noun: &str| words.next().ok_or_else(|| format!("the variant lacks its {noun}"));
    let dtype = next("dtype")?.parse::<Dtype>().map_err(|e| e.to_string())?;
    let mode = next("mode")?.parse::<Mode>().map_err(|e| e.to_string())?;
    let direction = next("direction")?.parse::<Direction>().map_err(|e| e.to_string())?;
    let layout = words.next().map(str::to_owned);
    let is_word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    if let Some(layout) = &layout
        && (layout.is_empty() || !layout.bytes().all(is_word))
    {
        return Err(format!("`{layout}` is not a layout"));
    }
    if words.next().is_some() {
        return Err("the variant has too many words".to_owned());
    }
    Ok(Variant { dtype, mode, direction, layout })
}

impl std::str::FromStr for Variant {
    type Err = InvalidCaseKey;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_variant(text)
            .map_err(|problem| InvalidCaseKey { text: text.chars().take(120).collect(), problem })
    }
}

impl<'de> Deserialize<'de> for CaseKey {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl utoipa::PartialSchema for CaseKey {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::schema::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .description(Some("suite/subject/dtype.mode.direction[.layout], or junit:NAME/subject"))
            .examples(["operators/opinfo:add#0/float32.eager.forward"])
            .into()
    }
}

#[cfg(feature = "schema")]
impl utoipa::ToSchema for CaseKey {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_taken_apart_as_it_was_put_together() {
        for (suite, subject, base, layout) in [
            (Suite::Operators, "opinfo:nn.functional.relu#3", "opinfo:nn.functional.relu", None),
            (Suite::Operators, "opinfo:std.unbiased#0", "opinfo:std.unbiased", Some("out")),
            (Suite::Tier2, "hub:Qwen/Qwen3-0.6B@abc#tiny", "hub:Qwen/Qwen3-0.6B@abc", None),
        ] {
            let variant = Variant {
                dtype: Dtype::Bfloat16,
                mode: Mode::Compile,
                direction: Direction::Train,
                layout: layout.map(str::to_owned),
            };
            let key = CaseKey::new(suite, subject, &variant).unwrap();
            assert_eq!(key.as_str().parse::<CaseKey>().unwrap(), key);
            assert_eq!(key.suite(), suite);
            assert_eq!(key.subject(), subject);
            assert_eq!(key.subject_base(), base);
            assert_eq!(key.variant(), Some(variant));
        }
    }

    #[test]
    fn an_imported_case_has_no_variant() {
        let vllm = Integration::new("vllm").unwrap();
        let key = CaseKey::imported(vllm, "tests.a/b", "test_x[#1]", "00");
        assert_eq!(key.as_str(), "junit:vllm/tests.a/b::test_x[#1]");
        assert_eq!(key.as_str().parse::<CaseKey>().unwrap(), key);
        assert_eq!(key.subject(), "tests.a/b::test_x[#1]");
        assert_eq!(key.subject_base(), key.subject());
        assert_eq!(key.variant(), None);
        assert!("junit:vllm/".parse::<CaseKey>().is_err());
    }

    #[test]
    fn every_name_of_a_report_becomes_a_key() {
        let vllm = Integration::new("vllm").unwrap();
        let long = "é".repeat(400);
        for name in ["", "a\nb", "a\0", long.as_str()] {
            let key = CaseKey::imported(vllm, "", name, "0123abcd");
            assert!(key.as_str().len() <= MAX_CASE_KEY_BYTES, "{key}");
            assert!(key.as_str().ends_with("…0123abcd"), "{key}");
            assert_eq!(key.as_str().parse::<CaseKey>().unwrap(), key);
        }
    }

    #[test]
    fn every_parse_error_says_what_is_wrong() {
        for (text, problem) in [
            ("operators", "it must read `suite/subject/variant`"),
            ("operators/x", "it must read `suite/subject/variant`"),
            ("tier9/x/float32.eager.forward", "unknown suite `tier9`"),
            ("tier1//float32.eager.forward", "the subject is empty"),
            ("tier1/x/float31.eager.forward", "unknown dtype `float31`"),
            ("tier1/x/float32.lazy.forward", "unknown mode `lazy`"),
            ("tier1/x/float32.eager", "the variant lacks its direction"),
            ("tier1/x/float32.eager.back", "unknown direction `back`"),
            ("tier1/x/float32.eager.forward.A", "`A` is not a layout"),
            ("tier1/x/float32.eager.forward.a.b", "too many words"),
            ("tier1/x\n/float32.eager.forward", "control character"),
        ] {
            let error = text.parse::<CaseKey>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text:?} gave {error:?}");
        }
        let long = format!("tier1/{}/float32.eager.forward", "x".repeat(600));
        assert!(long.parse::<CaseKey>().unwrap_err().to_string().contains("512"));
    }
}
