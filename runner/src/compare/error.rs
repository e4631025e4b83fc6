//! Why a comparison could not be made. None of these says anything about the backend: the caller
//! records the outcome `infra`, never a pass and never a mismatch.

use std::path::PathBuf;

/// The comparator could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// The file is not there or cannot be read.
    #[error("cannot read `{path}`: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not a whole and honest safetensors file with a structure.
    #[error("`{path}` is not a valid output file: {problem}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, naming the leaf where there is one.
        problem: String,
    },
    /// An element type that the comparator cannot widen.
    #[error("`{path}` holds `{dtype}` elements, which cannot be compared")]
    UnsupportedDtype {
        /// The file.
        path: PathBuf,
        /// Name of the element type.
        dtype: String,
    },
    /// The rule measures against outputs in float64, and there are none.
    #[error("the rule `gpu-relative` needs the outputs in float64, and the golden has none")]
    NoWide,
    /// The rule is not one of the known ones.
    #[error(transparent)]
    UnknownRule(protocol::UnknownWord),
    /// The tolerance class is not one of the known ones.
    #[error(transparent)]
    UnknownClass(protocol::UnknownWord),
    /// The table has no row for this class and dtype.
    #[error("the tolerance table `{table}` has no row for `{dtype}` in class `{class}`")]
    NoTolerance {
        /// Id of the table.
        table: String,
        /// The class.
        class: String,
        /// The dtype.
        dtype: String,
    },
}
