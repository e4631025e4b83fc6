//! A run and its manifest, before the first result.

use std::collections::{BTreeMap, HashSet};

use chrono::{DateTime, Utc};
use protocol::PROTOCOL_VERSION;
use protocol::RunKey;
use protocol::ingest_api::{create_run, put_manifest};
use sha2::{Digest as _, Sha256};

use super::storable;
use crate::app::AppState;
use crate::db::runs::{self, Created};
use crate::db::tokens::Caller;
use crate::db::{attempts, manifests, summaries, verdicts};
use crate::error::{Error, Result};
use crate::judge::completeness::RunState;

/// Device profiles whose results are simulated by nature, and those whose are not.
const SIMULATED_PROFILES: [&str; 2] = ["tpu-sim", "faulty"];
const REAL_PROFILES: [&str; 3] = ["tpu", "cuda", "cpu"];

/// Whether results on a device profile are simulated, when nobody says so.
pub(super) fn is_simulated(profile: &str) -> bool {
    SIMULATED_PROFILES.contains(&profile)
}

/// How far the runner's clock may be ahead of ours.
const MAX_AHEAD_HOURS: i64 = 24;
/// How long ago a run may have begun: each month has a part of a table.
const MAX_AGE_DAYS: i64 = 10 * 366;

/// Most parts of a version tuple, and most labels.
const MAX_PAIRS: usize = 100;

/// Announces a run.
pub async fn create_run(
    state: &AppState,
    caller: &Caller,
    request: create_run::Request,
) -> Result<create_run::Response> {
    check_announcement(&request)?;
    check_start(&request, state.clock.now())?;
    // Shards of one run come from several hosts, each with a clock and a start of its own.
    let identity = create_run::Request {
        host: String::new(),
        started_at: DateTime::UNIX_EPOCH,
        ..request.clone()
    };
    let body = serde_json::to_vec(&identity).map_err(anyhow::Error::from)?;
    let hash = Sha256::digest(&body).to_vec();
    let request = create_run::Request {
        versions: storable_pairs(&request.versions),
        labels: storable_pairs(&request.labels),
        device_kind: storable(&request.device_kind),
        host: storable(&request.host),
        ..request
    };
    let mut connection = state.db.pool().acquire().await?;
    attempts::ensure_part(&mut *connection, request.started_at.date_naive()).await?;
    let now = state.clock.now();
    let created = match runs::create(&mut connection, &request, &hash, caller.token_id, now).await?
    {
        Created::New => true,
        Created::Replay => false,
        Created::Clash => {
            return Err(Error::conflict(
                format!("run `{}` exists with another body", request.run_key),
                "choose another run key",
            ));
        }
    };
    Ok(create_run::Response {
        page: format!("/runs/{}", request.run_key),
        run_key: request.run_key,
        created,
    })
}

fn check_announcement(request: &create_run::Request) -> Result<()> {
    let bad = |title: String, hint: &str| Err(Error::bad_request(title, hint));
    if request.protocol_version != PROTOCOL_VERSION {
        return bad(
            format!(
                "`protocol_version` is {}, and this server speaks {PROTOCOL_VERSION}",
                request.protocol_version
            ),
            "use a runner and a server of the same release",
        );
    }
    if request.suites.is_empty() {
        return bad("`suites` is empty".to_owned(), "name at least one suite");
    }
    let profile = request.device_profile.as_str();
    let is_word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if profile.is_empty() || profile.len() > 40 || !profile.bytes().all(is_word) {
        return bad(
            "`device_profile` is not 1 to 40 characters of `a-z`, `0-9`, `-`".to_owned(),
            "the runner's device profiles are `tpu`, `tpu-sim`, `cuda`, `cpu` and `faulty`",
        );
    }
    if (SIMULATED_PROFILES.contains(&profile) && !request.simulated)
        || (REAL_PROFILES.contains(&profile) && request.simulated)
    {
        return bad(
            format!("`simulated` is {}, which `{profile}` never is", request.simulated),
            "results of a simulated device must say so, and others must not",
        );
    }
    if request.device_kind.chars().count() > 200 || request.host.chars().count() > 255 {
        return bad("`device_kind` or `host` is too long".to_owned(), "at most 200 and 255");
    }
    for (field, pairs) in [("versions", &request.versions), ("labels", &request.labels)] {
        let too_long = |(key, value): (&String, &String)| key.len() > 100 || value.len() > 1_000;
        if pairs.len() > MAX_PAIRS || pairs.iter().any(too_long) {
            return bad(
                format!("`{field}` has too many or too long parts"),
                "at most 100 parts, keys of 100 bytes, values of 1000",
            );
        }
    }
    Ok(())
}

/// A run that claims to begin in the future would stay the newest one until then.
fn check_start(request: &create_run::Request, now: DateTime<Utc>) -> Result<()> {
    super::check_time("started_at", request.started_at)?;
    if request.started_at > now + chrono::Duration::hours(MAX_AHEAD_HOURS) {
        return Err(Error::bad_request(
            format!("`started_at` is {}, and here it is {now}", request.started_at),
            "set the clock of the runner's host",
        ));
    }
    if request.started_at < now - chrono::Duration::days(MAX_AGE_DAYS) {
        return Err(Error::bad_request(
            format!("`started_at` is {}, more than ten years ago", request.started_at),
            "set the clock of the runner's host",
        ));
    }
    Ok(())
}

fn storable_pairs(pairs: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| (storable(key), storable(value))).collect()
}

/// Stores the manifest of a run; from then on every planned case has a verdict, `missing` first.
pub async fn put_manifest(
    state: &AppState,
    key: &RunKey,
    request: put_manifest::Request,
) -> Result<put_manifest::Response> {
    let hash = check_manifest(&request)?;
    let planned = i64::try_from(request.cases.len()).unwrap_or(i64::MAX);
    if runs::find(state.db.pool(), key.as_str()).await?.is_none() {
        return Err(Error::no_such("run", key));
    }
    manifests::store_cases(state.db.pool(), &request.cases).await?;

    let mut transaction = state.db.pool().begin().await?;
    let run = super::lock(&mut transaction, key).await?;
    super::refuse_void(&run)?;
    match &run.manifest_sha256 {
        Some(stored) if *stored == hash => {
            return Ok(put_manifest::Response { planned: run.planned });
        }
        Some(stored) => {
            return Err(Error::conflict(
                format!("run `{key}` has another manifest (`{}`)", hex::encode(stored)),
                "every shard and host of a run must plan the same cases in the same order",
            ));
        }
        None => {}
    }
    if let Some(case) = request.cases.iter().find(|case| !run.suites.contains(&case.suite())) {
        return Err(Error::bad_request(
            format!("`{case}` is of suite `{}`, which run `{key}` did not announce", case.suite()),
            "announce every suite that the manifest has cases of",
        ));
    }
    summaries::forget(&mut transaction, &run).await?;
    manifests::store_entries(&mut transaction, &run, &request.cases).await?;
    runs::note_manifest(&mut transaction, &run, &hash, planned, state.clock.now()).await?;
    if run.state == RunState::Sealed {
        let worth = verdicts::tally(&mut *transaction, run.id).await?.completeness();
        runs::correct_completeness(&mut transaction, &run, worth).await?;
    }
    transaction.commit().await?;
    if planned >= super::LARGE_RUN {
        // Every batch is looked up among these rows.
        crate::db::refresh_statistics(state.db.pool(), run.day()).await?;
    }
    Ok(put_manifest::Response { planned: request.cases.len() as u64 })
}

/// The manifest's hash, when it is what the request says.
fn check_manifest(request: &put_manifest::Request) -> Result<Vec<u8>> {
    if request.cases.is_empty() {
        return Err(Error::bad_request(
            "`cases` is empty",
            "a run without a planned case can never be complete; select something",
        ));
    }
    let mut seen = HashSet::with_capacity(request.cases.len());
    if let Some(twice) = request.cases.iter().find(|case| !seen.insert(case.as_str())) {
        return Err(Error::bad_request(
            format!("`cases` has `{twice}` twice"),
            "a case is planned once; a retry is another attempt",
        ));
    }
    let text = put_manifest::Request::hash_text(&request.cases);
    let hash = Sha256::digest(text.as_bytes()).to_vec();
    if hex::encode(&hash) != request.hash {
        return Err(Error::bad_request(
            "`hash` is not the SHA-256 of the cases",
            "hash every case key followed by a line feed, in order, in lower-case hex",
        ));
    }
    Ok(hash)
}
