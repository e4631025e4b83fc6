//! Finds Python and the installer `uv`, or installs the latter by hash, and runs it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Error;
use crate::args::program_path;
use crate::python::PythonEnvironment;

const INSTALLER: &str = include_str!("../../python/installer.lock");

/// The installer.
pub(super) struct Uv {
    program: PathBuf,
}

/// Finds a Python that is new enough on `PATH`.
pub(super) fn find_python() -> Result<PathBuf, Error> {
    let names = ["python3", "python3.13", "python3.12", "python3.11", "python3.14", "python"];
    let mut problem = None;
    for name in names {
        let Some(python) = find_program(name) else { continue };
        match PythonEnvironment::ask(&python) {
            Ok(_) => return Ok(python),
            Err(error) => problem = problem.or(Some(error.to_string())),
        }
    }
    let why = problem.map(|problem| format!(": {problem}")).unwrap_or_default();
    Err(Error::Environment {
        message: format!("no Python 3.11 or newer is on `PATH`{why}"),
        hint: "install one, for example with `apt install python3 python3-venv`".to_owned(),
    })
}

fn find_program(name: &str) -> Option<PathBuf> {
    program_path().into_iter().map(|folder| folder.join(name)).find(|path| path.is_file())
}

impl Uv {
    /// The one on `PATH`, else one installed into the cache by its hash.
    pub(super) fn find_or_install(cache: &Path, index: Option<&str>) -> Result<Self, Error> {
        if let Some(program) = find_program("uv") {
            return Ok(Self { program });
        }
        let hash = &super::hash_of(&[INSTALLER])[..12];
        let folder = cache.join(format!("uv-{hash}"));
        let program = folder.join("bin/uv");
        if !program.is_file() {
            super::say("installing the installer `uv`, pinned by hash");
            install_uv(cache, &folder, index)?;
        }
        Ok(Self { program })
    }

    pub(super) fn make_environment(&self, python: &Path, folder: &Path) -> Result<(), Error> {
        let mut command = self.command();
        command.args(["venv", "--quiet", "--relocatable", "--python"]).arg(python).arg(folder);
        run(command, "make a Python environment")
    }

    /// Installs exactly what a lock names, each file checked by its hash.
    pub(super) fn sync(
        &self,
        python: &Path,
        lock: &Path,
        index: Option<&str>,
    ) -> Result<(), Error> {
        let mut command = self.command();
        command.args(["pip", "sync", "--require-hashes", "--python"]).arg(python).arg(lock);
        add_index(&mut command, index);
        run(command, "install the locked packages")
    }

    /// Installs pinned distributions, and nothing that they depend on, from one index.
    pub(super) fn install_pinned(
        &self,
        python: &Path,
        pinned: &[String],
        index: &str,
    ) -> Result<(), Error> {
        let mut command = self.command();
        command.args(["pip", "install", "--no-deps", "--python"]).arg(python).args(pinned);
        add_index(&mut command, Some(index));
        run(command, "install torch")
    }

    /// Installs what a lock names into a plain folder.
    pub(super) fn install_into(
        &self,
        folder: &Path,
        lock: &Path,
        python: &Path,
        index: Option<&str>,
    ) -> Result<(), Error> {
        let mut command = self.command();
        command.args(["pip", "install", "--require-hashes", "--no-deps", "--python"]).arg(python);
        command.arg("--target").arg(folder).arg("--requirement").arg(lock);
        add_index(&mut command, index);
        run(command, "install the development tools")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        // The interpreter under test is the system's; another must not be fetched instead.
        command.env("UV_PYTHON_DOWNLOADS", "never");
        // Half of a fork server's start would be compiling thousands of modules, every time where
        // PYTHONDONTWRITEBYTECODE is set, as it is in many containers.
        command.env("UV_COMPILE_BYTECODE", "1");
        command
    }
}

fn add_index(command: &mut Command, index: Option<&str>) {
    if let Some(index) = index {
        command.args(["--default-index", index]);
    }
}

/// By pip where Python has it, else by the pip of a throw-away environment.
fn install_uv(cache: &Path, folder: &Path, index: Option<&str>) -> Result<(), Error> {
    let python = find_python()?;
    let new = tempfile::Builder::new()
        .prefix(".making-uv-")
        .tempdir_in(cache)
        .map_err(Error::file("write", cache))?;
    let lock = super::write_lock(new.path(), INSTALLER)?;
    let with_pip = python_with_pip(&python, new.path())?;
    let target = new.path().join("uv");
    let mut command = Command::new(with_pip);
    command.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--root-user-action=ignore",
    ]);
    command.args(["--require-hashes", "--no-deps", "--target"]).arg(&target);
    command.arg("--requirement").arg(lock.path());
    if let Some(index) = index {
        command.args(["--index-url", index]);
    }
    run(command, "install `uv`")?;
    std::fs::rename(&target, folder).map_err(Error::file("create", folder))
}

fn python_with_pip(python: &Path, scratch: &Path) -> Result<PathBuf, Error> {
    let has_pip = Command::new(python).args(["-m", "pip", "--version"]).output();
    if has_pip.is_ok_and(|output| output.status.success()) {
        return Ok(python.to_owned());
    }
    let folder = scratch.join("venv");
    let made = Command::new(python).args(["-m", "venv"]).arg(&folder).output();
    if made.is_ok_and(|output| output.status.success()) {
        return Ok(folder.join("bin/python"));
    }
    Err(Error::Environment {
        message: format!("`{}` has neither pip nor venv to install `uv` with", python.display()),
        hint: "`apt install python3-venv`, or put `uv` on `PATH`".to_owned(),
    })
}

/// Runs with the person looking on; the program's own words are the best account of a failure.
fn run(mut command: Command, what: &str) -> Result<(), Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |why: String| Error::Environment {
        message: format!("could not {what}: {why}"),
        hint: "its own words are above; without a network, name a package index that can be \
               reached with `--index-url`"
            .to_owned(),
    };
    // Standard output is for the answer of the command that needs the environment.
    command.stdout(std::io::stderr());
    let status = command.status().map_err(|error| failed(format!("`{program}`: {error}")))?;
    if status.success() { Ok(()) } else { Err(failed(format!("`{program}` ended with {status}"))) }
}
