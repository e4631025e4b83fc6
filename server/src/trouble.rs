//! Troubles of the command line: a message that names the thing, and a hint that says what to do.
//!
//! Errors of requests are in [`crate::error`].

use std::fmt;

/// An error with a hint. It may have a cause, which is shown after the message.
#[derive(Debug)]
pub struct Trouble {
    message: String,
    hint: String,
}

impl Trouble {
    /// One to put before a cause.
    pub fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into() }
    }

    /// One without a cause, ready to be returned.
    pub fn error(message: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
        anyhow::Error::new(Self { message: message.into(), hint: hint.into() })
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Trouble {}

/// Adds message and hint to a cause.
pub trait OrTrouble<T> {
    /// Like `context`, with a hint.
    fn or_trouble(self, message: impl Into<String>, hint: impl Into<String>) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> OrTrouble<T> for Result<T, E> {
    fn or_trouble(self, message: impl Into<String>, hint: impl Into<String>) -> anyhow::Result<T> {
        self.map_err(|error| {
            error.into().context(Trouble { message: message.into(), hint: hint.into() })
        })
    }
}

/// The whole text for a person: message with its causes, then the hints.
#[must_use]
pub fn describe(error: &anyhow::Error) -> String {
    let hint = error.downcast_ref::<Trouble>().map(|trouble| trouble.hint.as_str());
    match hint {
        Some(hint) if !hint.is_empty() => format!("error: {}\n\nhint: {hint}", causes(error)),
        _ => format!("error: {}", causes(error)),
    }
}

/// The message and its causes; a cause that the one before has quoted is not said again.
fn causes(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn a_quoted_cause_is_said_once() {
        let error = anyhow::anyhow!("no such host").context("failed: no such host");
        assert_eq!(describe(&error), "error: failed: no such host");
    }

    #[test]
    fn the_hint_comes_last_and_survives_more_context() {
        let cause: Result<(), _> = Err(std::io::Error::other("refused"));
        let error = cause
            .or_trouble("cannot listen on `a:1`", "choose another port")
            .context("serving")
            .unwrap_err();
        assert_eq!(
            describe(&error),
            "error: serving: cannot listen on `a:1`: refused\n\nhint: choose another port"
        );
    }
}
