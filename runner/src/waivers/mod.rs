//! Waivers of a run: read from a file, kept with the run, applied when it is over.
//!
//! What a waiver covers, and until when, is [`protocol::waiver`]'s, so that a server judges by the
//! same rule. The file is described in `docs/waivers.md`. Pure but for reading the file.

mod read;
mod standing;

use protocol::waiver::Terms;
use serde::{Deserialize, Serialize};

pub use read::load;
pub use standing::{Standing, standing};

/// The waivers of one file, as they are kept with a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waivers {
    /// Path of the file as it was named.
    pub file: String,
    /// SHA-256 of the file.
    pub sha256: String,
    /// In the order of the file.
    pub waivers: Vec<Waiver>,
}

/// One person's leave for cases to fail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiver {
    /// Line of the file on which it begins.
    pub line: usize,
    /// What it covers, and until when.
    #[serde(flatten)]
    pub terms: Terms,
    /// Why it may pass.
    pub reason: String,
    /// Who gets it repaired.
    pub owner: String,
    /// Address of the issue that follows it.
    pub issue: String,
    /// Who asked for it, when that is not the owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
}

impl Waivers {
    /// `waivers.toml:12 (https://issues.example/7)`.
    #[must_use]
    pub fn describe(&self, index: usize) -> String {
        let Waiver { line, issue, .. } = &self.waivers[index];
        format!("{}:{line} ({issue})", self.file)
    }
}

#[cfg(test)]
mod tests;
