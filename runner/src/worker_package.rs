//! What travels inside the program and is unpacked into the cache: the Python worker package, the
//! wrapper library of `tpu-sim`, and the breadcrumb library. Folders are named by content hash and appear whole or not at
//! all, so that several runners can unpack at once.

use std::path::{Path, PathBuf};

use include_dir::{Dir, DirEntry, include_dir};
use sha2::{Digest as _, Sha256};

use crate::Error;

static PACKAGE: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/worker/src");
static BREADCRUMB: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libbreadcrumb.so"));
static SIM_WRAPPER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libpjrt_sim.so"));

/// Unpacks the worker package; gives the folder for `PYTHONPATH`.
pub fn unpack_package(cache: &Path) -> Result<PathBuf, Error> {
    let mut files = Vec::new();
    collect(&PACKAGE, &mut files);
    unpack(cache, "worker", &files)
}

/// Unpacks the wrapper library; gives its path.
pub fn unpack_sim_wrapper(cache: &Path) -> Result<PathBuf, Error> {
    let folder = unpack(cache, "sim", &[(Path::new("libpjrt_sim.so"), SIM_WRAPPER)])?;
    Ok(folder.join("libpjrt_sim.so"))
}

/// Unpacks the breadcrumb library; gives its path.
pub fn unpack_breadcrumb(cache: &Path) -> Result<PathBuf, Error> {
    let folder = unpack(cache, "breadcrumb", &[(Path::new("libbreadcrumb.so"), BREADCRUMB)])?;
    Ok(folder.join("libbreadcrumb.so"))
}

fn collect<'a>(folder: &Dir<'a>, files: &mut Vec<(&'a Path, &'a [u8])>) {
    for entry in folder.entries() {
        match entry {
            DirEntry::Dir(folder) => collect(folder, files),
            DirEntry::File(file) => {
                let compiled = file.path().components().any(|c| c.as_os_str() == "__pycache__");
                if !compiled {
                    files.push((file.path(), file.contents()));
                }
            }
        }
    }
}

fn unpack(cache: &Path, name: &str, files: &[(&Path, &[u8])]) -> Result<PathBuf, Error> {
    let mut hash = Sha256::new();
    for (path, contents) in files {
        hash.update(path.as_os_str().as_encoded_bytes());
        hash.update((contents.len() as u64).to_le_bytes());
        hash.update(contents);
    }
    let folder = cache.join(format!("{name}-{}", &hex::encode(hash.finalize())[..12]));
    if folder.is_dir() {
        return Ok(folder);
    }
    std::fs::create_dir_all(cache).map_err(Error::file("create", cache))?;
    let new = tempfile::Builder::new()
        .prefix(&format!(".{name}-"))
        .tempdir_in(cache)
        .map_err(Error::file("write", cache))?;
    for (path, contents) in files {
        let path = new.path().join(path);
        let parent = path.parent().unwrap_or(new.path());
        std::fs::create_dir_all(parent).map_err(Error::file("create", parent))?;
        std::fs::write(&path, contents).map_err(Error::file("write", &path))?;
    }
    let made = new.keep();
    set_readable(&made)?;
    match std::fs::rename(&made, &folder) {
        Ok(()) => Ok(folder),
        // Another runner was faster with the same content.
        Err(_) if folder.is_dir() => {
            let _ = std::fs::remove_dir_all(&made);
            Ok(folder)
        }
        Err(error) => Err(Error::file("create", &folder)(error)),
    }
}

/// A temporary folder is private; a cache may be shared.
fn set_readable(folder: &Path) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder, mode).map_err(Error::file("write", folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpacking_twice_gives_the_same_whole_folder() {
        let cache = tempfile::tempdir().unwrap();
        let files: [(&Path, &[u8]); 2] =
            [(Path::new("a/b.py"), b"x = 1\n"), (Path::new("c.py"), b"")];
        let first = unpack(cache.path(), "worker", &files).unwrap();
        assert_eq!(std::fs::read(first.join("a/b.py")).unwrap(), b"x = 1\n");
        assert_eq!(unpack(cache.path(), "worker", &files).unwrap(), first);
        let other: [(&Path, &[u8]); 1] = [(Path::new("c.py"), b"y")];
        assert_ne!(unpack(cache.path(), "worker", &other).unwrap(), first);
        let left = std::fs::read_dir(cache.path()).unwrap().count();
        assert_eq!(left, 2, "nothing half-made is left behind");
    }

    #[test]
    fn the_program_carries_its_worker_and_its_libraries() {
        let cache = tempfile::tempdir().unwrap();
        let package = unpack_package(cache.path()).unwrap();
        assert!(package.join("conformance_worker/__init__.py").is_file());
        let wrapper = std::fs::read(unpack_sim_wrapper(cache.path()).unwrap()).unwrap();
        assert_eq!(&wrapper[..4], b"\x7fELF");
        let breadcrumb = std::fs::read(unpack_breadcrumb(cache.path()).unwrap()).unwrap();
        assert_eq!(&breadcrumb[..4], b"\x7fELF");
    }
}
