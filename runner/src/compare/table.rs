//! How close is close: the versioned table of tolerances per operator class and dtype.
//!
//! The table is a file in the repository, embedded in the binary. Its id is its version and the
//! beginning of its hash, and goes into every result: a changed tolerance cannot pass unseen.

use std::collections::BTreeMap;

use protocol::Tolerance;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::elements::{DataType, Kind};
use super::error::CompareError;
use super::relative::Limits;

const EMBEDDED: &str = include_str!("../../tolerances.toml");

protocol::words! {
    /// What kind of computation a result comes from, as far as its rounding goes.
    ToleranceClass as "tolerance class" {
        /// One rounding or a few.
        Default = "default",
        /// Sums of products.
        Matmul = "matmul",
        /// Sums, means, norms, cumulative operations.
        Reduction = "reduction",
        /// Functions that libraries approximate.
        Transcendental = "transcendental",
        /// A whole model.
        Model = "model",
    }
}

/// One row, as written.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    rtol: f64,
    atol: f64,
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: String,
    #[serde(default, rename = "gpu-relative")]
    relative: BTreeMap<String, Limits>,
    class: BTreeMap<ToleranceClass, BTreeMap<String, Row>>,
}

/// The table of tolerances.
#[derive(Debug, Clone)]
pub struct ToleranceTable {
    id: String,
    rows: BTreeMap<(ToleranceClass, String), Row>,
    relative: BTreeMap<String, Limits>,
}

/// Why a text is not a table of tolerances.
#[derive(Debug, thiserror::Error)]
#[error("the tolerance table is not valid: {0}")]
pub struct InvalidTable(String);

impl ToleranceTable {
    /// The table that belongs to this version of the runner.
    #[must_use]
    pub fn embedded() -> Self {
        Self::parse(EMBEDDED).expect("the embedded table is tested")
    }

    /// Reads a table. Every row must name a known dtype that is not exact anyway, and give two
    /// finite numbers that are not negative, and a reason.
    pub fn parse(text: &str) -> Result<Self, InvalidTable> {
        let file: File = toml::from_str(text).map_err(|error| InvalidTable(error.to_string()))?;
        let mut rows = BTreeMap::new();
        for (class, dtypes) in file.class {
            for (dtype, row) in dtypes {
                let place = format!("`{class}.{dtype}`");
                let data_type = DataType::from_name(&dtype)
                    .ok_or_else(|| InvalidTable(format!("{place} is not a dtype")))?;
                if data_type.element.kind() == Kind::Integer {
                    return Err(InvalidTable(format!("{place} compares exactly and has no row")));
                }
                let sane = |value: f64| value.is_finite() && value >= 0.0;
                if !sane(row.rtol) || !sane(row.atol) {
                    return Err(InvalidTable(format!("{place} is not a pair of tolerances")));
                }
                if row.reason.trim().is_empty() {
                    return Err(InvalidTable(format!("{place} has no reason")));
                }
                rows.insert((class, dtype), row);
            }
        }
        for (dtype, limits) in &file.relative {
            let place = format!("`gpu-relative.{dtype}`");
            let data_type = DataType::from_name(dtype)
                .ok_or_else(|| InvalidTable(format!("{place} is not a dtype")))?;
            if data_type.element.kind() == Kind::Integer {
                return Err(InvalidTable(format!("{place} compares exactly and has no row")));
            }
            limits.check().map_err(|problem| InvalidTable(format!("{place}: {problem}")))?;
        }
        let hash = hex::encode(Sha256::digest(text.as_bytes()));
        let id = format!("{}+{}", file.version, &hash[..12]);
        Ok(Self { id, rows, relative: file.relative })
    }

    /// The limits of `gpu-relative` for a dtype, by PyTorch's name; nothing where only what is
    /// close passes.
    #[must_use]
    pub fn relative(&self, dtype: &str) -> Option<&Limits> {
        self.relative.get(dtype)
    }

    /// `<version>+<first 12 hex digits of the SHA-256 of the file>`.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The tolerance of a dtype, by PyTorch's name, in a class. Integers and bool compare exactly
    /// in every class; a dtype without a row is an error and not a guess.
    pub fn tolerance(&self, class: ToleranceClass, dtype: &str) -> Result<Tolerance, CompareError> {
        let data_type = DataType::from_name(dtype);
        if data_type.is_some_and(|data_type| data_type.element.kind() == Kind::Integer) {
            return Ok(Tolerance::EXACT);
        }
        let name = data_type.map_or(dtype, |data_type| data_type.name());
        self.rows
            .get(&(class, name.to_owned()))
            .map(|row| Tolerance { rtol: row.rtol, atol: row.atol })
            .ok_or_else(|| CompareError::NoTolerance {
                table: self.id.clone(),
                class: class.to_string(),
                dtype: dtype.to_owned(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOATS: [&str; 12] = [
        "float64",
        "float32",
        "bfloat16",
        "float16",
        "float8_e4m3fn",
        "float8_e5m2",
        "float8_e4m3fnuz",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
        "complex128",
        "complex64",
        "complex32",
    ];

    #[test]
    fn the_embedded_table_has_a_row_for_every_class_and_dtype() {
        let table = ToleranceTable::embedded();
        for class in ToleranceClass::ALL {
            for dtype in FLOATS {
                let tolerance = table.tolerance(*class, dtype).unwrap();
                assert!(tolerance.rtol > 0.0 && tolerance.rtol < 0.6, "{class} {dtype}");
                assert!(tolerance.atol < 0.2, "{class} {dtype}");
            }
            for dtype in ["int64", "uint8", "bool", "torch.int32"] {
                assert_eq!(table.tolerance(*class, dtype).unwrap(), Tolerance::EXACT);
            }
            assert!(table.tolerance(*class, "quint8").is_err());
        }
    }

    #[test]
    fn no_class_is_tighter_than_the_default_one() {
        let table = ToleranceTable::embedded();
        for dtype in FLOATS {
            let base = table.tolerance(ToleranceClass::Default, dtype).unwrap();
            for class in ToleranceClass::ALL {
                let tolerance = table.tolerance(*class, dtype).unwrap();
                assert!(tolerance.rtol >= base.rtol, "{class} {dtype}");
                assert!(tolerance.atol >= base.atol, "{class} {dtype}");
            }
        }
    }

    #[test]
    fn the_default_class_is_that_of_torch_testing_where_it_has_one() {
        let table = ToleranceTable::embedded();
        for (dtype, rtol, atol) in [
            ("float64", 1e-7, 1e-7),
            ("float32", 1.3e-6, 1e-5),
            ("float16", 1e-3, 1e-5),
            ("bfloat16", 1.6e-2, 1e-5),
            ("complex64", 1.3e-6, 1e-5),
        ] {
            let tolerance = table.tolerance(ToleranceClass::Default, dtype).unwrap();
            assert_eq!(tolerance, Tolerance { rtol, atol }, "{dtype}");
        }
    }

    #[test]
    fn the_rule_relative_to_a_gpu_has_limits_for_what_models_compute_in() {
        let table = ToleranceTable::embedded();
        for dtype in ["float32", "bfloat16", "float16", "complex64"] {
            let limits = table.relative(dtype).unwrap();
            assert!((1.0..=4.0).contains(&limits.factor), "{dtype}");
            assert!(limits.max_factor >= limits.factor && limits.max_factor <= 8.0, "{dtype}");
            assert!(limits.fit <= 0.1, "{dtype}: a golden may not be off by more");
        }
        // float64 has nothing wider to be measured against; integers are exact.
        for dtype in ["float64", "int64", "bool", "float8_e5m2"] {
            assert!(table.relative(dtype).is_none(), "{dtype}");
        }
    }

    #[test]
    fn the_id_changes_with_the_text() {
        let row = |rtol| {
            format!(
                "version = \"9\"\n[class.default]\nfloat32 = {{ rtol = {rtol}, atol = 0.0, reason = \"x\" }}\n"
            )
        };
        let (one, two) = (row("1e-3"), row("2e-3"));
        let id = |text: &str| ToleranceTable::parse(text).unwrap().id().to_owned();
        assert!(id(&one).starts_with("9+") && id(&one).len() == 14, "{}", id(&one));
        assert_ne!(id(&one), id(&two));
    }

    #[test]
    fn a_bad_table_says_what_is_wrong() {
        let row = |key: &str, rtol: &str, reason: &str| {
            format!(
                "version = \"9\"\n[class.default]\n{key} = {{ rtol = {rtol}, atol = 0.0, reason = \"{reason}\" }}\n"
            )
        };
        for (text, problem) in [
            (row("float31", "0.0", "x"), "`default.float31` is not a dtype"),
            (row("int8", "0.0", "x"), "`default.int8` compares exactly"),
            (row("float32", "-1.0", "x"), "`default.float32` is not a pair"),
            (row("float32", "nan", "x"), "`default.float32` is not a pair"),
            (row("float32", "0.0", " "), "`default.float32` has no reason"),
            ("version = \"9\"\n[class.magic]\n".to_owned(), "unknown tolerance class `magic`"),
        ] {
            let error = ToleranceTable::parse(&text).unwrap_err().to_string();
            assert!(error.contains(problem), "{problem:?} was not in {error:?}");
        }
    }
}
