//! What is kept of a case's files beyond its end, within limits: the tensors of a mismatch, and the
//! script of the operator that it begins in.

use std::path::{Path, PathBuf};

use protocol::CaseKey;
use sha2::{Digest as _, Sha256};

use crate::exchange::Exchange;
use crate::execute::Executed;
use crate::outcome::Ending;

/// Begins the names of files that the worker leaves to be kept.
const KEPT_PREFIX: &str = "divergence-";
/// Most bytes of each of the run's two folders of kept files.
const MOST_KEPT_BYTES: u64 = 1 << 30;
/// Most bytes of the tensors of one case.
const MOST_TENSOR_BYTES: u64 = 128 << 20;

/// Keeps what the worker left of an operator. Gives a note for what could not be kept.
pub(super) fn scripts(exchange: &Exchange, folder: &Path) -> Option<String> {
    let named = files_of(exchange.folder()).into_iter().filter_map(|path| {
        let name = path.file_name()?.to_string_lossy().into_owned();
        name.starts_with(KEPT_PREFIX).then_some((path, name))
    });
    copy(&named.collect::<Vec<_>>(), folder, MOST_KEPT_BYTES, "the operator's script")
}

/// Keeps both sides of the first output set that did not hold, and what both are measured against. Gives a note for what could not be
/// kept.
pub(super) fn tensors(
    executed: &Executed,
    case: &CaseKey,
    attempt: u32,
    folder: &Path,
) -> Option<String> {
    let Some(Ending::Observed { observed, comparisons }) = &executed.ending else { return None };
    let differs = |comparison: &Result<protocol::Comparison, String>| {
        comparison.as_ref().is_ok_and(|comparison| !comparison.held)
    };
    let set = observed.to_compare.get(comparisons.iter().position(differs)?)?;
    let [actual, expected, wide] = tensor_names(case, attempt);
    let both = [(PathBuf::from(&set.actual), actual), (PathBuf::from(&set.expected), expected)];
    let wide = set.wide.as_ref().map(|path| (PathBuf::from(path), wide));
    let files: Vec<_> = both.into_iter().chain(wide).collect();
    copy(&files, folder, MOST_TENSOR_BYTES, "the tensors of the mismatch")
}

/// Names of the files in the run's folder of tensors: actual, expected, and the same in float64 where
/// a golden has it.
#[must_use]
pub(crate) fn tensor_names(case: &CaseKey, attempt: u32) -> [String; 3] {
    let hash = hex::encode(Sha256::digest(case.as_str()));
    ["actual", "expected", "wide"]
        .map(|side| format!("{}-{attempt}.{side}.safetensors", &hash[..16]))
}

/// Copies files under new names to a folder, which is made where it is not there and never grows
/// beyond its limit.
fn copy(files: &[(PathBuf, String)], folder: &Path, most: u64, what: &str) -> Option<String> {
    if files.is_empty() {
        return None;
    }
    let size = |path: &Path| path.metadata().map_or(0, |metadata| metadata.len());
    let new: u64 = files.iter().map(|(path, _)| size(path)).sum();
    if new > most {
        let limit = format!("{} MiB are over the limit of {} MiB", new >> 20, most >> 20);
        return Some(format!("{what} was not kept: {limit}"));
    }
    let kept: u64 = files_of(folder).iter().map(|path| size(path)).sum();
    if kept + new > MOST_KEPT_BYTES {
        let limit = MOST_KEPT_BYTES >> 20;
        let folder = folder.display();
        return Some(format!("{what} was not kept: `{folder}` is at its limit of {limit} MiB"));
    }
    let keep = |(path, name): &(PathBuf, String)| std::fs::copy(path, folder.join(name)).map(drop);
    let all = std::fs::create_dir_all(folder).and_then(|()| files.iter().try_for_each(keep));
    all.err().map(|error| format!("{what} was not kept: {error}"))
}

fn files_of(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let plain = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
    entries.flatten().filter(plain).map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_to_be_kept_is_and_never_beyond_the_limit() {
        let parent = tempfile::tempdir().unwrap();
        let exchange = Exchange::create(parent.path()).unwrap();
        let repros = parent.path().join("repros");
        std::fs::write(exchange.folder().join("0.actual.safetensors"), "x").unwrap();
        assert_eq!(scripts(&exchange, &repros), None);
        assert!(!repros.exists(), "a run without a script has no folder of scripts");

        std::fs::write(exchange.folder().join("divergence-1.py"), "pass").unwrap();
        assert_eq!(scripts(&exchange, &repros), None);
        assert_eq!(files_of(&repros), [repros.join("divergence-1.py")]);

        let huge = std::fs::File::create(repros.join("divergence-0.safetensors")).unwrap();
        huge.set_len(MOST_KEPT_BYTES).unwrap();
        std::fs::write(exchange.folder().join("divergence-2.py"), "pass").unwrap();
        assert!(scripts(&exchange, &repros).unwrap().contains("at its limit of 1024 MiB"));
        assert!(!repros.join("divergence-2.py").exists());
    }

    #[test]
    fn tensors_that_are_too_large_are_told_of() {
        let parent = tempfile::tempdir().unwrap();
        let large = parent.path().join("large");
        std::fs::File::create(&large).unwrap().set_len(MOST_TENSOR_BYTES + 1).unwrap();
        let files = [(large, "a".to_owned())];
        let note = copy(&files, &parent.path().join("kept"), MOST_TENSOR_BYTES, "it").unwrap();
        assert!(note.contains("it was not kept: 128 MiB are over the limit of 128 MiB"));
    }
}
