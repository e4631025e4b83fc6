//! Queries of the waivers page: how many hold, and which cases they might speak of.

use std::collections::BTreeMap;

use chrono::NaiveDate;
use protocol::{Outcome, Verdict};
use sqlx::PgExecutor;
use sqlx::types::Json;

use super::read_words::Word;

/// Days before its end from which a waiver counts as expiring.
pub const EXPIRING_DAYS: i32 = 14;

/// Waivers counted.
#[derive(Debug, Clone, Copy)]
pub struct WaiverTally {
    /// That hold today.
    pub holding: i64,
    /// Of those, that end within [`EXPIRING_DAYS`].
    pub expiring: i64,
    /// That ended by their date, not by a person.
    pub expired: i64,
}

/// Counts the waivers on that day.
pub async fn tally(db: impl PgExecutor<'_>, today: NaiveDate) -> sqlx::Result<WaiverTally> {
    sqlx::query_as!(
        WaiverTally,
        r#"SELECT count(*) FILTER (WHERE expires_on > $1) AS "holding!",
                  count(*) FILTER (WHERE expires_on > $1 AND expires_on <= $1 + $2::integer)
                      AS "expiring!",
                  count(*) FILTER (WHERE expires_on <= $1) AS "expired!"
           FROM waivers WHERE revoked_at IS NULL"#,
        today,
        EXPIRING_DAYS
    )
    .fetch_one(db)
    .await
}

/// A case that something is to be said of: it did not pass, or passed against what was expected.
#[derive(Debug, Clone)]
pub struct OpenCase {
    /// The newest run of its device profile and suite.
    pub run_key: String,
    /// Where it was executed.
    pub device_profile: String,
    /// Model of that device.
    pub device_kind: String,
    /// Version tuple of the run.
    pub versions: Json<BTreeMap<String, String>>,
    /// Whether that was simulated.
    pub simulated: bool,
    /// Key of the case.
    pub case: String,
    /// The judgement.
    pub verdict: Word<Verdict>,
    /// The worst outcome.
    pub outcome: Word<Outcome>,
    /// Overload to blame.
    pub operator: Option<String>,
}

/// Cases of these (run, suite) pairs, read in parallel, with an attempt and no plain pass.
pub async fn list_open_cases(
    db: impl PgExecutor<'_>,
    run_ids: &[i64],
    suites: &[String],
) -> sqlx::Result<Vec<OpenCase>> {
    sqlx::query_as!(
        OpenCase,
        r#"SELECT r.key AS run_key, r.device_profile, r.device_kind,
                  r.versions AS "versions: Json<BTreeMap<String, String>>", r.simulated,
                  c.key AS case,
                  v.verdict AS "verdict: Word<Verdict>", v.outcome AS "outcome!: Word<Outcome>",
                  v.operator
           FROM unnest($1::bigint[], $2::text[]) AS w (run_id, suite)
           JOIN runs r ON r.id = w.run_id
           JOIN case_verdicts v ON v.run_id = w.run_id
           JOIN cases c ON c.id = v.case_id AND c.suite = w.suite
           WHERE v.outcome IS NOT NULL AND v.verdict NOT IN ('passed', 'fixed')
           ORDER BY r.device_profile, c.key"#,
        run_ids,
        suites
    )
    .fetch_all(db)
    .await
}
