//! Files that attempts left. A file is stored under its own hash and named by attempts afterwards,
//! so that the same file of a thousand cases is kept once, and sending it again changes nothing.

use protocol::{CaseKey, RunKey};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use utoipa::ToSchema;

use crate::app::AppState;
use crate::db::artifacts;
use crate::db::tokens::Caller;
use crate::error::{Error, Result};

/// Most files named in one request.
pub const MAX_LINKS: usize = 1_000;
/// Longest name, in bytes; the schema has the same limit.
const MAX_NAME_BYTES: usize = 100;

/// 64 lower-case hex digits.
pub fn read_hash(text: &str) -> Result<Vec<u8>> {
    let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    let hash = if text.bytes().all(is_hex) { hex::decode(text).ok() } else { None };
    hash.filter(|hash| hash.len() == 32).ok_or_else(|| {
        Error::bad_request(
            "the hash is no SHA-256",
            "write it as 64 hex digits in lower case, as `sha256sum` does",
        )
    })
}

/// Stores a file; `false` when it was there.
pub async fn store_artifact(
    state: &AppState,
    caller: &Caller,
    sha256: &[u8],
    contents: &[u8],
) -> Result<bool> {
    let found = Sha256::digest(contents);
    if found.as_slice() != sha256 {
        return Err(Error::bad_request(
            format!("the body has the hash `{}`", hex::encode(found)),
            "it was cut or changed on its way, or is another file; send it again",
        ));
    }
    let now = state.clock.now();
    Ok(artifacts::store(state.db.pool(), sha256, contents, caller.token_id, now).await?)
}

/// Body of `POST /api/v1/runs/{run}/artifacts`.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkRequest {
    /// Journal of the source that sent the attempts; absent when it named none.
    #[serde(default)]
    pub journal: Option<String>,
    /// At most 1,000.
    pub artifacts: Vec<NewLink>,
}

/// A file of an attempt.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewLink {
    /// The case.
    pub case: CaseKey,
    /// Number that the source gave the attempt.
    pub attempt: u32,
    /// As in `hlo.txt`.
    pub name: String,
    /// Of a file that was stored before.
    pub sha256: String,
}

/// Names files of attempts, all or nothing.
pub async fn link_artifacts(state: &AppState, key: &RunKey, request: &LinkRequest) -> Result<()> {
    let links = &request.artifacts;
    check(links)?;
    let wanted =
        links.iter().map(|link| read_hash(&link.sha256)).collect::<Result<Vec<Vec<u8>>>>()?;
    let journal = request.journal.as_deref().unwrap_or_default();
    let mut transaction = state.db.pool().begin().await?;
    let run = super::lock(&mut transaction, key).await?;
    super::refuse_void(&run)?;
    let known = artifacts::hold(&mut transaction, &wanted).await?;
    if let Some(absent) = wanted.iter().find(|hash| !known.contains(hash)) {
        return Err(Error::conflict(
            format!("no file with the hash `{}` is stored", hex::encode(absent)),
            "send the file first, with PUT /api/v1/artifacts/HASH",
        ));
    }
    for (link, sha256) in links.iter().zip(&wanted) {
        let NewLink { case, attempt, name, .. } = link;
        let number = i32::try_from(*attempt).unwrap_or(0);
        let place =
            artifacts::find_attempt(&mut transaction, &run, journal, case.as_str(), number).await?;
        let Some(place) = place else {
            return Err(Error::conflict(
                format!("run `{key}` has no attempt {attempt} at `{case}` from this source"),
                "send the results first, and name the journal that they came from",
            ));
        };
        if !artifacts::link(&mut transaction, &run, &place, name, sha256).await? {
            return Err(Error::conflict(
                format!("attempt {attempt} at `{case}` has another file `{name}`"),
                "choose another name; what is stored is not replaced",
            ));
        }
    }
    transaction.commit().await?;
    Ok(())
}

fn check(links: &[NewLink]) -> Result<()> {
    if links.len() > MAX_LINKS {
        return Err(Error::bad_request(
            format!("`artifacts` has {} files", links.len()),
            format!("send at most {MAX_LINKS} in one request"),
        ));
    }
    let is_word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    for (number, link) in links.iter().enumerate() {
        let name = &link.name;
        if !(1..=MAX_NAME_BYTES).contains(&name.len())
            || !name.bytes().all(is_word)
            || name.starts_with('.')
        {
            return Err(Error::bad_request(
                format!("`artifacts[{number}].name` is no name of a file"),
                "1 to 100 of `A-Z`, `a-z`, `0-9`, `-`, `_`, `.`, not beginning with a dot",
            ));
        }
    }
    Ok(())
}
