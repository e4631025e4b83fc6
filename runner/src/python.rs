//! The Python environment under test, asked without importing torch.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::Error;

/// Asks for the Python version and for places of modules, without executing any of them.
const QUESTION: &str = r#"
import importlib.metadata, importlib.util, json, os, sys
def place(name):
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    places = list(spec.submodule_search_locations or [])
    return places[0] if places else spec.origin
def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
modules = {name: place(name) for name in ("torch", "torch_tpu", "libtpu", "lammps_jax_pjrt_cpu", "transformers", "timm", "torchvision", "safetensors", "expecttest")}
print(json.dumps({
    "version": list(sys.version_info[:3]),
    "executable": sys.executable,
    "modules": {name: where for name, where in modules.items() if where},
    "versions": {name: v for name in ("torch", "torch_tpu", "libtpu") if (v := version(name))},
}))
"#;

/// Oldest Python that the worker runs on.
const OLDEST: (u32, u32) = (3, 11);

/// What an environment is.
#[derive(Debug, Clone, Deserialize)]
pub struct PythonEnvironment {
    /// The program that was asked, as it was named.
    #[serde(skip)]
    pub python: PathBuf,
    /// The program itself: a name on `PATH` may be a script that looks for one.
    pub executable: PathBuf,
    /// Major, minor, micro.
    pub version: (u32, u32, u32),
    /// Folder of each module that is there.
    pub modules: BTreeMap<String, PathBuf>,
    /// Versions of the distributions under test that are there.
    pub versions: BTreeMap<String, String>,
}

impl PythonEnvironment {
    /// Asks a Python.
    pub fn ask(python: &Path) -> Result<Self, Error> {
        let hint = "name a Python 3.11 or newer with `--python`, or leave it out to use the \
                    environment of `runner setup`";
        let wrong = |message: String| Error::Environment { message, hint: hint.to_owned() };
        let output = Command::new(python)
            .args(["-c", QUESTION])
            .env("PYTHONNOUSERSITE", "1")
            .output()
            .map_err(|error| wrong(format!("cannot start `{}`: {error}", python.display())))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
            return Err(wrong(format!("`{}` is no usable Python: {last}", python.display())));
        }
        let mut environment: Self = serde_json::from_slice(&output.stdout)
            .map_err(|_| wrong(format!("`{}` does not answer like a Python", python.display())))?;
        environment.python = python.to_owned();
        if !environment.executable.is_absolute() {
            environment.executable = python.to_owned();
        }
        let (major, minor, _) = environment.version;
        if (major, minor) < OLDEST {
            let found = format!("{major}.{minor}");
            return Err(wrong(format!("`{}` is Python {found}, too old", python.display())));
        }
        Ok(environment)
    }

    /// Whether a module is there.
    #[must_use]
    pub fn has(&self, module: &str) -> bool {
        self.modules.contains_key(module)
    }
}
