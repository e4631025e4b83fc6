//! Two runs side by side: counts by category on the cases that both planned, and the cases behind
//! each count. The figures are those of `GET /api/v1/compare`.

use askama::Template;
use askama_web::WebTemplate;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use protocol::{Suite, Verdict};
use serde::Deserialize;

use super::view::{self, Choice, Mark, Section, Shell};
use super::{count, rows, run};
use crate::api::compare as figures;
use crate::app::AppState;
use crate::db::Db;
use crate::db::compare::{self, Group, PairRow};
use crate::db::read_runs::{self, RunFilter, RunView};
use crate::db::read_words::Word;
use crate::error::Result;
use crate::extract::Query;
use crate::filters;
use crate::judge::compare::{Category, categorise};

const PAGE_SIZE: i64 = 100;
/// Runs to choose from; older ones go by their key in the address.
const CHOICES: i64 = 100;

/// The route.
pub fn router() -> Router<AppState> {
    Router::new().route("/compare", get(show))
}

#[derive(Debug, Deserialize)]
struct Parameters {
    a: Option<String>,
    b: Option<String>,
    suite: Option<String>,
    category: Option<String>,
    /// Key of the last case of the page before.
    after: Option<String>,
}

#[derive(Debug, Template, WebTemplate)]
#[template(path = "pages/compare.html")]
struct ComparePage {
    shell: Shell,
    runs_a: Vec<Choice>,
    runs_b: Vec<Choice>,
    suites: Vec<Choice>,
    comparison: Option<Comparison>,
}

#[derive(Debug)]
struct Comparison {
    key_a: String,
    key_b: String,
    sides: [Side; 2],
    coverage: String,
    /// What makes the two hard to compare.
    warnings: Vec<String>,
    versions: Vec<(String, String, String)>,
    categories: Vec<CategoryRow>,
    listed: &'static str,
    listed_total: u64,
    pairs: Vec<PairLine>,
    first_href: Option<String>,
    next_href: Option<String>,
    all_href: Option<String>,
    swap_href: String,
    api_href: String,
}

#[derive(Debug)]
struct Side {
    key: String,
    href: String,
    state: Mark,
    device: String,
    simulated: bool,
    started_at: chrono::DateTime<chrono::Utc>,
    planned: u64,
    passed: u64,
    counted: u64,
    rate: String,
}

#[derive(Debug)]
struct CategoryRow {
    mark: Mark,
    cases: u64,
    href: String,
    meaning: &'static str,
    is_chosen: bool,
}

#[derive(Debug)]
struct PairLine {
    category: Mark,
    case: String,
    href: String,
    before: Option<Mark>,
    outcome_before: String,
    now: Option<Mark>,
    outcome_now: String,
    message: String,
    operator: String,
    operator_href: String,
}

async fn show(
    State(state): State<AppState>,
    Query(asked): Query<Parameters>,
) -> Result<ComparePage> {
    let pool = state.db.pool();
    let (a, b) = (view::text(asked.a.as_deref()), view::text(asked.b.as_deref()));
    let suite = view::word::<Suite>(asked.suite.as_deref())?;
    let category = view::word::<Category>(asked.category.as_deref())?;
    let newest = read_runs::select_runs(pool, &RunFilter::default(), CHOICES, 0).await?;
    let mut planned = Vec::new();
    let comparison = match (&a, &b) {
        (Some(a), Some(b)) => {
            let (a, b) = (run::find(pool, a).await?, run::find(pool, b).await?);
            planned = a.suites.iter().chain(&b.suites).cloned().collect();
            planned.sort();
            planned.dedup();
            let after = view::text(asked.after.as_deref());
            Some(Comparison::make(&state.db, &a, &b, suite, category, after).await?)
        }
        _ => None,
    };
    Ok(ComparePage {
        shell: Shell::new(Section::Runs),
        runs_a: run_choices(&newest, a.as_deref()),
        runs_b: run_choices(&newest, b.as_deref()),
        suites: Choice::suites(&planned, suite),
        comparison,
    })
}

/// The newest runs, and the chosen one wherever it is.
fn run_choices(newest: &[RunView], chosen: Option<&str>) -> Vec<Choice> {
    let mut choices = vec![Choice {
        value: String::new(),
        label: "choose a run".to_owned(),
        chosen: chosen.is_none(),
    }];
    if let Some(key) = chosen
        && newest.iter().all(|run| run.key != key)
    {
        let (value, label) = (key.to_owned(), filters::make_visible(key));
        choices.push(Choice { value, label, chosen: true });
    }
    choices.extend(newest.iter().map(|run| Choice {
        value: run.key.clone(),
        label: filters::make_visible(&format!("{} ({})", run.key, run.device_profile)),
        chosen: chosen == Some(run.key.as_str()),
    }));
    choices
}

const fn of_category(category: Category) -> (Mark, &'static str) {
    let (shape, tone, meaning) = match category {
        Category::Regressed => ("down", "bad", "passed, and fails now"),
        Category::Fixed => ("up", "good", "failed, and passes now"),
        Category::ChangedFailure => ("cross", "bad", "fails in both, in another way"),
        Category::StillFailing => ("cross", "bad", "fails in both, in the same way"),
        Category::StillPassing => ("dash", "neutral", "passes in both: unchanged"),
        Category::New => ("star", "note", "only the second one planned it"),
        Category::Gone => ("gap", "absent", "only the first one planned it"),
        Category::NoLongerLearnt => ("half", "warn", "only the first one learnt something of it"),
        Category::NewlyLearnt => ("ring", "note", "only the second one learnt something of it"),
        Category::NothingLearnt => ("ring", "quiet", "neither learnt anything of it"),
    };
    (Mark { word: category.as_str(), shape, tone }, meaning)
}

impl Comparison {
    async fn make(
        db: &Db,
        a: &RunView,
        b: &RunView,
        suite: Option<Suite>,
        category: Option<Category>,
        after: Option<String>,
    ) -> Result<Self> {
        let list = compare::list_groups(db.pool(), a.id, b.id, suite);
        let groups = db.kept("groups", &[a.id, b.id], &suite, list).await?;
        let is_wanted = |group: &&Group| match (figures::category_of(group), category) {
            (Some(found), Some(wanted)) => found == wanted,
            (Some(found), None) => figures::CHANGES.contains(&found),
            (None, _) => false,
        };
        let wanted: Vec<Group> = groups.iter().filter(is_wanted).cloned().collect();
        let (before, limit) = (after.as_deref(), PAGE_SIZE + 1);
        let mut pairs =
            compare::list_pairs(db.pool(), a.id, b.id, suite, &wanted, before, limit).await?;
        let has_more = pairs.len() > PAGE_SIZE as usize;
        pairs.truncate(PAGE_SIZE as usize);
        let body = figures::count(&groups);
        let suite = suite.as_ref().map_or("", Suite::as_str);
        let word = category.map_or("", Category::as_str);
        let at = |category: &str, after: &str| {
            let parameters = [
                ("a", a.key.as_str()),
                ("b", b.key.as_str()),
                ("suite", suite),
                ("category", category),
                ("after", after),
            ];
            view::link("/compare", &parameters) + "#cases"
        };
        let last = pairs.last().filter(|_| has_more).map(|pair| at(word, &pair.case));
        Ok(Self {
            coverage: body.coverage.clone(),
            warnings: warnings(a, b, body.common),
            versions: figures::differences(&a.versions, &b.versions)
                .into_iter()
                .map(|(name, [a, b])| {
                    let say = |side: Option<String>| side.unwrap_or_else(|| "not said".to_owned());
                    (name, say(a), say(b))
                })
                .collect(),
            categories: Category::ALL
                .iter()
                .map(|row| {
                    let (mark, meaning) = of_category(*row);
                    CategoryRow {
                        mark,
                        cases: body.counts.get(row).copied().unwrap_or(0),
                        href: at(row.as_str(), ""),
                        meaning,
                        is_chosen: category == Some(*row),
                    }
                })
                .collect(),
            listed: category.map_or("changed", Category::as_str),
            listed_total: wanted.iter().map(|group| group.cases.unsigned_abs()).sum(),
            pairs: pairs.into_iter().filter_map(|pair| PairLine::new(pair, a, b)).collect(),
            first_href: after.map(|_| at(word, "")),
            next_href: last,
            all_href: category.map(|_| at("", "")),
            swap_href: view::link(
                "/compare",
                &[("a", b.key.as_str()), ("b", a.key.as_str()), ("suite", suite)],
            ),
            api_href: view::link(
                "/api/v1/compare",
                &[("a", &a.key), ("b", &b.key), ("suite", suite), ("category", word)],
            ),
            key_a: a.key.clone(),
            key_b: b.key.clone(),
            sides: [Side::new(a, &body.a, body.counted), Side::new(b, &body.b, body.counted)],
        })
    }
}

fn warnings(a: &RunView, b: &RunView, common: u64) -> Vec<String> {
    let mut warnings = Vec::new();
    if a.id == b.id {
        warnings.push("Both are the same run.".to_owned());
    }
    if a.simulated != b.simulated {
        warnings.push(
            "One is simulated and the other is not: what differs may be the \
                       simulation's."
                .to_owned(),
        );
    } else if a.device_profile != b.device_profile || a.device_kind != b.device_kind {
        warnings.push("They ran on different devices.".to_owned());
    }
    for run in [a, b] {
        match (run.state.as_str(), run.completeness.as_deref()) {
            ("sealed", Some("complete")) => {}
            ("sealed", Some("void")) => {
                warnings.push(format!("{} was withdrawn and is no evidence.", run.key));
            }
            ("sealed", _) => warnings.push(format!("{} is incomplete.", run.key)),
            _ => warnings.push(format!("{} is still running; its counts will change.", run.key)),
        }
    }
    if common == 0 {
        warnings.push("They have no case in common, so that nothing got better or worse.".into());
    }
    warnings
}

impl Side {
    fn new(run: &RunView, body: &figures::SideBody, counted: u64) -> Self {
        Self {
            key: run.key.clone(),
            href: view::run_href(&run.key),
            state: Mark::of_run(&run.state, run.completeness.as_deref()),
            device: format!("{} · {}", run.device_profile, run.device_kind),
            simulated: run.simulated,
            started_at: rows::measured_at(run),
            planned: body.planned,
            passed: body.passed,
            counted,
            rate: count::percent(body.passed, counted),
        }
    }
}

impl PairLine {
    fn new(pair: PairRow, a: &RunView, b: &RunView) -> Option<Self> {
        let verdict = |side: Option<Word<Verdict>>| side.map(|Word(verdict)| verdict);
        let (before, now) = (verdict(pair.before), verdict(pair.now));
        let run = if now.is_some() { b } else { a };
        let operator = pair.operator.unwrap_or_default();
        Some(Self {
            category: of_category(categorise(before, now, pair.same)?).0,
            href: view::case_href(&run.key, &pair.case),
            case: pair.case,
            before: before.map(Mark::of_verdict),
            outcome_before: pair.outcome_before.unwrap_or_default(),
            now: now.map(Mark::of_verdict),
            outcome_now: pair.outcome_now.unwrap_or_default(),
            message: pair.message.unwrap_or_default(),
            operator_href: view::operator_href(&operator, &format!("run={}", b.key)),
            operator,
        })
    }
}
