//! The table `waivers`.

use chrono::{DateTime, NaiveDate, Utc};
use protocol::waiver::{Conditions, Terms};
use sqlx::PgExecutor;

use super::word;
use crate::ingest::NewWaiver;
use crate::judge::waiver::Waiver;

/// Waivers that hold on that day, oldest first.
pub async fn list_holding(db: impl PgExecutor<'_>, today: NaiveDate) -> sqlx::Result<Vec<Waiver>> {
    let rows = sqlx::query!(
        "SELECT id, case_pattern, operator, device_profile, outcomes, expires_on
         FROM waivers WHERE revoked_at IS NULL AND expires_on > $1 ORDER BY id",
        today
    )
    .fetch_all(db)
    .await?;
    rows.into_iter()
        .map(|row| {
            let terms = Terms {
                case_pattern: row.case_pattern,
                suite: None,
                model: None,
                operator: row.operator,
                outcomes: row.outcomes.iter().map(|o| word(o)).collect::<sqlx::Result<_>>()?,
                conditions: Conditions {
                    device_profiles: row.device_profile.into_iter().collect(),
                    ..Conditions::default()
                },
                expires_on: row.expires_on,
            };
            Ok(Waiver { id: row.id, terms })
        })
        .collect()
}

/// A waiver as it is listed.
#[derive(Debug, Clone)]
pub struct WaiverRow {
    /// To name it by.
    pub id: i64,
    /// Case key in which `*` stands for any characters.
    pub case_pattern: String,
    /// Only failures blamed on this overload.
    pub operator: Option<String>,
    /// Only on this device profile.
    pub device_profile: Option<String>,
    /// Outcomes that it forgives.
    pub outcomes: Vec<String>,
    /// Why it may pass.
    pub reason: String,
    /// Who gets it repaired.
    pub owner: String,
    /// Where that is followed.
    pub issue: String,
    /// Who asked for it.
    pub author: String,
    /// Whose token made it.
    pub approver: String,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// First day on which it no longer holds.
    pub expires_on: NaiveDate,
    /// When it was ended before its time.
    pub revoked_at: Option<DateTime<Utc>>,
}

/// Every waiver, also those that ended, by the day they end; only those after `after`.
pub async fn list(
    db: impl PgExecutor<'_>,
    after: Option<(NaiveDate, i64)>,
    limit: i64,
) -> sqlx::Result<Vec<WaiverRow>> {
    sqlx::query_as!(
        WaiverRow,
        "SELECT id, case_pattern, operator, device_profile, outcomes, reason, owner, issue,
                author, approver, created_at, expires_on, revoked_at
         FROM waivers
         WHERE $1::date IS NULL OR (expires_on, id) < ($1, $2::bigint)
         ORDER BY expires_on DESC, id DESC LIMIT $3",
        after.map(|(expires_on, _)| expires_on),
        after.map(|(_, id)| id),
        limit
    )
    .fetch_all(db)
    .await
}

/// Stores a waiver; answers its id.
pub async fn create(
    db: impl PgExecutor<'_>,
    new: &NewWaiver,
    approver: &str,
    now: DateTime<Utc>,
) -> sqlx::Result<i64> {
    let outcomes: Vec<String> = new.outcomes.iter().map(|o| o.as_str().to_owned()).collect();
    sqlx::query_scalar!(
        "INSERT INTO waivers (case_pattern, operator, device_profile, outcomes, reason, owner,
                              issue, author, approver, created_at, expires_on)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) RETURNING id",
        new.case_pattern,
        new.operator,
        new.device_profile,
        &outcomes,
        new.reason,
        new.owner,
        new.issue,
        new.author,
        approver,
        now,
        new.expires_on
    )
    .fetch_one(db)
    .await
}

/// Ends a waiver; its pattern, or none when there is no such waiver that holds.
pub async fn revoke(
    db: impl PgExecutor<'_>,
    id: i64,
    now: DateTime<Utc>,
) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar!(
        "UPDATE waivers SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL
         RETURNING case_pattern",
        id,
        now
    )
    .fetch_optional(db)
    .await
}

/// Waivers that hold on that day and no longer after `until`, the one that ends first first. There
/// are at most as many as people keep in mind, so that this list has no pages.
pub async fn list_expiring(
    db: impl PgExecutor<'_>,
    today: NaiveDate,
    until: NaiveDate,
) -> sqlx::Result<Vec<WaiverRow>> {
    sqlx::query_as!(
        WaiverRow,
        "SELECT id, case_pattern, operator, device_profile, outcomes, reason, owner, issue,
                author, approver, created_at, expires_on, revoked_at
         FROM waivers WHERE revoked_at IS NULL AND expires_on > $1 AND expires_on <= $2
         ORDER BY expires_on, id",
        today,
        until
    )
    .fetch_all(db)
    .await
}
