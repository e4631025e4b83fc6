//! What failing cases cluster by: stage, outcome, error class, operator and the first line of the
//! message without what differs from process to process.

pub use protocol::signature::normalise;
use protocol::{Outcome, Stage};
use sha2::{Digest as _, Sha256};

/// One kind of failure.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Signature {
    /// First 16 hex digits of the SHA-256 over the rest.
    pub id: String,
    /// What was observed.
    pub outcome: Outcome,
    /// Where.
    pub stage: Option<Stage>,
    /// Exception class, signal name, … .
    pub error_class: String,
    /// Overload to blame.
    pub operator: Option<String>,
    /// Normalised first line.
    pub line: String,
}

impl Signature {
    /// The signature of an attempt; none for a pass.
    #[must_use]
    pub fn new(
        outcome: Outcome,
        stage: Option<Stage>,
        error_class: &str,
        operator: Option<&str>,
        message: &str,
    ) -> Option<Self> {
        if outcome == Outcome::Pass {
            return None;
        }
        let line = normalise(message);
        let text = [
            outcome.as_str(),
            stage.map_or("", Stage::as_str),
            error_class,
            operator.unwrap_or(""),
            &line,
        ]
        .join("\u{1f}");
        let mut id = hex::encode(Sha256::digest(text.as_bytes()));
        id.truncate(16);
        Some(Self {
            id,
            outcome,
            stage,
            error_class: error_class.to_owned(),
            operator: operator.map(str::to_owned),
            line,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_failure_in_two_processes_is_one_signature() {
        let make = |message| {
            Signature::new(
                Outcome::Crash,
                Some(Stage::Execute),
                "SIGABRT",
                Some("aten::scatter_reduce.two"),
                message,
            )
            .unwrap()
        };
        assert_eq!(make("check failed at 0x1 in 12 ms"), make("check failed at 0xff in 9 ms"));
        assert_ne!(make("check failed").id, make("check passed").id);
        assert_eq!(Signature::new(Outcome::Pass, None, "", None, ""), None);
    }
}
