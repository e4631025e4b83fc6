//! The table `waivers`.

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, Utc};
use protocol::waiver::{Conditions, Terms, VersionRange};
use sqlx::PgExecutor;
use sqlx::types::Json;

use super::word;
use crate::ingest::{NewWaiver, When};
use crate::judge::waiver::Waiver;

/// A waiver as it is stored.
#[derive(Debug, Clone)]
pub struct WaiverRow {
    /// To name it by.
    pub id: i64,
    /// Case key in which `*` stands for any characters.
    pub case_pattern: String,
    /// Only of this suite.
    pub suite: Option<String>,
    /// Only of this model.
    pub model: Option<String>,
    /// Only failures blamed on this overload.
    pub operator: Option<String>,
    /// Only on these device profiles, when there are any; so with the lists that follow.
    pub device_profiles: Vec<String>,
    /// Only on these models of the device.
    pub device_kinds: Vec<String>,
    /// Only these element types.
    pub dtypes: Vec<String>,
    /// Only these modes.
    pub modes: Vec<String>,
    /// Only within these ranges of versions.
    pub versions: Json<BTreeMap<String, String>>,
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
    /// Whether the file made it.
    pub from_file: bool,
    /// The one in whose place it came.
    pub replaces: Option<i64>,
}

impl WaiverRow {
    /// As the judge reads it. Everything in the table was checked on its way in.
    pub fn terms(&self) -> sqlx::Result<Terms> {
        let range = |(name, text): (&String, &String)| {
            let range: VersionRange =
                text.parse().map_err(|e: String| sqlx::Error::Decode(e.into()))?;
            Ok((name.clone(), range))
        };
        Ok(Terms {
            case_pattern: self.case_pattern.clone(),
            suite: self.suite.as_deref().map(word).transpose()?,
            model: self.model.clone(),
            operator: self.operator.clone(),
            outcomes: self.outcomes.iter().map(|o| word(o)).collect::<sqlx::Result<_>>()?,
            conditions: Conditions {
                device_profiles: self.device_profiles.clone(),
                device_kinds: self.device_kinds.clone(),
                dtypes: self.dtypes.iter().map(|d| word(d)).collect::<sqlx::Result<_>>()?,
                modes: self.modes.iter().map(|m| word(m)).collect::<sqlx::Result<_>>()?,
                versions: self.versions.0.iter().map(range).collect::<sqlx::Result<_>>()?,
            },
            expires_on: self.expires_on,
        })
    }

    /// As it would be asked for again.
    pub fn statement(&self) -> sqlx::Result<NewWaiver> {
        let terms = self.terms()?;
        Ok(NewWaiver {
            case_pattern: terms.case_pattern,
            suite: terms.suite,
            model: terms.model,
            operator: terms.operator,
            when: When::of(terms.conditions),
            outcomes: terms.outcomes,
            reason: self.reason.clone(),
            owner: self.owner.clone(),
            issue: self.issue.clone(),
            author: Some(self.author.clone()),
            expires_on: self.expires_on,
        })
    }
}

/// Which waivers to read; everything that is not said is wanted.
#[derive(Debug, Clone, Copy, Default)]
struct Wanted {
    only_open: bool,
    after_day: Option<NaiveDate>,
    until_day: Option<NaiveDate>,
    only_of_file: bool,
    id: Option<i64>,
    /// Place in the list, which is that of the last line of the page before.
    after: Option<(NaiveDate, i64)>,
    limit: Option<i64>,
}

/// By the day they end, the last one first.
async fn select(db: impl PgExecutor<'_>, wanted: Wanted) -> sqlx::Result<Vec<WaiverRow>> {
    sqlx::query_as!(
        WaiverRow,
        r#"SELECT id, case_pattern, suite, model, operator, device_profiles, device_kinds, dtypes,
                  modes, versions AS "versions: Json<BTreeMap<String, String>>", outcomes, reason,
                  owner, issue, author, approver, created_at, expires_on, revoked_at, from_file,
                  replaces
           FROM waivers
           WHERE (NOT $1 OR revoked_at IS NULL)
             AND ($2::date IS NULL OR expires_on > $2)
             AND ($3::date IS NULL OR expires_on <= $3)
             AND (NOT $4 OR from_file)
             AND ($5::bigint IS NULL OR id = $5)
             AND ($6::date IS NULL OR (expires_on, id) < ($6, $7::bigint))
           ORDER BY expires_on DESC, id DESC LIMIT $8"#,
        wanted.only_open,
        wanted.after_day,
        wanted.until_day,
        wanted.only_of_file,
        wanted.id,
        wanted.after.map(|(expires_on, _)| expires_on),
        wanted.after.map(|(_, id)| id),
        wanted.limit
    )
    .fetch_all(db)
    .await
}

/// Waivers that hold on that day, oldest first.
pub async fn list_holding(db: impl PgExecutor<'_>, today: NaiveDate) -> sqlx::Result<Vec<Waiver>> {
    let wanted = Wanted { only_open: true, after_day: Some(today), ..Wanted::default() };
    let mut rows = select(db, wanted).await?;
    rows.sort_by_key(|row| row.id);
    rows.iter().map(|row| Ok(Waiver { id: row.id, terms: row.terms()? })).collect()
}

/// Every waiver, also those that ended, by the day they end; only those after `after`.
pub async fn list(
    db: impl PgExecutor<'_>,
    after: Option<(NaiveDate, i64)>,
    limit: i64,
) -> sqlx::Result<Vec<WaiverRow>> {
    select(db, Wanted { after, limit: Some(limit), ..Wanted::default() }).await
}

/// Waivers that the file made and nobody ended, also those whose day has come, in the order in
/// which they were made.
pub async fn list_of_file(db: impl PgExecutor<'_>) -> sqlx::Result<Vec<WaiverRow>> {
    let wanted = Wanted { only_open: true, only_of_file: true, ..Wanted::default() };
    let mut rows = select(db, wanted).await?;
    rows.sort_by_key(|row| row.id);
    Ok(rows)
}

/// Waivers that hold on that day and no longer after `until`, the one that ends first first. There
/// are at most as many as people keep in mind, so that this list has no pages.
pub async fn list_expiring(
    db: impl PgExecutor<'_>,
    today: NaiveDate,
    until: NaiveDate,
) -> sqlx::Result<Vec<WaiverRow>> {
    let wanted = Wanted {
        only_open: true,
        after_day: Some(today),
        until_day: Some(until),
        ..Wanted::default()
    };
    let mut rows = select(db, wanted).await?;
    rows.reverse();
    Ok(rows)
}

/// The waiver of that number, when nobody ended it.
pub async fn find_open(db: impl PgExecutor<'_>, id: i64) -> sqlx::Result<Option<WaiverRow>> {
    Ok(select(db, Wanted { only_open: true, id: Some(id), ..Wanted::default() }).await?.pop())
}

/// Keeps everybody else from making or ending waivers until the transaction ends.
pub async fn lock(db: impl PgExecutor<'_>) -> sqlx::Result<()> {
    sqlx::query!("LOCK TABLE waivers IN SHARE ROW EXCLUSIVE MODE").execute(db).await?;
    Ok(())
}

/// Stores a waiver; answers its id.
pub async fn create(
    db: impl PgExecutor<'_>,
    new: &NewWaiver,
    approver: &str,
    of: Origin,
    now: DateTime<Utc>,
) -> sqlx::Result<i64> {
    let texts = |words: Vec<&str>| words.into_iter().map(str::to_owned).collect::<Vec<_>>();
    let versions: BTreeMap<&String, String> =
        new.when.versions.iter().map(|(name, range)| (name, range.to_string())).collect();
    sqlx::query_scalar!(
        "INSERT INTO waivers (case_pattern, suite, model, operator, device_profiles, device_kinds,
                              dtypes, modes, versions, outcomes, reason, owner, issue, author,
                              approver, created_at, expires_on, from_file, replaces)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
                 $19)
         RETURNING id",
        new.case_pattern,
        new.suite.as_ref().map(protocol::Suite::as_str),
        new.model,
        new.operator,
        &new.when.device,
        &new.when.device_kind,
        &texts(new.when.dtype.iter().map(|dtype| dtype.as_str()).collect()),
        &texts(new.when.mode.iter().map(|mode| mode.as_str()).collect()),
        Json(versions) as _,
        &texts(new.outcomes.iter().map(|outcome| outcome.as_str()).collect()),
        new.reason,
        new.owner,
        new.issue,
        new.author(),
        approver,
        now,
        new.expires_on,
        of.from_file,
        of.replaces
    )
    .fetch_one(db)
    .await
}

/// Where a waiver comes from.
#[derive(Debug, Clone, Copy, Default)]
pub struct Origin {
    /// The file that is kept with the code.
    pub from_file: bool,
    /// The one that it was before.
    pub replaces: Option<i64>,
}

/// Ends a waiver.
pub async fn revoke(db: impl PgExecutor<'_>, id: i64, now: DateTime<Utc>) -> sqlx::Result<()> {
    sqlx::query!("UPDATE waivers SET revoked_at = $2 WHERE id = $1", id, now).execute(db).await?;
    Ok(())
}
