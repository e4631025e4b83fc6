//! Devices: what each profile needs in the environment, which one `auto` means on this host, and
//! the slots that workers run on.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use crate::Error;
use crate::python::PythonEnvironment;

protocol::words! {
    /// What compiles graphs where the device has no compiler of its own.
    Compiler as "backend" {
        /// Traces and executes operators one by one.
        Eager = "eager",
        /// Also makes the graph functional, as every compiler's front end does.
        AotEager = "aot_eager",
        /// PyTorch's own compiler; on the CPU it needs a C++ compiler.
        Inductor = "inductor",
    }
}

protocol::words! {
    /// How a device is reached.
    Profile as "device" {
        /// TorchTPU on hardware.
        Tpu = "tpu",
        /// TorchTPU executing on XLA:CPU.
        TpuSim = "tpu-sim",
        /// A CUDA device.
        Cuda = "cuda",
        /// The plain CPU.
        Cpu = "cpu",
        /// A CPU that lies on purpose.
        Faulty = "faulty",
    }
}

/// `--device`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceChoice {
    /// tpu, else cuda, else tpu-sim, else cpu.
    Auto,
    /// This one.
    Named(Profile),
}

impl std::str::FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let named = text.parse().map(Self::Named);
        named.map_err(|error: protocol::UnknownWord| {
            format!("a device is one of auto, {}", error.allowed)
        })
    }
}

impl std::fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Named(profile) => profile.fmt(f),
        }
    }
}

/// File name of the PJRT CPU plugin inside its package.
const PLUGIN_FILE: &str = "pjrt_c_api_cpu_plugin.so";
/// Package that holds it.
const PLUGIN_PACKAGE: &str = "lammps_jax_pjrt_cpu";
/// Older than what the plugin has: TorchTPU then refuses `chlo.scan` with an exception, where
/// XLA:CPU would abort the process; see docs/decisions/0005.
const SIM_STABLEHLO: &str = "1.13.7";
/// Google's number among PCI vendors.
const TPU_PCI_VENDOR: &str = "0x1ae0";
/// What keeps XLA:CPU honest: without the first, minima and maxima drop NaN; without the second,
/// arc tangents of wide rows are wrong. The others spare a third and then half of the time to compile,
/// which is nearly all of a case's time; nothing here is executed often enough to win it back.
const SIM_XLA_FLAGS: &str = "--xla_cpu_enable_fast_min_max=false \
    --xla_cpu_prefer_vector_width=128 --xla_backend_optimization_level=0 \
    --xla_backend_extra_options=xla_cpu_disable_new_fusion_emitters";

impl Profile {
    /// Why this host seems to lack the hardware. Only `auto` goes by it: a container may hide what
    /// there is, and who names a device gets it tried.
    #[must_use]
    pub fn unseen(self) -> Option<String> {
        match self {
            Self::Tpu => (tpu_chips() == 0).then(|| "no TPU on the PCI bus".to_owned()),
            Self::Cuda => (cuda_devices() == 0).then(|| "no NVIDIA device".to_owned()),
            Self::TpuSim | Self::Cpu | Self::Faulty => None,
        }
    }

    /// What the environment lacks for the profile; nothing when it may work.
    #[must_use]
    pub fn missing(self, environment: &PythonEnvironment) -> Option<String> {
        let lacks = |module: &str| {
            (!environment.has(module)).then(|| format!("`{module}` is not installed"))
        };
        match self {
            Self::Tpu => lacks("torch_tpu"),
            Self::TpuSim => lacks("torch_tpu").or_else(|| {
                let there = sim_plugin(environment).is_some();
                (!there).then(|| "the PJRT CPU plugin is not installed".to_owned())
            }),
            Self::Cuda | Self::Cpu | Self::Faulty => None,
        }
    }

    /// Whether results are not those of the device named.
    #[must_use]
    pub const fn is_simulated(self) -> bool {
        match self {
            Self::TpuSim | Self::Faulty => true,
            Self::Tpu | Self::Cuda | Self::Cpu => false,
        }
    }

    /// Environment that must be there before the fork server imports anything.
    #[must_use]
    pub fn environment(
        self,
        python: &PythonEnvironment,
        sim_wrapper: Option<&Path>,
    ) -> BTreeMap<String, String> {
        let mut variables = BTreeMap::new();
        let mut set = |name: &str, value: String| variables.insert(name.to_owned(), value);
        match self {
            Self::TpuSim => {
                let path = |path: Option<PathBuf>| {
                    path.map(|path| path.display().to_string()).unwrap_or_default()
                };
                set("TPU_LIBRARY_PATH", path(sim_wrapper.map(Path::to_owned)));
                set("CONFORMANCE_SIM_PLUGIN", path(sim_plugin(python)));
                set("TPU_SKIP_MDS_QUERY", "1".to_owned());
                set("TF_CPP_MIN_LOG_LEVEL", "3".to_owned());
                set("XLA_FLAGS", SIM_XLA_FLAGS.to_owned());
                set("CONFORMANCE_SIM_STABLEHLO", SIM_STABLEHLO.to_owned());
            }
            Self::Tpu | Self::Cuda | Self::Cpu | Self::Faulty => {}
        }
        variables
    }

    /// Times that a worker is started before the device counts as unusable. After a kill a driver
    /// needs seconds until hardware is free again.
    #[must_use]
    pub const fn starts(self) -> u32 {
        match self {
            Self::Tpu | Self::Cuda => 6,
            Self::TpuSim | Self::Cpu | Self::Faulty => 3,
        }
    }

    /// Units that a worker each can have, at least one.
    #[must_use]
    pub fn slots(self) -> u32 {
        match self {
            Self::Tpu => tpu_chips().max(1),
            Self::Cuda => cuda_devices().max(1),
            Self::TpuSim | Self::Cpu | Self::Faulty => 1,
        }
    }
}

/// Profiles that `auto` tries, in order, each with what rules it out here.
#[must_use]
pub fn automatic(environment: &PythonEnvironment) -> Vec<(Profile, Option<String>)> {
    [Profile::Tpu, Profile::Cuda, Profile::TpuSim, Profile::Cpu]
        .into_iter()
        .map(|profile| (profile, profile.unseen().or_else(|| profile.missing(environment))))
        .collect()
}

/// The plugin that `tpu-sim` executes on, in the environment under test.
#[must_use]
pub fn sim_plugin(environment: &PythonEnvironment) -> Option<PathBuf> {
    let path = environment.modules.get(PLUGIN_PACKAGE)?.join(PLUGIN_FILE);
    path.is_file().then_some(path)
}

/// Whether the host has a TPU on its bus.
#[must_use]
pub fn has_tpu() -> bool {
    tpu_chips() > 0
}

fn tpu_chips() -> u32 {
    let devices = std::fs::read_dir("/sys/bus/pci/devices").into_iter().flatten().flatten();
    let is_tpu = |path: &Path| {
        let read = |name: &str| std::fs::read_to_string(path.join(name)).unwrap_or_default();
        // Google's network card on its cloud has the same vendor; accelerators have class 0x12.
        read("vendor").trim() == TPU_PCI_VENDOR && read("class").starts_with("0x12")
    };
    count(devices.filter(|device| is_tpu(&device.path())).count())
}

fn cuda_devices() -> u32 {
    let entries = std::fs::read_dir("/proc/driver/nvidia/gpus").into_iter().flatten();
    count(entries.count())
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// One unit of a device that one worker at a time runs on.
#[derive(Debug)]
pub struct Slot {
    /// From 0.
    pub number: u32,
    /// Environment of the workers on it.
    pub environment: BTreeMap<String, String>,
    /// Keeps other runners on this host off the unit.
    _lock: Option<File>,
}

/// Takes `jobs` slots of a profile (0: one per unit). On hardware each is locked for this process,
/// because two users of one chip break each other.
pub fn take_slots(profile: Profile, jobs: u32, locks: &Path) -> Result<Vec<Slot>, Error> {
    let wanted = if jobs == 0 { profile.slots() } else { jobs };
    match profile {
        Profile::Tpu | Profile::Cuda => {
            let units = profile.slots();
            if wanted > units {
                return Err(Error::Usage {
                    message: format!("`--jobs {wanted}` is more than the {units} units here"),
                    hint: "leave `--jobs` out for one worker per unit".to_owned(),
                });
            }
            (0..wanted).map(|number| take_unit(profile, number, locks)).collect()
        }
        Profile::TpuSim | Profile::Cpu | Profile::Faulty => Ok((0..wanted)
            .map(|number| Slot { number, environment: BTreeMap::new(), _lock: None })
            .collect()),
    }
}

fn take_unit(profile: Profile, number: u32, locks: &Path) -> Result<Slot, Error> {
    let path = locks.join(format!("torchtpu-conformance-{profile}-{number}.lock"));
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(Error::file("open", &path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(Error::Backend {
                device: profile.to_string(),
                message: format!("unit {number} is in use by another runner"),
                hint: "wait until it is done, or take fewer units with `--jobs`".to_owned(),
            });
        }
        Err(TryLockError::Error(error)) => return Err(Error::file("lock", &path)(error)),
    }
    let environment = match profile {
        Profile::Tpu => [
            ("TPU_VISIBLE_CHIPS", number.to_string()),
            ("TPU_VISIBLE_DEVICES", number.to_string()),
            ("TPU_CHIPS_PER_PROCESS_BOUNDS", "1,1,1".to_owned()),
            ("TPU_PROCESS_BOUNDS", "1,1,1".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into(),
        Profile::Cuda => [("CUDA_VISIBLE_DEVICES".to_owned(), number.to_string())].into(),
        Profile::TpuSim | Profile::Cpu | Profile::Faulty => BTreeMap::new(),
    };
    Ok(Slot { number, environment, _lock: Some(file) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_chosen_by_its_word() {
        assert_eq!("auto".parse(), Ok(DeviceChoice::Auto));
        assert_eq!("tpu-sim".parse(), Ok(DeviceChoice::Named(Profile::TpuSim)));
        let error = "gpu".parse::<DeviceChoice>().unwrap_err();
        assert_eq!(error, "a device is one of auto, tpu, tpu-sim, cuda, cpu, faulty");
    }

    #[test]
    fn a_unit_of_hardware_has_one_user() {
        let folder = tempfile::tempdir().unwrap();
        let first = take_unit(Profile::Tpu, 0, folder.path()).unwrap();
        assert_eq!(first.environment["TPU_VISIBLE_CHIPS"], "0");
        let error = take_unit(Profile::Tpu, 0, folder.path()).unwrap_err();
        assert!(error.to_string().contains("in use by another runner"), "{error}");
        assert!(take_unit(Profile::Tpu, 1, folder.path()).is_ok());
        drop(first);
        assert!(take_unit(Profile::Tpu, 0, folder.path()).is_ok());
    }
}
