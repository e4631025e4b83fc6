//! Where Hugging Face's libraries keep what they fetched.

use std::path::PathBuf;

use crate::model_list::{ModelEntry, ModelSource};

/// The local cache of hub repositories, where its place is known.
#[derive(Debug)]
pub(super) struct HubCache(Option<PathBuf>);

impl HubCache {
    /// As `huggingface_hub` finds it: `HF_HUB_CACHE`, else `hub` below `HF_HOME`, else below the
    /// user's cache.
    pub(super) fn of_environment() -> Self {
        Self::among(|name| std::env::var_os(name).filter(|value| !value.is_empty()))
    }

    fn among(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Self {
        let path = |name: &str| variable(name).map(PathBuf::from);
        let home = path("HF_HOME").or_else(|| {
            let caches = path("XDG_CACHE_HOME").or_else(|| Some(path("HOME")?.join(".cache")));
            Some(caches?.join("huggingface"))
        });
        Self(path("HF_HUB_CACHE").or_else(|| Some(home?.join("hub"))))
    }

    /// Whether a worker would build this model from its own configuration, which may make another
    /// graph than the geometry that the list records.
    pub(super) fn holds_configuration(&self, entry: &ModelEntry) -> bool {
        let (Some(cache), Some(revision)) = (&self.0, &entry.revision) else { return false };
        let folder = format!("models--{}", entry.name.replace('/', "--"));
        entry.source == ModelSource::Hub
            && cache.join(folder).join("snapshots").join(revision).join("config.json").exists()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_in_the_cache_is_found_where_the_hub_keeps_it() {
        let home = tempfile::tempdir().unwrap();
        let revision = "c1899de289a04d12100db370d81485cdf75e47ca";
        let snapshot = home.path().join("hub/models--Qwen--Qwen3-0.6B/snapshots").join(revision);
        std::fs::create_dir_all(&snapshot).unwrap();
        let list =
            format!(r#"models = [{{ id = "hub:Qwen/Qwen3-0.6B", revision = "{revision}" }}]"#);
        let entry = crate::model_list::parse("mine.toml".as_ref(), &list).unwrap().remove(0);
        let cache = HubCache::among(|name| (name == "HF_HOME").then(|| home.path().into()));
        assert!(!cache.holds_configuration(&entry));
        std::fs::write(snapshot.join("config.json"), "{}").unwrap();
        assert!(cache.holds_configuration(&entry));
        assert!(!HubCache::among(|_| None).holds_configuration(&entry));
    }
}
