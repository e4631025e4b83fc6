//! What is kept of a run's plan.

use std::collections::BTreeMap;
use std::path::PathBuf;

use protocol::CaseKey;
use serde::{Deserialize, Serialize};

use crate::balance::Balance;
use crate::device::Compiler;
use crate::golden::GoldenUse;
use crate::plan::{PlannedCase, Shard};

/// Settings of a run that resuming it needs again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Device profile.
    pub profile: String,
    /// Why this one, when it was chosen by `auto`.
    pub device_reason: Option<String>,
    /// Worker processes asked for; 0 is one per device slot.
    pub jobs: u32,
    /// More attempts after an unexpected outcome.
    pub retries: u32,
    /// Seconds for compiling and what leads to it.
    pub compile_timeout: u64,
    /// Seconds for executing.
    pub execute_timeout: u64,
    /// Cases after which a worker is replaced.
    pub recycle_after: u32,
    /// Growth of memory in MiB after which a worker is replaced.
    pub recycle_growth_mib: u64,
    /// Most MiB of address space of a worker.
    pub address_space_mib: Option<u64>,
    /// Seed of every generator.
    pub seed: u64,
    /// The slice of the plan that this process executes.
    pub shard: Option<Shard>,
    /// Most executions to find the case that another one depends on; absent in runs of before.
    #[serde(default)]
    pub order_replays: u32,
    /// Seed of the order of execution; absent for the order of the manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shuffle: Option<u64>,
    /// Rules of the `faulty` device, by subject.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub faults: BTreeMap<String, String>,
    /// Compiler in place of the device's usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<Compiler>,
    /// What is done with goldens; absent where references are computed with each case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goldens: Option<GoldenUse>,
    /// Python of the environment under test.
    pub python: PathBuf,
    /// Server that results were meant for.
    pub push: Option<String>,
}

/// The plan as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Settings.
    pub settings: Settings,
    /// All planned cases, those of other shards too, in the order of the manifest.
    pub cases: Vec<PlannedCase>,
    /// Which shard holds which case, where durations decided that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub balance: Option<Balance>,
}

impl Plan {
    /// Whether this process executes the case: all of them, or those of its shard.
    #[must_use]
    pub fn holds(&self, case: &CaseKey) -> bool {
        match (self.settings.shard, &self.balance) {
            (None, _) => true,
            (Some(shard), None) => shard.holds(case),
            (Some(shard), Some(balance)) => balance.holds(shard, case),
        }
    }
}
