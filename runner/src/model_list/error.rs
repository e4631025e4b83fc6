//! What is wrong with a model list, for its author.

use std::fmt;
use std::path::{Path, PathBuf};

/// One thing that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong, naming the field.
    pub message: String,
    /// What to do about it; may be empty.
    pub hint: String,
}

/// A model list that cannot be used.
#[derive(Debug)]
pub enum ModelListError {
    /// The file is not there or cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The name says neither TOML nor JSONL.
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// The file is understood and names no model: nothing would run.
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// Everything that is wrong with the file, in order.
    Invalid {
        /// The file.
        path: PathBuf,
        /// At least one.
        problems: Vec<Problem>,
    },
    /// Two lists give different content to one model.
    Conflict {
        /// The model.
        subject: String,
        /// `file:line` of both.
        places: [String; 2],
    },
}

/// Most problems printed; a file of another kind has thousands.
const MAX_SHOWN: usize = 50;

impl ModelListError {
    /// What to do next, for the line `hint: …`.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Unreadable { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                "check the path; the lists that come with this program are in `model-lists/`"
                    .to_owned()
            }
            Self::Unreadable { .. } => "check that the file may be read".to_owned(),
            Self::UnknownFormat { .. } => {
                "name the file `*.toml` or `*.jsonl`; `model-lists/README.md` describes both"
                    .to_owned()
            }
            Self::Empty { .. } => {
                "add an entry, for example { id = \"timm:resnet18\" }, between the brackets of \
                 `models = [ ]`"
                    .to_owned()
            }
            Self::Invalid { .. } => {
                "`model-lists/README.md` describes every field, `model-lists/schema.json` checks \
                 them in an editor"
                    .to_owned()
            }
            Self::Conflict { .. } => {
                "make the two entries the same, or leave one of the lists out".to_owned()
            }
        }
    }
}

impl fmt::Display for ModelListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, source } => {
                write!(f, "cannot read the model list `{}`: {source}", path.display())
            }
            Self::UnknownFormat { path } => {
                write!(f, "`{}` is neither a TOML nor a JSONL model list", path.display())
            }
            Self::Empty { path } => write!(f, "the model list `{}` names no model", path.display()),
            Self::Conflict { subject, places: [one, two] } => {
                write!(f, "`{subject}` is listed twice with different content: {one} and {two}")
            }
            Self::Invalid { path, problems } => {
                f.write_str(&problems_text("model list", path, problems))
            }
        }
    }
}

/// `the model list `x.toml` has 2 problems`, and a line `file:line:column: …` for each.
pub(crate) fn problems_text(noun: &str, path: &Path, problems: &[Problem]) -> String {
    let count = problems.len();
    let problem = if count == 1 { "problem" } else { "problems" };
    let mut text = format!("the {noun} `{}` has {count} {problem}", path.display());
    for Problem { line, column, message, hint } in problems.iter().take(MAX_SHOWN) {
        text.push_str(&format!("\n{}:{line}:{column}: {message}", path.display()));
        if !hint.is_empty() {
            text.push_str(&format!(" ({hint})"));
        }
    }
    if count > MAX_SHOWN {
        text.push_str(&format!("\nand {} more", count - MAX_SHOWN));
    }
    text
}

impl std::error::Error for ModelListError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { source, .. } => Some(source),
            Self::UnknownFormat { .. }
            | Self::Empty { .. }
            | Self::Invalid { .. }
            | Self::Conflict { .. } => None,
        }
    }
}
