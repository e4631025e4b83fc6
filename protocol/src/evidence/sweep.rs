//! The sizes of a dynamism case.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Outcome;

/// One size of a dynamism sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SweepPoint {
    /// Named sizes: `sequence=17`.
    pub label: String,
    /// Size per named dimension.
    pub sizes: BTreeMap<String, u64>,
    /// Whether the size is inside the declared bounds.
    pub inside: bool,
    /// What was observed at this size.
    pub outcome: Outcome,
    /// Graphs compiled up to and including this size.
    pub graph_count: u64,
    /// Outside the bounds: `refused`, `recompiled` or `accepted` (no error and no new graph).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boundary: Option<String>,
    /// First line of what went wrong, if anything.
    #[serde(default)]
    pub message: String,
}
