//! Text identifiers that cross a process border.

use serde::{Deserialize, Serialize};

/// Names one run; chosen by the runner, so that several hosts, shards and a resumed runner add to
/// the same run, and so that sending it again creates nothing.
///
/// Format: 1 to 80 characters of `a-z 0-9 . _ -`, starting with a letter or digit. Example:
/// `20261130-051145-tpu-sim-7f3a2b`. Appears in URLs, in the runs directory and in exports.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct RunKey(String);

/// Why a text is not a [`RunKey`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a run key: 1 to 80 characters of `a-z`, `0-9`, `.`, `_`, `-`, starting with a \
     letter or digit"
)]
pub struct InvalidRunKey(String);

impl RunKey {
    /// The text form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for RunKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.0)
    }
}

impl std::str::FromStr for RunKey {
    type Err = InvalidRunKey;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b);
        let starts_well = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        if text.len() <= 80 && starts_well && text.bytes().all(allowed) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidRunKey(text.chars().take(100).collect()))
        }
    }
}

impl<'de> Deserialize<'de> for RunKey {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl utoipa::PartialSchema for RunKey {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::schema::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .description(Some("1 to 80 of a-z, 0-9, ., _, -"))
            .pattern(Some("^[a-z0-9][a-z0-9._-]{0,79}$"))
            .into()
    }
}

#[cfg(feature = "schema")]
impl utoipa::ToSchema for RunKey {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_key_cannot_leave_its_directory_or_its_url() {
        for good in ["a", "20261130-051145-tpu-sim-7f3a2b", "nightly.3_x"] {
            assert_eq!(good.parse::<RunKey>().unwrap().as_str(), good);
        }
        for bad in ["", ".", "..", "-x", "a/b", "A", "a b", "a\u{0}", "<b>", &"a".repeat(81)] {
            assert!(bad.parse::<RunKey>().is_err(), "{bad:?} must be refused");
        }
    }
}
