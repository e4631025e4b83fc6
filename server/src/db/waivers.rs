//! The table `waivers`.

use chrono::NaiveDate;
use sqlx::PgExecutor;

use super::word;
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
            Ok(Waiver {
                id: row.id,
                case_pattern: row.case_pattern,
                operator: row.operator,
                device_profile: row.device_profile,
                outcomes: row.outcomes.iter().map(|o| word(o)).collect::<sqlx::Result<_>>()?,
                expires_on: row.expires_on,
            })
        })
        .collect()
}
