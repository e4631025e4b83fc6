//! Telling others what happened: which webhooks there are, what is said, and how it is signed.
//!
//! What happened writes a delivery in its own transaction, so that nothing is told that did not
//! happen and nothing that happened is forgotten; `tasks::deliver` sends it, again and again until
//! it is taken or given up.

use std::path::Path;

use chrono::{DateTime, Utc};
use hmac::{Hmac, KeyInit as _, Mac as _};
use protocol::words;
use serde::Deserialize;
use serde_json::Value;
use sha2::Sha256;
use sqlx::PgConnection;

use crate::db::webhooks;
use crate::error::Result;
use crate::trouble::{OrTrouble as _, Trouble};

words! {
    /// What can be told.
    Event as "event" {
        /// A run was sealed.
        RunSealed = "run.sealed",
        /// A sealed run has cases that passed before.
        Regression = "regression",
        /// A gate's answer for the newest runs is another one.
        GateChanged = "gate.changed",
    }
}

/// Tries before a delivery is given up: over about a day.
const MOST_TRIES: i32 = 12;
/// First pause between tries, in seconds; each later one is twice as long, up to three hours.
const FIRST_PAUSE_SECS: i64 = 15;
const LONGEST_PAUSE_SECS: i64 = 3 * 3600;

/// Somebody to tell.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// Names it in the log of deliveries.
    pub name: String,
    /// Where it is.
    pub url: String,
    /// What the signature is made with; at least 16 characters.
    secret: String,
    /// What it is told.
    pub events: Vec<Event>,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Webhook").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Everybody to tell.
#[derive(Debug, Clone, Default)]
pub struct Webhooks(Vec<Webhook>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    webhook: Vec<Webhook>,
}

impl Webhooks {
    /// Reads the file of webhooks.
    pub fn load(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path else { return Ok(Self::default()) };
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path).or_trouble(
            format!("the webhooks in `{shown}` cannot be read"),
            "name the file with `--webhooks`, or leave it out",
        )?;
        Self::parse(&shown, &text)
    }

    /// Reads webhooks from the text of `file`.
    pub fn parse(file: &str, text: &str) -> anyhow::Result<Self> {
        const HINT: &str = "docs/operating.md describes every field";
        let parsed: File = toml::from_str(text).map_err(|error| {
            // Without the text around it, in which a secret may stand.
            let message = error.message().trim().replace('\n', ", ");
            Trouble::error(format!("`{file}` is no file of webhooks: {message}"), HINT)
        })?;
        for (place, webhook) in parsed.webhook.iter().enumerate() {
            let bad = |problem: &str| {
                Err(Trouble::error(
                    format!("webhook `{}` in `{file}` {problem}", webhook.name),
                    HINT,
                ))
            };
            if webhook.name.is_empty() || webhook.name.chars().count() > 80 {
                return bad("has no name of 1 to 80 characters");
            }
            if parsed.webhook[..place].iter().any(|other| other.name == webhook.name) {
                return bad("is there twice");
            }
            if !webhook.url.starts_with("https://") && !webhook.url.starts_with("http://") {
                return bad("has no `url` that begins with `https://` or `http://`");
            }
            if webhook.secret.chars().count() < 16 {
                return bad("has a `secret` shorter than 16 characters");
            }
            if webhook.events.is_empty() {
                return bad("is told nothing: `events` is empty");
            }
        }
        Ok(Self(parsed.webhook))
    }

    /// The webhook of that name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Webhook> {
        self.0.iter().find(|webhook| webhook.name == name)
    }

    /// Writes a delivery to everybody who is told this, in the transaction of what happened.
    pub async fn tell(
        &self,
        connection: &mut PgConnection,
        event: Event,
        body: &Value,
        now: DateTime<Utc>,
    ) -> Result<()> {
        let body = body.to_string();
        for webhook in self.0.iter().filter(|webhook| webhook.events.contains(&event)) {
            webhooks::create(&mut *connection, &webhook.name, event, &body, now).await?;
        }
        Ok(())
    }
}

impl Webhook {
    /// `sha256=` and the HMAC-SHA-256, in hex, of the delivery's number, a point, and the body.
    #[must_use]
    pub fn sign(&self, delivery: i64, body: &str) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.secret.as_bytes())
            .expect("HMAC takes a key of any length");
        mac.update(delivery.to_string().as_bytes());
        mac.update(b".");
        mac.update(body.as_bytes());
        format!("sha256={}", hex::encode(mac.finalize().into_bytes()))
    }
}

/// When it is tried again after so many tries; none when it is given up.
#[must_use]
pub fn next_try(tries: i32, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    if tries >= MOST_TRIES {
        return None;
    }
    let doublings = u32::try_from(tries - 1).unwrap_or(0).min(20);
    let pause = (FIRST_PAUSE_SECS << doublings).min(LONGEST_PAUSE_SECS);
    Some(now + chrono::Duration::seconds(pause))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[[webhook]]\nname = \"chat\"\nurl = \"https://example.com/h\"\n\
                        secret = \"0123456789abcdef\"\nevents = [\"run.sealed\"]\n";

    #[test]
    fn the_signature_is_the_one_that_others_compute() {
        let webhooks = Webhooks::parse("w.toml", GOOD).unwrap();
        let signature = webhooks.find("chat").unwrap().sign(7, "{}");
        // printf '7.{}' | openssl dgst -sha256 -hmac 0123456789abcdef
        assert_eq!(
            signature,
            "sha256=3cd0ad802237a2c96b7ee3b06705b7350cc8cf0ba4123033d13eda91ad9c4ec2"
        );
    }

    #[test]
    fn every_mistake_is_named_and_no_secret_is_shown() {
        for (mistake, problem) in [
            (GOOD.replace("chat", ""), "no name"),
            (GOOD.replace("https://", "ftp://"), "no `url`"),
            (GOOD.replace("0123456789abcdef", "short-secret"), "shorter than 16"),
            (GOOD.replace("\"run.sealed\"", ""), "told nothing"),
            (GOOD.replace("run.sealed", "run.opened"), "unknown event `run.opened`"),
            (format!("{GOOD}{GOOD}"), "is there twice"),
            (GOOD.replace("url", "address"), "unknown field `address`"),
        ] {
            let error = format!("{:#}", Webhooks::parse("w.toml", &mistake).unwrap_err());
            assert!(error.contains(problem), "{error}");
            assert!(!error.contains("0123456789abcdef") && !error.contains("short-secret"));
        }
        let shown = format!("{:?}", Webhooks::parse("w.toml", GOOD).unwrap());
        assert!(!shown.contains("0123456789abcdef"), "{shown}");
    }

    #[test]
    fn pauses_grow_and_end() {
        let now = DateTime::UNIX_EPOCH;
        let pause = |tries| next_try(tries, now).map(|at| (at - now).num_seconds());
        assert_eq!(pause(1), Some(15));
        assert_eq!(pause(2), Some(30));
        assert_eq!(pause(11), Some(LONGEST_PAUSE_SECS));
        assert_eq!(pause(MOST_TRIES), None);
    }
}
