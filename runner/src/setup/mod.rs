//! Makes the locked Python environment in the cache: once per lock, whole or not at all.
//!
//! The lock files travel inside the program. [`uv`] finds or installs the installer; what is
//! installed is decided here.

mod lock_file;
mod uv;

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::Error;
use crate::args::{SetupArgs, TorchBuild};
use uv::Uv;

const REQUIREMENTS: &str = include_str!("../../python/requirements.lock");
const TOOLS: &str = include_str!("../../python/tools.lock");

/// Free space that installing needs, in GiB, with and without CUDA libraries.
const SPACE_GIB: u64 = 9;
const SPACE_CPU_GIB: u64 = 4;
/// File that an environment has once it is whole; holds the hash of its lock.
const MARK: &str = "conformance-lock.txt";

/// Gives the Python of the locked environment, which is made first where it is missing.
pub fn ensure_environment(args: &SetupArgs) -> Result<PathBuf, Error> {
    let request = EnvironmentRequest::new(args)?;
    let cache = args.directory();
    let folder = cache.join(format!("python-{}", request.hash()));
    let python = folder.join("bin/python");
    if folder.join(MARK).is_file() && python.exists() {
        return Ok(python);
    }
    make(&cache, &folder, |new| request.install(&cache, new))?;
    Ok(python)
}

/// Gives the folder of the development tools, installed first where it is missing.
pub fn ensure_tools(args: &SetupArgs) -> Result<PathBuf, Error> {
    let python = ensure_environment(args)?;
    let cache = args.directory();
    let folder = cache.join(format!("tools-{}", &hash_of(&[TOOLS])[..12]));
    if !folder.join(MARK).is_file() {
        make(&cache, &folder, |new| {
            say("installing the development tools");
            let uv = Uv::find_or_install(&cache, index_of(args))?;
            let lock = write_lock(new.parent().unwrap_or(new), TOOLS)?;
            uv.install_into(new, lock.path(), &python, index_of(args))
        })?;
    }
    Ok(folder)
}

/// Hash of the lock that an environment was made by; nothing for one that we did not make.
#[must_use]
pub fn lock_of(python: &Path) -> Option<String> {
    let folder = python.parent()?.parent()?;
    Some(std::fs::read_to_string(folder.join(MARK)).ok()?.trim().to_owned())
}

/// What is to be installed.
struct EnvironmentRequest {
    build: TorchBuild,
    index: Option<String>,
    torch_index: Option<String>,
}

impl EnvironmentRequest {
    fn new(args: &SetupArgs) -> Result<Self, Error> {
        let torch_index = args.torch_index_url.clone().filter(|url| !url.is_empty());
        if args.torch_build == TorchBuild::Cpu && torch_index.is_none() {
            return Err(Error::Usage {
                message: "`--torch-build cpu` needs `--torch-index-url`".to_owned(),
                hint:
                    "name the index that has CPU wheels of torch, PyTorch's own or a mirror of it"
                        .to_owned(),
            });
        }
        Ok(Self { build: args.torch_build, index: index_of(args).map(str::to_owned), torch_index })
    }

    fn hash(&self) -> String {
        let torch_index = self.torch_index.as_deref().unwrap_or_default();
        let parts: &[&str] = match self.build {
            TorchBuild::Default => &[REQUIREMENTS],
            TorchBuild::Cpu => &[REQUIREMENTS, "cpu", torch_index],
        };
        hash_of(parts)[..12].to_owned()
    }

    fn install(&self, cache: &Path, new: &Path) -> Result<(), Error> {
        let needed = match self.build {
            TorchBuild::Default => SPACE_GIB,
            TorchBuild::Cpu => SPACE_CPU_GIB,
        };
        check_space(cache, needed)?;
        let system_python = uv::find_python()?;
        let uv = Uv::find_or_install(cache, self.index.as_deref())?;
        say(&format!("making a Python environment with {}", system_python.display()));
        uv.make_environment(&system_python, new)?;
        let python = new.join("bin/python");
        match self.build {
            TorchBuild::Default => {
                say(
                    "installing by the lock and its hashes: several GB with torch's CUDA libraries",
                );
                let lock = write_lock(cache, REQUIREMENTS)?;
                uv.sync(&python, lock.path(), self.index.as_deref())?;
            }
            TorchBuild::Cpu => {
                let split = lock_file::without_torch(REQUIREMENTS);
                let lock = write_lock(cache, &split.rest)?;
                uv.sync(&python, lock.path(), self.index.as_deref())?;
                let torch_index = self.torch_index.as_deref().unwrap_or_default();
                say(&format!(
                    "installing {} from `{torch_index}`: pinned by version, not by hash",
                    split.torch.join(", ")
                ));
                uv.install_pinned(&python, &split.torch, torch_index)?;
            }
        }
        let mark = hash_of(&[REQUIREMENTS])[..12].to_owned();
        let path = new.join(MARK);
        std::fs::write(&path, mark).map_err(Error::file("write", &path))
    }
}

fn index_of(args: &SetupArgs) -> Option<&str> {
    args.index_url.as_deref().filter(|url| !url.is_empty())
}

fn hash_of(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
        hash.update([0]);
    }
    hex::encode(hash.finalize())
}

/// Fills a folder under another name and gives it its own when it is whole. One process at a time.
fn make(
    cache: &Path,
    folder: &Path,
    fill: impl FnOnce(&Path) -> Result<(), Error>,
) -> Result<(), Error> {
    std::fs::create_dir_all(cache).map_err(Error::file("create", cache))?;
    let _lock = lock(cache)?;
    if folder.join(MARK).is_file() {
        return Ok(());
    }
    let new = tempfile::Builder::new()
        .prefix(".making-")
        .tempdir_in(cache)
        .map_err(Error::file("write", cache))?;
    // The installer makes the folder itself, readable for others.
    let target = new.path().join("new");
    fill(&target)?;
    let mark = target.join(MARK);
    if !mark.is_file() {
        std::fs::write(&mark, "").map_err(Error::file("write", &mark))?;
    }
    // What is in the way has no mark: it was never whole.
    let _ = std::fs::remove_dir_all(folder);
    std::fs::rename(&target, folder).map_err(Error::file("create", folder))
}

fn lock(cache: &Path) -> Result<File, Error> {
    let path = cache.join(".setup.lock");
    let file = File::create(&path).map_err(Error::file("create", &path))?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => say("waiting for another runner's set-up"),
        Err(TryLockError::Error(error)) => return Err(Error::file("lock", &path)(error)),
    }
    file.lock().map_err(Error::file("lock", &path))?;
    Ok(file)
}

fn write_lock(folder: &Path, text: &str) -> Result<tempfile::NamedTempFile, Error> {
    let file = tempfile::Builder::new()
        .prefix(".lock-")
        .suffix(".txt")
        .tempfile_in(folder)
        .map_err(Error::file("write", folder))?;
    std::fs::write(file.path(), text).map_err(Error::file("write", file.path()))?;
    Ok(file)
}

fn check_space(cache: &Path, needed_gib: u64) -> Result<(), Error> {
    let Ok(space) = nix::sys::statvfs::statvfs(cache) else { return Ok(()) };
    let free_gib = (space.blocks_available() * space.fragment_size()) >> 30;
    if free_gib >= needed_gib {
        return Ok(());
    }
    Err(Error::Environment {
        message: format!(
            "`{}` has {free_gib} GiB free; the Python environment needs {needed_gib} GiB",
            cache.display()
        ),
        hint: "free some disk space, choose another place with `--cache-dir`, or leave CUDA out \
               with `--torch-build cpu`"
            .to_owned(),
    })
}

fn say(text: &str) {
    crate::talk::say(&format!("setup: {text}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_appears_whole_or_not_at_all() {
        let cache = tempfile::tempdir().unwrap();
        let folder = cache.path().join("tools-x");
        let failed = make(cache.path(), &folder, |new| {
            std::fs::create_dir(new).unwrap();
            std::fs::write(new.join("half"), "").unwrap();
            Err(Error::Environment { message: "no network".to_owned(), hint: String::new() })
        });
        assert!(failed.is_err() && !folder.exists());
        make(cache.path(), &folder, |new| {
            std::fs::create_dir(new).unwrap();
            Ok(())
        })
        .unwrap();
        assert!(folder.join(MARK).is_file());
        make(cache.path(), &folder, |_| panic!("it is there already")).unwrap();
        let left = std::fs::read_dir(cache.path()).unwrap().count();
        assert_eq!(left, 2, "the folder and the lock, nothing half-made");
    }

    #[test]
    fn a_lack_of_space_is_said_before_anything_is_installed() {
        let error = check_space(Path::new("/"), 1 << 30).unwrap_err();
        assert!(error.to_string().contains("GiB free"), "{error}");
    }
}
