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

/// Where Hugging Face's libraries keep what they fetched, as `huggingface_hub` finds it.
#[must_use]
pub fn hub_cache() -> PathBuf {
    hub_cache_among(variable)
}

fn hub_cache_among(variable: impl Fn(&str) -> Option<String>) -> PathBuf {
    let path = |name: &str| variable(name).map(PathBuf::from);
    path("HF_HUB_CACHE").unwrap_or_else(|| {
        let home = path("HF_HOME").unwrap_or_else(|| {
            let caches = path("XDG_CACHE_HOME")
                .unwrap_or_else(|| path("HOME").unwrap_or_default().join(".cache"));
            caches.join("huggingface")
        });
        home.join("hub")
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hubs_cache_is_where_its_own_settings_say() {
        for (settings, place) in [
            (&[("HF_HUB_CACHE", "/a"), ("HF_HOME", "/b")][..], "/a"),
            (&[("HF_HOME", "/b"), ("HOME", "/h")], "/b/hub"),
            (&[("XDG_CACHE_HOME", "/c"), ("HOME", "/h")], "/c/huggingface/hub"),
            (&[("HOME", "/h")], "/h/.cache/huggingface/hub"),
        ] {
            let value = |name: &str| {
                settings.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            };
            assert_eq!(hub_cache_among(value), PathBuf::from(place), "{settings:?}");
        }
    }
}
