//! Runner → server: one module per endpoint, each with its `Request` and `Response`.
//!
//! All of them are idempotent: the run by its key, the manifest by its hash, a result by run key,
//! case key and attempt number. The same key with another body is refused with 409, so that a
//! replay is harmless and a clash is loud.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::{CaseKey, Evidence, Outcome, RunKey, Stage, Suite};

/// Most results in one batch.
pub const MAX_BATCH_RESULTS: usize = 1_000;
/// Most bytes in one request body, after decompression.
pub const MAX_BODY_BYTES: usize = 8 * 1024 * 1024;
/// Longest message kept with an attempt, in bytes.
pub const MAX_MESSAGE_BYTES: usize = 1_024;

/// `POST /api/v1/runs`: announces a run. 201 the first time, 200 for a replay.
pub mod create_run {
    use super::{BTreeMap, DateTime, Deserialize, RunKey, Serialize, Suite, Utc};

    /// What a run is, before its first case is executed.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    #[cfg_attr(feature = "schema", schema(as = CreateRunRequest))]
    #[serde(deny_unknown_fields)]
    pub struct Request {
        /// [`crate::PROTOCOL_VERSION`] of the sender.
        pub protocol_version: u32,
        /// Chosen by the runner.
        pub run_key: RunKey,
        /// Suites planned.
        pub suites: Vec<Suite>,
        /// Device profile: `tpu`, `tpu-sim`, `cuda`, `cpu`, `faulty`.
        pub device_profile: String,
        /// Model of the device as it names itself, for example `TPU v6e`.
        pub device_kind: String,
        /// Whether results are simulated (`tpu-sim`, `faulty`), which every page then says.
        pub simulated: bool,
        /// Version tuple: `torch`, `torch_tpu`, `libtpu`, `xla`, `driver`, `python`,
        /// `python_lock`, `runner`, `host_image`, `commit`, `dirty`, `tolerances`, … . An unknown
        /// part is absent, not guessed.
        pub versions: BTreeMap<String, String>,
        /// Host name as the runner claims it; that of the first shard to come.
        pub host: String,
        /// When the runner started, by its clock. Host and start are what shards of one run need
        /// not agree in.
        pub started_at: DateTime<Utc>,
        /// Free labels: `branch`, `release`, `nightly`, … .
        #[serde(default)]
        pub labels: BTreeMap<String, String>,
    }

    /// The run as stored.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    #[cfg_attr(feature = "schema", schema(as = CreateRunResponse))]
    pub struct Response {
        /// Echo of the key.
        pub run_key: RunKey,
        /// Path of the run's page, relative to the server's address.
        pub page: String,
        /// Whether this request created it.
        pub created: bool,
    }
}

/// `PUT /api/v1/runs/{run}/manifest`: the ordered set of planned cases.
pub mod put_manifest {
    use super::{CaseKey, Deserialize, Serialize};

    /// The plan, sent before the first case is executed.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    #[cfg_attr(feature = "schema", schema(as = PutManifestRequest))]
    #[serde(deny_unknown_fields)]
    pub struct Request {
        /// SHA-256, lower-case hex, over every case key followed by a line feed, in order.
        pub hash: String,
        /// Planned cases in order, without duplicates.
        pub cases: Vec<CaseKey>,
    }

    /// What is stored.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    #[cfg_attr(feature = "schema", schema(as = PutManifestResponse))]
    pub struct Response {
        /// Cases in the stored manifest.
        pub planned: u64,
    }
}

/// `PUT /api/v1/runs/{run}/inventory`: what the dispatcher of the build knows; the body is an
/// [`Inventory`](crate::inventory::Inventory).
pub mod put_inventory {
    use super::{Deserialize, Serialize};

    /// What is stored.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    pub struct Response {
        /// SHA-256 of the inventory: builds with the same one share it.
        pub hash: String,
    }
}

/// One attempt at one case, as the runner observed it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    /// The case.
    pub case: CaseKey,
    /// From 1; a retry adds an attempt and never overwrites one.
    pub attempt: u32,
    /// What was observed.
    pub outcome: Outcome,
    /// Where it stopped; absent on a pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
    /// Class of the error: an exception class, `SIGABRT`, `values-differ`, … .
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error_class: String,
    /// First line of what went wrong, at most [`MAX_MESSAGE_BYTES`] bytes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Overload to blame, for example `aten::_fft_r2c`, when known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// When it began, by the runner's clock.
    pub started_at: DateTime<Utc>,
    /// Wall seconds it took.
    pub seconds: f64,
    /// What backs the outcome.
    pub evidence: Evidence,
}

/// Who sends: one journal of one runner. Two sources of one run never share a number of an
/// attempt: what both call attempt 1 are two attempts, and the worst of them stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Random name of the journal, the same for every delivery of it; at most 80 characters.
    pub journal: String,
    /// The shard of the run that it holds, from 1.
    pub shard: u32,
    /// How many shards the run has; 1 when it is not divided.
    pub shards: u32,
}

/// `POST /api/v1/runs/{run}/results`: a batch of attempts.
pub mod post_results {
    use super::{Attempt, Deserialize, Serialize, Source};

    /// At most [`super::MAX_BATCH_RESULTS`] attempts and [`super::MAX_BODY_BYTES`] bytes.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    #[cfg_attr(feature = "schema", schema(as = PostResultsRequest))]
    #[serde(deny_unknown_fields)]
    pub struct Request {
        /// Who sends them; absent means the only sender of an undivided run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub source: Option<Source>,
        /// Any order.
        pub results: Vec<Attempt>,
    }

    /// What came of the batch; either all of it is stored or none.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    #[cfg_attr(feature = "schema", schema(as = PostResultsResponse))]
    pub struct Response {
        /// Attempts stored now.
        pub stored: u64,
        /// Attempts that were there already, with the same body.
        pub replayed: u64,
    }
}

/// `POST /api/v1/runs/{run}/seal`: the runner has nothing more to send.
pub mod seal_run {
    use super::{DateTime, Deserialize, Serialize, Source, Utc};

    /// Ends the run, or one shard of it. Repeatable.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    #[cfg_attr(feature = "schema", schema(as = SealRunRequest))]
    #[serde(deny_unknown_fields)]
    pub struct Request {
        /// Who ends; absent means the only sender of an undivided run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub source: Option<Source>,
        /// Attempts that this source has sent. When the server has fewer it answers 409 with both
        /// numbers, and the runner sends again.
        pub attempts: u64,
        /// When the last case ended, by the runner's clock.
        pub finished_at: DateTime<Utc>,
    }

    /// The run's completeness.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
    #[cfg_attr(feature = "schema", schema(as = SealRunResponse))]
    pub struct Response {
        /// `complete` or `incomplete`.
        pub completeness: String,
        /// Cases in the manifest.
        pub planned: u64,
        /// Cases with a judged verdict.
        pub judged: u64,
        /// Cases without any attempt.
        pub missing: u64,
        /// Shards that have not ended yet; the run is sealed when there is none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub waiting_for: Vec<u32>,
    }
}

/// The body of every answer that is not a success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ErrorBody {
    /// HTTP status.
    pub status: u16,
    /// What is wrong, naming the thing.
    pub title: String,
    /// What to do next; may be empty.
    pub hint: String,
    /// To find the request in the server's log.
    pub request_id: String,
}

impl put_manifest::Request {
    /// Text whose SHA-256 is the manifest hash: every case key followed by a line feed.
    #[must_use]
    pub fn hash_text<'a>(cases: impl IntoIterator<Item = &'a CaseKey>) -> String {
        let mut text = String::new();
        for case in cases {
            text.push_str(case.as_str());
            text.push('\n');
        }
        text
    }
}
