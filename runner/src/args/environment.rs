//! What the environment says.

use std::path::PathBuf;

/// The value of an environment variable that is set and not empty.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the place that may")]
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Directories searched for programs.
#[must_use]
pub fn program_path() -> Vec<PathBuf> {
    variable("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default()
}

/// Where short-lived sockets go: the user's runtime directory, else `/tmp`. Not `TMPDIR`, whose
/// value may be longer than a socket path can be.
#[must_use]
pub fn socket_directory() -> PathBuf {
    let directory = variable("XDG_RUNTIME_DIR").map(PathBuf::from);
    directory.filter(|path| path.is_dir()).unwrap_or_else(|| PathBuf::from("/tmp"))
}

/// Whether colours may be written to this stream.
#[must_use]
pub fn colours(is_terminal: bool) -> bool {
    is_terminal && variable("NO_COLOR").is_none() && variable("TERM").as_deref() != Some("dumb")
}

pub(super) fn base_directory(variable_name: &str, below_home: &str) -> PathBuf {
    let home = || PathBuf::from(variable("HOME").unwrap_or_else(|| "/".to_owned()));
    let base = variable(variable_name).map(PathBuf::from).filter(|path| path.is_absolute());
    base.unwrap_or_else(|| home().join(below_home)).join("torchtpu-conformance")
}
