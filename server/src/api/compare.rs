//! Two runs side by side: by category, on the cases that both planned, with a line that says how
//! much of each that is.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::response::Response;
use protocol::{RunKey, Suite};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::table::{self, Format};
use super::{paging, runs};
use crate::app::AppState;
use crate::db::compare::{self, Group, PairRow};
use crate::db::read_words::Word;
use crate::error::Result;
use crate::extract::Query;
use crate::judge::compare::{Category, categorise, has_passed, is_learnt};

/// The endpoints.
pub fn router() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(compare_runs))
}

/// Query of a comparison.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct CompareQuery {
    /// Key of the first run.
    a: RunKey,
    /// Key of the second run.
    b: RunKey,
    suite: Option<Suite>,
    /// List only these cases; without it those that changed.
    category: Option<Category>,
    limit: Option<u32>,
    cursor: Option<String>,
    /// How it is written.
    #[serde(default)]
    format: Format,
}

/// A case in two runs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PairBody {
    case: String,
    category: Category,
    verdict_a: Option<String>,
    verdict_b: Option<String>,
    outcome_a: Option<String>,
    outcome_b: Option<String>,
    /// First line of what went wrong in the second run.
    message: String,
    /// Overload blamed in the second run.
    operator: Option<String>,
}

/// One side.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SideBody {
    run: String,
    device_profile: String,
    simulated: bool,
    /// Cases planned, of the suite when one was asked for.
    pub(crate) planned: u64,
    /// Passed, of `counted` in the answer: the cases that both planned and learnt something of.
    pub(crate) passed: u64,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CompareBody {
    pub(crate) a: SideBody,
    pub(crate) b: SideBody,
    /// Cases that both planned.
    pub(crate) common: u64,
    /// Of those, cases that both learnt something of.
    pub(crate) counted: u64,
    /// The same in a sentence.
    pub(crate) coverage: String,
    /// Parts of the version tuple that differ: first and second.
    versions: BTreeMap<String, [Option<String>; 2]>,
    /// Cases per category.
    pub(crate) counts: BTreeMap<Category, u64>,
    cases: Vec<PairBody>,
    next: Option<String>,
}

/// What changes between two runs, without those that stay as they are.
pub(crate) const CHANGES: [Category; 7] = [
    Category::Regressed,
    Category::Fixed,
    Category::ChangedFailure,
    Category::New,
    Category::Gone,
    Category::NoLongerLearnt,
    Category::NewlyLearnt,
];

/// The category of a group of cases.
pub(crate) fn category_of(group: &Group) -> Option<Category> {
    let verdict = |side: Option<Word<_>>| side.map(|Word(verdict)| verdict);
    categorise(verdict(group.before), verdict(group.now), group.same)
}

/// Compares two runs.
#[utoipa::path(get, path = "/compare", tag = "runs", params(CompareQuery),
    responses((status = 200, description = "Counts, and a page of cases; with `format=csv` as CSV",
        body = CompareBody)))]
async fn compare_runs(
    State(state): State<AppState>,
    Query(query): Query<CompareQuery>,
) -> Result<Response> {
    let limit = paging::limit(query.limit)?;
    let after = paging::read(query.cursor.as_deref())?;
    let a = runs::find(&state, &query.a).await?;
    let b = runs::find(&state, &query.b).await?;
    let pool = state.db.pool();
    let list = compare::list_groups(pool, a.id, b.id, query.suite);
    let groups = state.db.kept("groups", &[a.id, b.id], query.suite, list).await?;
    let is_wanted = |group: &&Group| match (category_of(group), query.category) {
        (Some(category), Some(wanted)) => category == wanted,
        (Some(category), None) => CHANGES.contains(&category),
        (None, _) => false,
    };
    let wanted: Vec<Group> = groups.iter().filter(is_wanted).cloned().collect();
    let mut pairs = compare::list_pairs(
        pool,
        a.id,
        b.id,
        query.suite,
        &wanted,
        after.as_deref(),
        paging::fetch(limit),
    )
    .await?;
    let next = paging::cut(&mut pairs, limit, |pair| pair.case.clone());
    let mut body = count(&groups);
    body.a.run = a.key;
    body.a.device_profile = a.device_profile;
    body.a.simulated = a.simulated;
    body.b.run = b.key;
    body.b.device_profile = b.device_profile;
    body.b.simulated = b.simulated;
    body.versions = differences(&a.versions, &b.versions);
    body.cases = pairs.into_iter().filter_map(show).collect();
    body.next = next;
    let name = format!("{}-{}", body.a.run, body.b.run);
    table::answer(query.format, &name, &body, &body.cases, body.next.as_deref())
}

fn show(pair: PairRow) -> Option<PairBody> {
    let verdict = |side: Option<Word<protocol::Verdict>>| side.map(|Word(verdict)| verdict);
    let (before, now) = (verdict(pair.before), verdict(pair.now));
    Some(PairBody {
        category: categorise(before, now, pair.same)?,
        case: pair.case,
        verdict_a: before.map(|verdict| verdict.as_str().to_owned()),
        verdict_b: now.map(|verdict| verdict.as_str().to_owned()),
        outcome_a: pair.outcome_before,
        outcome_b: pair.outcome_now,
        message: table::cell(&pair.message.unwrap_or_default()),
        operator: pair.operator,
    })
}

/// Every figure of the answer, from the counts of pairs of verdicts.
pub(crate) fn count(groups: &[Group]) -> CompareBody {
    let side = || SideBody {
        run: String::new(),
        device_profile: String::new(),
        simulated: false,
        planned: 0,
        passed: 0,
    };
    let mut body = CompareBody {
        a: side(),
        b: side(),
        common: 0,
        counted: 0,
        coverage: String::new(),
        versions: BTreeMap::new(),
        counts: BTreeMap::new(),
        cases: Vec::new(),
        next: None,
    };
    for group in groups {
        let cases = u64::try_from(group.cases).unwrap_or(0);
        if let Some(category) = category_of(group) {
            *body.counts.entry(category).or_default() += cases;
        }
        body.a.planned += if group.before.is_some() { cases } else { 0 };
        body.b.planned += if group.now.is_some() { cases } else { 0 };
        let (Some(Word(before)), Some(Word(now))) = (group.before, group.now) else { continue };
        body.common += cases;
        if is_learnt(before) && is_learnt(now) {
            body.counted += cases;
            body.a.passed += if has_passed(before) { cases } else { 0 };
            body.b.passed += if has_passed(now) { cases } else { 0 };
        }
    }
    body.coverage = format!(
        "{} cases are in both plans, of {} and {}; of {} of them both runs learnt something",
        body.common, body.a.planned, body.b.planned, body.counted
    );
    body
}

/// Parts of two version tuples that differ.
pub(crate) fn differences(
    a: &BTreeMap<String, String>,
    b: &BTreeMap<String, String>,
) -> BTreeMap<String, [Option<String>; 2]> {
    let names = a.keys().chain(b.keys());
    names
        .filter(|name| a.get(*name) != b.get(*name))
        .map(|name| (name.clone(), [a.get(name).cloned(), b.get(name).cloned()]))
        .collect()
}
