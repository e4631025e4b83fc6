//! Errors that are expected: each knows what to say, what to do next, and its exit code.
//!
//! Anything else is a bug and panics. An error text is lower case, names the thing in backticks
//! and has no full stop; the hint is printed on a line of its own.

use std::path::{Path, PathBuf};

use crate::exit::Exit;

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A flag or a combination of flags makes no sense.
    #[error("{message}")]
    Usage {
        /// What is wrong.
        message: String,
        /// What to do.
        hint: String,
    },
    /// A file that the user named cannot be used.
    #[error("{message}")]
    Input {
        /// What is wrong: file, line, field.
        message: String,
        /// What to do.
        hint: String,
    },
    /// The selection holds no case.
    #[error("{message}")]
    NothingSelected {
        /// Which filter did it.
        message: String,
        /// What to do.
        hint: String,
    },
    /// No run of that key is kept here.
    #[error("no run `{key}` in `{}`", runs_dir.display())]
    UnknownRun {
        /// As it was asked for.
        key: String,
        /// Where it was looked for.
        runs_dir: PathBuf,
    },
    /// The Python environment cannot be made or used.
    #[error("{message}")]
    Environment {
        /// What is wrong.
        message: String,
        /// What to do.
        hint: String,
    },
    /// The backend or its worker process did not start.
    #[error("backend failed to start on `{device}`: {message}")]
    Backend {
        /// Device profile.
        device: String,
        /// What is wrong.
        message: String,
        /// What to do.
        hint: String,
    },
    /// The server refused, or could not be reached.
    #[error("{message}")]
    Server {
        /// What is wrong, naming the address.
        message: String,
        /// What to do.
        hint: String,
    },
    /// A file of ours could not be read or written.
    #[error("cannot {action} `{}`: {source}", path.display())]
    File {
        /// `read`, `write`, `create`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's words.
        source: std::io::Error,
    },
}

impl Error {
    /// A file of ours could not be read or written.
    pub fn file(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { action, path, source }
    }

    /// What to do next; empty when there is nothing to say.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Usage { hint, .. }
            | Self::Input { hint, .. }
            | Self::NothingSelected { hint, .. }
            | Self::Environment { hint, .. }
            | Self::Backend { hint, .. }
            | Self::Server { hint, .. } => hint.clone(),
            Self::UnknownRun { .. } => {
                "`runner report --list` shows the runs kept here; `--runs-dir` looks elsewhere"
                    .to_owned()
            }
            Self::File { source, .. } => {
                let kind = source.kind();
                if kind == std::io::ErrorKind::StorageFull {
                    "free some disk space, or choose another place with `--runs-dir`".to_owned()
                } else if kind == std::io::ErrorKind::PermissionDenied {
                    "choose a place that you may write to, with `--runs-dir` or `--cache-dir`"
                        .to_owned()
                } else {
                    String::new()
                }
            }
        }
    }

    /// The exit code it leads to.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::Usage { .. } | Self::Input { .. } | Self::UnknownRun { .. } => Exit::Usage,
            Self::NothingSelected { .. } => Exit::NothingSelected,
            Self::Environment { .. }
            | Self::Backend { .. }
            | Self::Server { .. }
            | Self::File { .. } => Exit::Trouble,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_says_so_and_what_to_do() {
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let error = Error::file("write", Path::new("/x/journal.jsonl"))(full);
        assert!(error.to_string().starts_with("cannot write `/x/journal.jsonl`: "), "{error}");
        assert!(error.hint().contains("free some disk space"), "{}", error.hint());
        assert_eq!(error.exit(), Exit::Trouble);
    }
}
