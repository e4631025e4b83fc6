//! What must be there before a case can be executed: a Python, the worker package, a device that
//! works, a backend that is imported.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use protocol::worker_link::Probed;

use super::say;
use crate::Error;
use crate::args::{PythonArgs, socket_directory};
use crate::backend::{Backend, Limits};
use crate::device::{self, Compiler, DeviceChoice, Profile, Slot, take_slots};
use crate::python::PythonEnvironment;
use crate::setup;
use crate::worker::breadcrumb::LIBRARY_VARIABLE;
use crate::worker::stray::end_those_of_dead_runners;
use crate::worker::{Launch, LogFolder, StartError, Worker};
use crate::worker_package::{unpack_breadcrumb, unpack_package, unpack_sim_wrapper};

/// Python and what is executed in it.
#[derive(Debug)]
pub(super) struct Tools {
    /// The environment under test.
    pub(super) environment: PythonEnvironment,
    /// Hash of the lock it was made by, if we made it.
    pub(super) lock: Option<String>,
    package: PathBuf,
    sim_wrapper: PathBuf,
    breadcrumb: PathBuf,
}

impl Tools {
    /// Finds or makes the environment, and unpacks what travels in the program.
    pub(super) fn prepare(args: &PythonArgs) -> Result<Self, Error> {
        let python = match args.python.as_ref().filter(|path| !path.as_os_str().is_empty()) {
            Some(python) => python.clone(),
            None => setup::ensure_environment(&args.setup)?,
        };
        let environment = PythonEnvironment::ask(&python)?;
        let cache = args.setup.directory();
        let package = match &args.worker_package {
            Some(package) => package.clone(),
            None => unpack_package(&cache)?,
        };
        let sim_wrapper = unpack_sim_wrapper(&cache)?;
        let breadcrumb = unpack_breadcrumb(&cache)?;
        let lock = setup::lock_of(&python);
        Ok(Self { lock, environment, package, sim_wrapper, breadcrumb })
    }

    /// How the fork server of a profile is started.
    pub(super) fn launch(&self, profile: Profile, logs: LogFolder) -> Launch {
        let mut environment = profile.environment(&self.environment, Some(&self.sim_wrapper));
        let breadcrumb = self.breadcrumb.display().to_string();
        environment.insert(LIBRARY_VARIABLE.to_owned(), breadcrumb);
        Launch {
            python: self.environment.executable.clone(),
            package: self.package.clone(),
            profile: profile.to_string(),
            environment,
            logs,
            socket_directory: socket_directory(),
        }
    }
}

/// A device that works, with its first worker.
#[derive(Debug)]
pub(super) struct Ready {
    /// The profile.
    pub(super) profile: Profile,
    /// Why this one, when it was chosen by `auto`.
    pub(super) reason: Option<String>,
    /// The imported backend.
    pub(super) backend: Backend,
    /// Units of the device, locked for this process.
    pub(super) slots: Vec<Slot>,
    /// The worker that proved that the first unit works.
    pub(super) worker: Worker,
    /// What the device is.
    pub(super) probed: Probed,
}

/// How a device is wanted.
#[derive(Debug)]
pub(super) struct Wanted {
    /// Workers; 0 is one per unit.
    pub(super) jobs: u32,
    /// Most MiB of address space of a worker.
    pub(super) address_space_mib: Option<u64>,
    /// Rules of the `faulty` device, by subject.
    pub(super) faults: BTreeMap<String, String>,
    /// Compiler in place of the device's usual one.
    pub(super) backend: Option<Compiler>,
}

impl Wanted {
    /// One worker, to see whether the device works.
    pub(super) const fn one() -> Self {
        Self { jobs: 1, address_space_mib: None, faults: BTreeMap::new(), backend: None }
    }
}

/// Opens the device: the one named, or the first of `auto`'s that works.
pub(super) async fn open_device(
    tools: &Tools,
    choice: DeviceChoice,
    wanted: &Wanted,
    logs: &LogFolder,
) -> Result<Ready, Error> {
    let left = end_those_of_dead_runners();
    if left > 0 {
        say(&format!("note: ended {left} processes that a runner left which was killed"));
    }
    let candidates = match choice {
        DeviceChoice::Named(profile) => {
            if let Some(missing) = profile.missing(&tools.environment) {
                return Err(not_usable(
                    profile,
                    StartError { message: missing, hint: named_hint(profile), may_pass: false },
                ));
            }
            say(&format!("opening `{profile}` with {}", tools.environment.python.display()));
            return open(tools, profile, wanted, logs).await;
        }
        DeviceChoice::Auto => device::automatic(&tools.environment),
    };
    let mut reasons = Vec::new();
    for (profile, missing) in candidates {
        if let Some(missing) = missing {
            reasons.push(format!("{profile}: {missing}"));
            continue;
        }
        say(&format!("opening `{profile}` with {}", tools.environment.python.display()));
        match open(tools, profile, wanted, logs).await {
            Ok(ready) => {
                reasons.push(format!("`{profile}` answers its probe"));
                return Ok(Ready { reason: Some(reasons.join("; ")), ..ready });
            }
            Err(error) => reasons.push(format!("{profile}: {error}")),
        }
    }
    Err(Error::Backend {
        device: "auto".to_owned(),
        message: reasons.join("; "),
        hint: "`runner doctor` says what each device needs".to_owned(),
    })
}

async fn open(
    tools: &Tools,
    profile: Profile,
    wanted: &Wanted,
    logs: &LogFolder,
) -> Result<Ready, Error> {
    let slots = take_slots(profile, wanted.jobs, Path::new("/tmp"))?;
    let mut launch = tools.launch(profile, logs.clone());
    if !wanted.faults.is_empty() {
        let rules = serde_json::to_string(&wanted.faults).expect("texts only");
        launch.environment.insert("CONFORMANCE_FAULTS".to_owned(), rules);
    }
    if let Some(backend) = wanted.backend {
        if matches!(profile, Profile::Tpu | Profile::TpuSim) {
            return Err(Error::Usage {
                message: format!("`--backend {backend}` is not for `{profile}`: a TPU has its own"),
                hint: "leave `--backend` out, or choose `--device cpu` or `cuda`".to_owned(),
            });
        }
        launch.environment.insert("CONFORMANCE_COMPILER".to_owned(), backend.to_string());
    }
    let failed = |error| not_usable(profile, error);
    let address_space_bytes = wanted.address_space_mib.map(|mib| mib << 20);
    let limits = Limits { address_space_bytes, starts: profile.starts() };
    let backend = Backend::start(launch, limits).await.map_err(failed)?;
    let environment = slots.first().map(|slot| slot.environment.clone()).unwrap_or_default();
    match backend.proven_worker(environment).await {
        Ok((worker, probed)) => Ok(Ready { profile, reason: None, backend, slots, worker, probed }),
        Err(error) => {
            backend.stop().await;
            Err(failed(error))
        }
    }
}

fn not_usable(profile: Profile, error: StartError) -> Error {
    Error::Backend { device: profile.to_string(), message: error.message, hint: error.hint }
}

fn named_hint(profile: Profile) -> String {
    match profile {
        Profile::Tpu => "on a host without a TPU, `--device tpu-sim` executes the same lowerings",
        Profile::TpuSim => "`runner setup` makes an environment that has it",
        Profile::Cuda | Profile::Cpu | Profile::Faulty => "choose another device with `--device`",
    }
    .to_owned()
}
