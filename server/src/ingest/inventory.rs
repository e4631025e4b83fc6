//! Takes in which overloads the build of a run has.

use std::collections::HashSet;

use protocol::RunKey;
use protocol::ingest_api::put_inventory;
use protocol::inventory::Inventory;
use sha2::{Digest as _, Sha256};

use crate::app::AppState;
use crate::db::{inventories, runs};
use crate::error::{Error, Result};

/// Most overloads that are taken: several times what PyTorch has.
const MOST_OVERLOADS: usize = 20_000;
/// Longest name of an overload.
const MOST_NAME_CHARACTERS: usize = 200;

/// Stores the inventory of a run. Shards of one run send the same one.
pub async fn put_inventory(
    state: &AppState,
    key: &RunKey,
    inventory: &Inventory,
) -> Result<put_inventory::Response> {
    let sha256 = check(inventory)?;
    let hash = hex::encode(&sha256);
    if runs::find(state.db.pool(), key.as_str()).await?.is_none() {
        return Err(Error::no_such("run", key));
    }
    let mut transaction = state.db.pool().begin().await?;
    let run = super::lock(&mut transaction, key).await?;
    super::refuse_void(&run)?;
    match inventories::hash_of_run(&mut *transaction, run.id).await? {
        Some(stored) if stored == sha256 => return Ok(put_inventory::Response { hash }),
        Some(stored) => {
            return Err(Error::conflict(
                format!("run `{key}` has another inventory (`{}`)", hex::encode(stored)),
                "every shard and host of a run must have the same build",
            ));
        }
        None => {}
    }
    let now = state.clock.now();
    let id = inventories::store(&mut transaction, &sha256, inventory, now).await?;
    inventories::give(&mut transaction, &run, id).await?;
    transaction.commit().await?;
    Ok(put_inventory::Response { hash })
}

/// The inventory's hash, when it can be stored.
fn check(inventory: &Inventory) -> Result<Vec<u8>> {
    let hint = "send what `runner` keeps as `inventory.json`";
    let count = inventory.overloads.len();
    if count == 0 || count > MOST_OVERLOADS {
        let problem = format!("`overloads` has {count} lines, not 1 to {MOST_OVERLOADS}");
        return Err(Error::bad_request(problem, hint));
    }
    if !(1..=80).contains(&inventory.dispatch_key.chars().count()) {
        return Err(Error::bad_request("`dispatch_key` has not 1 to 80 characters", hint));
    }
    let mut seen = HashSet::with_capacity(count);
    for overload in &inventory.overloads {
        let name = overload.name.as_str();
        if !(1..=MOST_NAME_CHARACTERS).contains(&name.chars().count()) {
            let problem = format!("a name has not 1 to {MOST_NAME_CHARACTERS} characters");
            return Err(Error::bad_request(problem, hint));
        }
        if !seen.insert(name) {
            return Err(Error::bad_request(format!("`overloads` has `{name}` twice"), hint));
        }
    }
    // In the order in which it is given back, so that what is exported has the hash of what came.
    let mut sorted = inventory.clone();
    sorted.overloads.sort_by(|a, b| a.name.cmp(&b.name));
    let text = serde_json::to_string(&sorted).expect("texts only");
    // PostgreSQL stores no NUL, neither as text nor in JSON.
    if text.contains("\\u0000") {
        return Err(Error::bad_request("a text holds a NUL character", hint));
    }
    Ok(Sha256::digest(text.as_bytes()).to_vec())
}
