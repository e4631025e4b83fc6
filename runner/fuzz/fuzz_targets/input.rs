//! What the bytes of a fuzzer mean, and what must hold whatever they are. Also read by the test that
//! answers every kept input again.

use std::path::Path;
use std::sync::LazyLock;

use protocol::Comparison;
use protocol::worker_link::ToCompare;
use runner::compare::{CompareError, ToleranceTable, compare_outputs};

const RULES: [&str; 5] = ["close", "gpu-relative", "exact", "statistical", "metadata"];

static TABLE: LazyLock<ToleranceTable> = LazyLock::new(ToleranceTable::embedded);

/// One byte for the rule, twice two bytes for the lengths of the first two of three files, and these:
/// actual, expected, and the same in float64.
#[derive(Debug)]
pub(crate) struct Input<'a> {
    rule: &'static str,
    files: [&'a [u8]; 3],
}

impl<'a> Input<'a> {
    /// Nothing where there are fewer bytes than said.
    pub(crate) fn of(bytes: &'a [u8]) -> Option<Self> {
        let ([rule, lengths @ ..], bytes) = bytes.split_first_chunk::<5>()?;
        let length = |at: usize| usize::from(u16::from_le_bytes([lengths[at], lengths[at + 1]]));
        let (actual, bytes) = bytes.split_at_checked(length(0))?;
        let (expected, wide) = bytes.split_at_checked(length(2))?;
        let rule = RULES[usize::from(*rule) % RULES.len()];
        Some(Self { rule, files: [actual, expected, wide] })
    }

    /// Compares the files, which are written to `folder`.
    ///
    /// # Panics
    ///
    /// Where an answer contradicts itself.
    pub(crate) fn compare(&self, folder: &Path) -> Result<Comparison, CompareError> {
        let [actual, expected, wide] = ["actual", "expected", "wide"].map(|name| folder.join(name));
        for (path, bytes) in [&actual, &expected, &wide].into_iter().zip(self.files) {
            std::fs::write(path, bytes).expect("there is room");
        }
        let mut request = request(&actual, &expected, self.rule);
        request.wide = (self.rule == "gpu-relative").then(|| wide.display().to_string());
        let comparison = compare_outputs(&request, &TABLE)?;
        self.check(&comparison);
        Ok(comparison)
    }

    fn check(&self, comparison: &Comparison) {
        let text = serde_json::to_string(comparison).expect("an answer can be written");
        serde_json::from_str::<Comparison>(&text).expect("and read");
        for tensor in &comparison.tensors {
            let figures = &tensor.figures;
            assert!(figures.mismatched <= figures.elements, "{text}");
            assert!(figures.nonfinite_mismatched <= figures.mismatched, "{text}");
            assert!(tensor.held || !comparison.held, "{text}");
            if self.rule == "exact" && tensor.held {
                assert_eq!(figures.mismatched, 0, "{text}");
            }
        }
        if self.files[0] == self.files[1] && matches!(self.rule, "close" | "exact") {
            assert!(comparison.held, "the same bytes on both sides: {text}");
        }
    }
}

/// A question to the comparator about two files.
pub(crate) fn request(actual: &Path, expected: &Path, rule: &str) -> ToCompare {
    ToCompare {
        wide: None,
        flushed_dtypes: Vec::new(),
        addends: None,
        spread: None,
        label: String::new(),
        actual: actual.display().to_string(),
        expected: expected.display().to_string(),
        rule: rule.to_owned(),
        reference: "cpu float32".to_owned(),
        tolerance_class: "default".to_owned(),
    }
}
