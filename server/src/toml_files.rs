//! The `*.toml` of a directory that a setting names.

use std::path::{Path, PathBuf};

use crate::trouble::OrTrouble as _;

/// Path and text of each, in no order. `what` they are and the `hint` go into the words of an
/// error.
pub fn read(directory: &Path, what: &str, hint: &str) -> anyhow::Result<Vec<(PathBuf, String)>> {
    let entries = std::fs::read_dir(directory)
        .or_trouble(format!("the {what} in `{}` cannot be read", directory.display()), hint)?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let text = std::fs::read_to_string(&path)
            .or_trouble(format!("`{}` cannot be read", path.display()), "it must be UTF-8 text")?;
        files.push((path, text));
    }
    Ok(files)
}
