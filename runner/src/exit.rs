//! The exit codes of `runner`, as CI reads them. The table is printed by `runner --help`.

use std::process::ExitCode;

/// How the program ended.
///
/// Of several that apply, trouble (3) wins over failures (1): a 1 says that the evidence is whole
/// and that some of it is bad, a 3 says that evidence is lacking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// 0: every selected case passed (skipped ones aside), or the command did its work.
    Success,
    /// 1: every selected case has its result, and some did not pass. `gate`: closed.
    SomeFailed,
    /// 2: bad usage or configuration; nothing was executed.
    Usage,
    /// 3: device, worker or server trouble: cases were not run, or results not delivered.
    Trouble,
    /// 4: the selection holds no case.
    NothingSelected,
    /// 5: only `gate`: the evidence is incomplete, which is not open.
    GateIncomplete,
}

impl Exit {
    /// Every code, in order.
    pub const ALL: &'static [Self] = &[
        Self::Success,
        Self::SomeFailed,
        Self::Usage,
        Self::Trouble,
        Self::NothingSelected,
        Self::GateIncomplete,
    ];

    /// The number.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::SomeFailed => 1,
            Self::Usage => 2,
            Self::Trouble => 3,
            Self::NothingSelected => 4,
            Self::GateIncomplete => 5,
        }
    }

    /// What it means, in one line.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Success => "every selected case passed",
            Self::SomeFailed => "some did not (gate: closed)",
            Self::Usage => "bad usage or configuration; nothing was executed",
            Self::Trouble => {
                "device, worker or server trouble, or interrupted: evidence is lacking"
            }
            Self::NothingSelected => "the selection holds no case",
            Self::GateIncomplete => "gate: the evidence is incomplete",
        }
    }

    /// The table, as `--help` shows it.
    #[must_use]
    pub fn table() -> String {
        let lines = Self::ALL.iter().map(|exit| format!("  {}  {}", exit.code(), exit.meaning()));
        format!("Exit codes:\n{}", lines.collect::<Vec<_>>().join("\n"))
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_the_documented_ones_and_differ() {
        let codes: Vec<u8> = Exit::ALL.iter().map(|exit| exit.code()).collect();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn lacking_evidence_wins_over_failures() {
        assert!(Exit::Trouble > Exit::SomeFailed);
    }
}
