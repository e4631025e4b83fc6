//! The waivers that are kept with the code, in the file that `runner --waivers` reads: one request
//! brings those of the server in step with it. What it would do is a pure function of the file and
//! of what is stored, so that a dry run says exactly what the same request then does.

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::NewWaiver;
use super::waive::judge_again;
use crate::app::AppState;
use crate::db::audit;
use crate::db::tokens::Caller;
use crate::db::waivers::{self, Origin, WaiverRow};
use crate::error::{Error, Result};

/// Most waivers in one file: more than people keep in mind.
const MAX_WAIVERS: usize = 5_000;
/// Most mistakes told at once.
const MAX_MISTAKES: usize = 20;

/// One waiver of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    /// Where it begins, from 1.
    line: usize,
    /// What it says.
    waiver: NewWaiver,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    #[serde(default)]
    waiver: Vec<toml::Spanned<NewWaiver>>,
}

/// Reads the text of a file; the error names the line.
fn read(bytes: &[u8], today: NaiveDate) -> Result<Vec<Entry>> {
    let hint = "docs/waivers.md describes every field";
    let text = std::str::from_utf8(bytes)
        .map_err(|_| Error::bad_request("the waiver file is not UTF-8", "write it as UTF-8"))?;
    let line_of = |offset: usize| text[..offset.min(text.len())].matches('\n').count() + 1;
    let refused = |path: &str, error: &toml::de::Error| {
        let line = line_of(error.span().map_or(0, |span| span.start));
        let message = error.message().trim().replace('\n', ", ");
        // `waiver[0].…value.when.device`: what stands for the place in the text says nothing.
        let names = path.split('.').skip(1).filter(|name| !name.starts_with(['$', '?']));
        let field = names.collect::<Vec<_>>().join(".");
        let field = if field.is_empty() { field } else { format!("`{field}`: ") };
        Error::bad_request(format!("the waiver file, line {line}: {field}{message}"), hint)
    };
    let reader = toml::Deserializer::parse(text).map_err(|error| refused("", &error))?;
    let parsed: Text = serde_path_to_error::deserialize(reader)
        .map_err(|error| refused(&error.path().to_string(), error.inner()))?;
    if parsed.waiver.len() > MAX_WAIVERS {
        return Err(Error::bad_request(
            format!("the waiver file has {} waivers", parsed.waiver.len()),
            format!("at most {MAX_WAIVERS}; one pattern can cover many cases"),
        ));
    }
    let entries: Vec<Entry> = parsed
        .waiver
        .into_iter()
        .map(|spanned| Entry { line: line_of(spanned.span().start), waiver: spanned.into_inner() })
        .collect();
    let mut mistakes = Vec::new();
    for (place, entry) in entries.iter().enumerate() {
        let problems = entry.waiver.problems(today).into_iter();
        mistakes.extend(problems.map(|(field, problem, _)| (entry.line, field, problem)));
        if let Some(twin) = entries[..place].iter().find(|other| other.waiver == entry.waiver) {
            mistakes.push((entry.line, "waiver", format!("is that of line {} again", twin.line)));
        }
    }
    refuse(&mistakes, hint)?;
    Ok(entries)
}

/// All mistakes in one refusal, so that a file is repaired at once.
fn refuse(mistakes: &[(usize, &str, String)], hint: &str) -> Result<()> {
    if mistakes.is_empty() {
        return Ok(());
    }
    let told = mistakes.iter().take(MAX_MISTAKES);
    let told: Vec<String> =
        told.map(|(line, field, problem)| format!("line {line}: `{field}` {problem}")).collect();
    let more = mistakes.len().saturating_sub(MAX_MISTAKES);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    Err(Error::bad_request(format!("the waiver file, {}{more}", told.join("; ")), hint))
}

/// What a sync does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct SyncPlan {
    /// Waivers that the file has and the server has not.
    pub added: Vec<Added>,
    /// Waivers of the same scope that say something else now: the old one ends, a new one is made.
    pub changed: Vec<Changed>,
    /// Waivers that the server has from the file, and the file has no longer.
    pub ended: Vec<Ended>,
    /// Waivers that stay as they are.
    pub unchanged: u64,
    /// Waivers of the file whose day has come, and which are not made.
    pub expired: Vec<Expired>,
}

/// A waiver to make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Added {
    /// Its number; null in a dry run.
    pub waiver: Option<i64>,
    /// Where it stands in the file.
    pub line: usize,
    /// What it covers.
    pub scope: String,
    /// Which of the entries it is, from 0.
    #[serde(skip)]
    pub entry: usize,
}

/// A waiver to make in another one's place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Changed {
    /// Its number; null in a dry run.
    pub waiver: Option<i64>,
    /// The one that ends.
    pub replaces: i64,
    /// Where it stands in the file.
    pub line: usize,
    /// What it covers.
    pub scope: String,
    /// Fields that differ.
    pub fields: Vec<String>,
    /// Which of the entries it is, from 0.
    #[serde(skip)]
    pub entry: usize,
}

/// A waiver to end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Ended {
    /// Its number.
    pub waiver: i64,
    /// What it covered.
    pub scope: String,
}

/// A waiver of the file that is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Expired {
    /// Where it stands in the file.
    pub line: usize,
    /// What it covered.
    pub scope: String,
    /// The day.
    pub expires_on: NaiveDate,
}

/// What has to be done to what is stored, by number, so that it is as the file says.
fn plan(stored: &[(i64, NewWaiver)], entries: &[Entry], today: NaiveDate) -> SyncPlan {
    let mut plan = SyncPlan::default();
    let mut left: Vec<&(i64, NewWaiver)> = stored.iter().collect();
    let mut new: Vec<(usize, &Entry)> = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        let same = |(_, waiver): &&(i64, NewWaiver)| is_same(waiver, &entry.waiver);
        if let Some(place) = left.iter().position(same) {
            left.remove(place);
            plan.unchanged += 1;
        } else if entry.waiver.expires_on <= today {
            plan.expired.push(Expired {
                line: entry.line,
                scope: scope(&entry.waiver),
                expires_on: entry.waiver.expires_on,
            });
        } else {
            new.push((number, entry));
        }
    }
    for (number, entry) in new {
        let (line, scope) = (entry.line, scope(&entry.waiver));
        let alike = |(_, waiver): &&(i64, NewWaiver)| has_scope_of(waiver, &entry.waiver);
        match left.iter().position(alike) {
            Some(place) => {
                let (replaces, before) = left.remove(place);
                let fields = differences(before, &entry.waiver);
                let replaces = *replaces;
                let changed =
                    Changed { waiver: None, replaces, line, scope, fields, entry: number };
                plan.changed.push(changed);
            }
            None => plan.added.push(Added { waiver: None, line, scope, entry: number }),
        }
    }
    plan.ended =
        left.into_iter().map(|(id, old)| Ended { waiver: *id, scope: scope(old) }).collect();
    plan
}

/// An absent author is the owner, and is stored as such.
fn is_same(a: &NewWaiver, b: &NewWaiver) -> bool {
    a.author() == b.author()
        && NewWaiver { author: None, ..a.clone() } == NewWaiver { author: None, ..b.clone() }
}

fn has_scope_of(a: &NewWaiver, b: &NewWaiver) -> bool {
    (&a.case_pattern, a.suite, &a.model, &a.operator, &a.when)
        == (&b.case_pattern, b.suite, &b.model, &b.operator, &b.when)
}

fn differences(a: &NewWaiver, b: &NewWaiver) -> Vec<String> {
    let fields = |waiver: &NewWaiver| {
        let author = Some(waiver.author().to_owned());
        json!(NewWaiver { author, ..waiver.clone() })
    };
    let (a, b) = (fields(a), fields(b));
    let names = a.as_object().into_iter().flat_map(|map| map.keys());
    names.filter(|name| a[name.as_str()] != b[name.as_str()]).cloned().collect()
}

/// In words, for people.
fn scope(waiver: &NewWaiver) -> String {
    let parts = [
        Some(waiver.case_pattern.clone()),
        waiver.suite.map(|suite| format!("suite {suite}")),
        waiver.model.as_ref().map(|model| format!("model {model}")),
        waiver.operator.as_ref().map(|operator| format!("blamed on {operator}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Brings the waivers from the file in step with it, all or nothing; with `dry_run` says only what
/// that would be.
pub async fn sync_waivers(
    state: &AppState,
    caller: &Caller,
    bytes: &[u8],
    dry_run: bool,
) -> Result<SyncPlan> {
    let now = state.clock.now();
    let today = now.date_naive();
    let entries = read(bytes, today)?;
    let file = hex::encode(Sha256::digest(bytes));
    let mut transaction = state.db.pool().begin().await?;
    if !dry_run {
        waivers::lock(&mut *transaction).await?;
    }
    let rows = waivers::list_of_file(&mut *transaction).await?;
    let of = |row: &WaiverRow| Ok((row.id, row.statement()?));
    let stored = rows.iter().map(of).collect::<Result<Vec<_>>>()?;
    let mut plan = plan(&stored, &entries, today);
    let made = plan.added.iter().map(|a| a.entry).chain(plan.changed.iter().map(|c| c.entry));
    let own = made
        .map(|place| &entries[place])
        .filter(|entry| entry.waiver.is_asked_for_by(&caller.name))
        .map(|entry| (entry.line, "author", "is who sends the file".to_owned()));
    refuse(&own.collect::<Vec<_>>(), "a waiver is approved by somebody else's token")?;
    if dry_run {
        return Ok(plan);
    }

    let audit = async |connection: &mut sqlx::PgConnection, action, id: i64, detail: Value| {
        let subject = format!("waiver {id}");
        let detail = json!({ "file_sha256": file, "waiver": detail });
        audit::record(connection, Some(caller), action, &subject, detail).await
    };
    let mut touched = Vec::new();
    let old = plan.changed.iter().map(|changed| changed.replaces);
    for id in old.chain(plan.ended.iter().map(|ended| ended.waiver)).collect::<Vec<_>>() {
        waivers::revoke(&mut *transaction, id, now).await?;
        touched.extend(stored.iter().find(|(known, _)| *known == id).map(|(_, old)| old.terms()));
    }
    for ended in &plan.ended {
        audit(&mut transaction, "waiver.end", ended.waiver, json!({})).await?;
    }
    let new = plan.added.iter_mut().map(|added| (added.entry, None, &mut added.waiver));
    let changed = plan
        .changed
        .iter_mut()
        .map(|changed| (changed.entry, Some(changed.replaces), &mut changed.waiver));
    for (place, replaces, number) in new.chain(changed) {
        let entry = &entries[place];
        let origin = Origin { from_file: true, replaces };
        let id =
            waivers::create(&mut *transaction, &entry.waiver, &caller.name, origin, now).await?;
        let action = if replaces.is_some() { "waiver.change" } else { "waiver.create" };
        audit(&mut transaction, action, id, json!(entry.waiver)).await?;
        *number = Some(id);
        touched.push(entry.waiver.terms());
    }
    transaction.commit().await?;
    judge_again(state, &touched).await?;
    Ok(plan)
}

#[cfg(test)]
#[path = "waiver_file_tests.rs"]
mod tests;
