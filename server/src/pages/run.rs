//! The page of one run: what it is, its counts per suite, what blocks, clusters of failures, and
//! the table of its cases. Every state of the filter is in the address.

use std::collections::BTreeMap;

use askama::Template;
use askama_web::WebTemplate;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use protocol::{Outcome, Suite, Verdict};
use serde::Deserialize;

use super::count::Count;
use super::rows::{self, CaseRow, Counts, RunHead};
use super::run_downloads::{self, Files};
use super::run_events;
use super::timeline;
use super::view::{self, Choice, Mark, Pager, Section, Shell};
use crate::app::AppState;
use crate::db::read_fleet;
use crate::db::read_home::{self, Unimplemented};
use crate::db::read_runs::{self, CaseFilter, Cluster, OutcomeCount, RunFilter, RunView};
use crate::error::{Error, Result};
use crate::extract::{Path, Query};
use crate::filters;
use crate::queries;

const PAGE_SIZE: u64 = 100;
const CLUSTERS: i64 = 30;
/// How often a run that is not sealed is read again.
const REFRESH_SECS: u32 = 5;

/// The route.
pub fn router() -> Router<AppState> {
    Router::new().route("/runs/{run}", get(show))
}

#[derive(Debug, Deserialize)]
struct Parameters {
    q: Option<String>,
    suite: Option<String>,
    verdict: Option<String>,
    outcome: Option<String>,
    text: Option<String>,
    signature: Option<String>,
    operator: Option<String>,
    order: Option<String>,
    page: Option<String>,
}

#[derive(Debug, Template, WebTemplate)]
#[template(path = "pages/run.html")]
struct RunPage {
    shell: Shell,
    run: RunHead,
    timeline_href: String,
    /// Key of the run before on this device, and the two side by side.
    previous: Option<(String, String)>,
    suites: Vec<SuiteRow>,
    total: SuiteRow,
    unimplemented: Vec<UnimplementedRow>,
    clusters: Vec<ClusterRow>,
    clusters_total: i64,
    files: Files,
    cases: Vec<CaseRow>,
    /// The selected cases as files, by format; none where the API has no such filter.
    exports: Vec<(&'static str, String)>,
    form: Form,
    pager: Pager,
}

/// Counts of one suite, or of all.
#[derive(Debug)]
struct SuiteRow {
    title: String,
    href: String,
    count: Count,
    outcomes: Vec<OutcomeLink>,
}

#[derive(Debug)]
struct OutcomeLink {
    mark: Mark,
    cases: i64,
    href: String,
}

#[derive(Debug)]
struct UnimplementedRow {
    overload: String,
    href: String,
    cases: i64,
    cases_href: String,
    models: i64,
}

#[derive(Debug)]
pub(super) struct ClusterRow {
    pub(super) mark: Mark,
    pub(super) trouble: String,
    pub(super) operator: String,
    pub(super) operator_href: String,
    pub(super) line: String,
    pub(super) cases: i64,
    pub(super) subjects: i64,
    pub(super) href: String,
}

/// The filter as the form shows it.
#[derive(Debug)]
struct Form {
    action: String,
    suites: Vec<Choice>,
    verdicts: Vec<Choice>,
    outcomes: Vec<Choice>,
    orders: Vec<Choice>,
    query: String,
    text: String,
    signature: String,
    operator: String,
    is_filtered: bool,
}

async fn show(
    State(state): State<AppState>,
    Path(key): Path<String>,
    Query(asked): Query<Parameters>,
) -> Result<RunPage> {
    let pool = state.db.pool();
    let run = find(pool, &key).await?;
    let (filter, page) = read(&asked)?;
    let offset = (page - 1).saturating_mul(PAGE_SIZE);
    let (ids, offset) = (vec![run.id; run.suites.len()], offset.cast_signed());
    let select =
        read_runs::select_cases(pool, &ids, &run.suites, &filter, PAGE_SIZE.cast_signed(), offset);
    let db = &state.db;
    let cases = db.kept("cases", &[run.id], (&filter, offset), select).await?;
    let counts = Counts::new(&read_runs::list_tallies(pool, &[run.id]).await?);
    let count = read_runs::count_outcomes(pool, run.id);
    let outcomes = db.kept("outcomes", &[run.id], (), count).await?;
    let list = read_runs::list_clusters(pool, run.id, CLUSTERS);
    let clusters = db.kept("clusters", &[run.id], CLUSTERS, list).await?;
    let list = read_home::list_unimplemented(pool, run.id);
    let unimplemented = db.kept("unimplemented", &[run.id], (), list).await?;
    let files = Files::read(pool, run.id, &run.key).await?;
    let previous = read_fleet::find_previous(pool, run.id).await?;
    let action = view::run_href(&run.key);
    let is_open = run.state != "sealed";
    let total = cases.first().map_or(0, |case| case.total).cast_unsigned();
    Ok(RunPage {
        shell: Shell {
            refresh_secs: is_open.then_some(REFRESH_SECS),
            events_href: if is_open { run_events::events_href(&run.key) } else { String::new() },
            ..Shell::new(Section::Runs)
        },
        timeline_href: timeline::href(&run.key),
        previous: previous.map(|before| {
            let href = view::compare_href(&before, &run.key);
            (before, href)
        }),
        suites: suite_rows(&run, &counts, &outcomes),
        total: SuiteRow::new("All".to_owned(), &action, "", counts.total(run.id), &outcomes),
        unimplemented: unimplemented
            .iter()
            .map(|row| UnimplementedRow::new(row.clone(), &run.key))
            .collect(),
        clusters_total: clusters.first().map_or(0, |cluster| cluster.total),
        clusters: clusters.iter().map(|row| ClusterRow::new(row.clone(), &run.key)).collect(),
        files,
        cases: cases.iter().map(CaseRow::new).collect(),
        exports: exports(&run.key, &asked),
        pager: Pager::new(&action, &parameters(&asked), page, PAGE_SIZE, total),
        form: Form::new(action, &run.suites, &filter, asked.q.as_deref().unwrap_or_default()),
        run: RunHead::new(&run, state.clock.now()),
    })
}

/// The run with this key, or a 404.
pub(super) async fn find(pool: &sqlx::PgPool, key: &str) -> Result<RunView> {
    let filter = RunFilter { key: Some(key.to_owned()), ..RunFilter::default() };
    let runs = read_runs::select_runs(pool, &filter, 1, 0).await?;
    runs.into_iter().next().ok_or_else(|| Error::no_such("run", key))
}

fn read(asked: &Parameters) -> Result<(CaseFilter, u64)> {
    let filter = CaseFilter {
        suite: view::word::<Suite>(asked.suite.as_deref())?,
        verdict: view::word::<Verdict>(asked.verdict.as_deref())?,
        outcome: view::word::<Outcome>(asked.outcome.as_deref())?,
        text: view::text(asked.text.as_deref()),
        signature: view::text(asked.signature.as_deref()),
        operator: view::text(asked.operator.as_deref()),
        query: queries::patterns(&queries::read(asked.q.as_deref())?),
        manifest_order: asked.order.as_deref() == Some("manifest"),
        ..CaseFilter::default()
    };
    Ok((filter, view::page_number(asked.page.as_deref())?))
}

/// Downloads of what is selected. Text, cluster and blamed operator are filters of pages only.
fn exports(run_key: &str, asked: &Parameters) -> Vec<(&'static str, String)> {
    let of_pages = [&asked.text, &asked.signature, &asked.operator];
    if of_pages.iter().any(|value| view::text(value.as_deref()).is_some()) {
        return Vec::new();
    }
    let all = parameters(asked);
    let known = ["q", "suite", "verdict", "outcome"];
    let asked: Vec<(&str, &str)> =
        all.into_iter().filter(|(name, _)| known.contains(name)).collect();
    run_downloads::exports(run_key, &asked)
}

fn parameters(asked: &Parameters) -> [(&str, &str); 8] {
    [
        ("q", asked.q.as_deref().unwrap_or_default()),
        ("suite", asked.suite.as_deref().unwrap_or_default()),
        ("verdict", asked.verdict.as_deref().unwrap_or_default()),
        ("outcome", asked.outcome.as_deref().unwrap_or_default()),
        ("text", asked.text.as_deref().unwrap_or_default()),
        ("signature", asked.signature.as_deref().unwrap_or_default()),
        ("operator", asked.operator.as_deref().unwrap_or_default()),
        ("order", asked.order.as_deref().unwrap_or_default()),
    ]
}

/// Suites of a run, in the order in which they are shown everywhere.
fn planned_suites(run: &RunView) -> Vec<Suite> {
    let mut suites: Vec<Suite> = run.suites.iter().filter_map(|name| name.parse().ok()).collect();
    suites.sort();
    suites
}

fn suite_rows(run: &RunView, counts: &Counts, outcomes: &[OutcomeCount]) -> Vec<SuiteRow> {
    planned_suites(run)
        .into_iter()
        .map(|suite| {
            let own: Vec<OutcomeCount> =
                outcomes.iter().filter(|count| count.suite.0 == suite).copied().collect();
            SuiteRow::new(
                rows::suite_title(suite),
                &view::run_href(&run.key),
                suite.as_str(),
                counts.of(run.id, suite),
                &own,
            )
        })
        .collect()
}

impl SuiteRow {
    fn new(
        title: String,
        action: &str,
        suite: &str,
        count: Count,
        outcomes: &[OutcomeCount],
    ) -> Self {
        let mut by_outcome: BTreeMap<Option<Outcome>, i64> = BTreeMap::new();
        for own in outcomes {
            *by_outcome.entry(own.outcome.map(|word| word.0)).or_default() += own.cases;
        }
        let outcomes = by_outcome
            .into_iter()
            .map(|(outcome, cases)| {
                let parameter = match outcome {
                    Some(outcome) => ("outcome", outcome.as_str()),
                    None => ("verdict", Verdict::Missing.as_str()),
                };
                OutcomeLink {
                    mark: Mark::of_case(outcome),
                    cases,
                    href: view::link(action, &[("suite", suite), parameter]) + "#cases",
                }
            })
            .collect();
        Self { title, href: view::link(action, &[("suite", suite)]) + "#cases", count, outcomes }
    }
}

impl UnimplementedRow {
    fn new(row: Unimplemented, run_key: &str) -> Self {
        let overload = row.overload.unwrap_or_default();
        let filter = [("outcome", Outcome::Unsupported.as_str()), ("operator", overload.as_str())];
        Self {
            href: view::operator_href(&overload, &format!("run={run_key}")),
            cases: row.cases,
            cases_href: view::link(&view::run_href(run_key), &filter) + "#cases",
            models: row.models,
            overload,
        }
    }
}

impl ClusterRow {
    pub(super) fn new(row: Cluster, run_key: &str) -> Self {
        let operator = row.operator.unwrap_or_default();
        let stage = row.stage.unwrap_or_default();
        Self {
            mark: Mark::of_outcome(row.outcome.0),
            trouble: [row.error_class, stage]
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join(" at "),
            operator_href: view::operator_href(&operator, &format!("run={run_key}")),
            operator,
            line: row.line,
            cases: row.cases,
            subjects: row.subjects,
            href: view::link(&view::run_href(run_key), &[("signature", &row.signature)]) + "#cases",
        }
    }
}

impl Form {
    /// Fields of a query.
    fn fields(&self) -> impl Iterator<Item = &'static str> {
        protocol::query::Field::ALL.iter().map(|field| field.as_str())
    }

    fn new(action: String, planned: &[String], filter: &CaseFilter, query: &str) -> Self {
        let order = if filter.manifest_order { "manifest" } else { "worst" };
        let order_choice = |value: &str, label: &str| Choice {
            value: value.to_owned(),
            label: label.to_owned(),
            chosen: value == order,
        };
        let words = |suite: Option<&'static str>, all: Vec<&'static str>| Choice::words(all, suite);
        Self {
            action,
            suites: Choice::suites(planned, filter.suite),
            verdicts: words(
                filter.verdict.map(Verdict::as_str),
                Verdict::ALL.iter().map(|word| word.as_str()).collect(),
            ),
            outcomes: words(
                filter.outcome.map(Outcome::as_str),
                Outcome::ALL.iter().map(|word| word.as_str()).collect(),
            ),
            orders: vec![
                order_choice("worst", "worst first"),
                order_choice("manifest", "as planned"),
            ],
            query: query.to_owned(),
            text: filter.text.clone().unwrap_or_default(),
            signature: filter.signature.clone().unwrap_or_default(),
            operator: filter.operator.clone().unwrap_or_default(),
            is_filtered: filter.query.is_some()
                || filter.suite.is_some()
                || filter.verdict.is_some()
                || filter.outcome.is_some()
                || filter.text.is_some()
                || filter.signature.is_some()
                || filter.operator.is_some(),
        }
    }
}
