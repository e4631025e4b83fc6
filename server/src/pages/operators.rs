//! The operator matrix: families and entries of the operator suite by dtype and mode, and a second
//! view by overload over all suites, ranked by what it stops.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use askama::Template;
use askama_web::WebTemplate;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use protocol::Suite;
use serde::Deserialize;

use super::coverage::{self, CoverageRow};
use super::matrix::{Column, Matrix, MatrixRow, add_up, mode_spans};
use super::operator;
use super::scope::{self, Scope};
use super::view::{self, Choice, Mark, Pager, Section, Shell};
use crate::app::AppState;
use crate::db::read_operators::{self, OverloadCount, SubjectCount};
use crate::error::{Error, Result};
use crate::extract::Query;
use crate::filters;

const PAGE_SIZE: u64 = 100;

/// The route.
pub fn router() -> Router<AppState> {
    Router::new().route("/operators", get(show))
}

#[derive(Debug, Deserialize)]
struct Parameters {
    device: Option<String>,
    run: Option<String>,
    view: Option<String>,
    family: Option<String>,
    text: Option<String>,
    show: Option<String>,
    sort: Option<String>,
    page: Option<String>,
}

#[derive(Debug, Template, WebTemplate)]
#[template(path = "pages/operators.html")]
struct OperatorsPage {
    shell: Shell,
    scope: Scope,
    by_overload: bool,
    entries_href: String,
    overloads_href: String,
    columns: Vec<Column>,
    mode_spans: Vec<(&'static str, usize)>,
    families: Vec<MatrixRow>,
    total: MatrixRow,
    entries: Vec<MatrixRow>,
    overloads: Vec<OverloadRow>,
    coverage: Vec<CoverageRow>,
    family_choices: Vec<Choice>,
    show_choices: Vec<Choice>,
    sort_choices: Vec<Choice>,
    text: String,
    is_filtered: bool,
    pager: Pager,
}

/// An overload and what it stops.
#[derive(Debug)]
pub(super) struct OverloadRow {
    pub(super) overload: String,
    pub(super) href: String,
    pub(super) marks: Vec<Mark>,
    pub(super) count: OverloadCount,
}

impl OverloadRow {
    pub(super) fn new(count: OverloadCount, pin: &str) -> Self {
        let words = count.blamed_outcomes.iter().filter_map(|word| word.parse().ok());
        Self {
            overload: count.overload.clone(),
            href: view::operator_href(&count.overload, pin),
            marks: words.map(Mark::of_outcome).collect(),
            count,
        }
    }
}

async fn show(
    State(state): State<AppState>,
    Query(asked): Query<Parameters>,
) -> Result<OperatorsPage> {
    let pool = state.db.pool();
    let by_overload = match asked.view.as_deref().unwrap_or_default() {
        "" | "entries" => false,
        "overloads" => true,
        other => {
            return Err(Error::bad_request(
                format!("unknown view `{other}`: it must be one of entries, overloads"),
                "choose one of these words, or leave it out",
            ));
        }
    };
    let wanted: &[Suite] = if by_overload { Suite::ALL } else { &[Suite::Operators] };
    let pins = scope::Asked { device: asked.device.as_deref(), run: asked.run.as_deref() };
    let scope = scope::find(pool, pins, wanted, wanted, state.clock.now()).await?;
    if by_overload {
        let counts =
            read_operators::count_overloads(pool, &scope.run_ids, &scope.suites, None, None)
                .await?;
        let counted = coverage::count_build(pool, &scope).await?;
        let coverage = coverage::rows(&counted, &scope.pin, None);
        Ok(OperatorsPage { coverage, ..overloads_page(scope, &asked, counts)? })
    } else {
        let counts = read_operators::count_by_subject(pool, &scope.run_ids, &scope.suites).await?;
        entries_page(scope, &asked, &counts)
    }
}

/// Parameters without the page number, for the pager and for the links between views.
fn parameters<'a>(
    scope: &'a Scope,
    asked: &'a Parameters,
    view: &'a str,
) -> Vec<(&'a str, &'a str)> {
    let mut all = vec![("view", view)];
    all.extend(scope.pin.split_once('='));
    all.extend([
        ("family", asked.family.as_deref().unwrap_or_default()),
        ("text", asked.text.as_deref().unwrap_or_default()),
        ("show", asked.show.as_deref().unwrap_or_default()),
        ("sort", asked.sort.as_deref().unwrap_or_default()),
    ]);
    all
}

fn cut<T>(rows: Vec<T>, page: u64) -> Vec<T> {
    let begin = usize::try_from((page - 1).saturating_mul(PAGE_SIZE)).unwrap_or(usize::MAX);
    rows.into_iter().skip(begin).take(PAGE_SIZE as usize).collect()
}

fn choices(list: &[(&str, &str)], chosen: &str) -> Vec<Choice> {
    list.iter()
        .map(|(value, label)| Choice {
            value: (*value).to_owned(),
            label: (*label).to_owned(),
            chosen: *value == chosen,
        })
        .collect()
}

fn empty_page(scope: Scope, asked: &Parameters, by_overload: bool) -> OperatorsPage {
    let pin: Vec<(&str, &str)> = scope.pin.split_once('=').into_iter().collect();
    let mut overloads = pin.clone();
    overloads.insert(0, ("view", "overloads"));
    OperatorsPage {
        shell: Shell::new(Section::Operators),
        by_overload,
        entries_href: view::link("/operators", &pin),
        overloads_href: view::link("/operators", &overloads),
        columns: Vec::new(),
        mode_spans: Vec::new(),
        families: Vec::new(),
        total: add_up("All", String::new(), &[], 0),
        entries: Vec::new(),
        overloads: Vec::new(),
        coverage: Vec::new(),
        family_choices: Vec::new(),
        show_choices: choices(
            &[("", "all"), ("failing", "not all passing"), ("missing", "with missing cases")],
            asked.show.as_deref().unwrap_or_default(),
        ),
        sort_choices: Vec::new(),
        text: asked.text.clone().unwrap_or_default(),
        is_filtered: [&asked.text, &asked.show, &asked.family]
            .iter()
            .any(|value| value.as_deref().is_some_and(|text| !text.is_empty())),
        pager: Pager::new("/operators", &[], 1, PAGE_SIZE, 0),
        scope,
    }
}

fn entries_page(
    scope: Scope,
    asked: &Parameters,
    counts: &[SubjectCount],
) -> Result<OperatorsPage> {
    let mut matrix = Matrix::default();
    for count in counts {
        let column = Column { mode: count.mode.0, dtype: count.dtype.0 };
        matrix.entry(operator::entry_name(&count.subject_base), column).add(
            count.verdict.0,
            count.outcome.map(|word| word.0),
            count.cases,
        );
    }
    let columns = matrix.columns();
    let rows = matrix.rows(|name| view::operator_href(name, &scope.pin));
    let mut by_family: BTreeMap<&str, Vec<&MatrixRow>> = BTreeMap::new();
    for row in &rows {
        by_family.entry(&row.family).or_default().push(row);
    }
    let pin: Vec<(&str, &str)> = scope.pin.split_once('=').into_iter().collect();
    let families: Vec<MatrixRow> = by_family
        .iter()
        .map(|(name, rows)| {
            let mut with_family = pin.clone();
            with_family.push(("family", name));
            let href = view::link("/operators", &with_family) + "#entries";
            add_up(name, href, rows, columns.len())
        })
        .collect();
    let all: Vec<&MatrixRow> = families.iter().collect();
    let total = add_up("All families", String::new(), &all, columns.len());
    let names: Vec<String> = families.iter().map(|row| row.name.clone()).collect();

    let page = view::page_number(asked.page.as_deref())?;
    let rows = chosen_entries(rows, asked);
    let pager = Pager::new(
        "/operators",
        &parameters(&scope, asked, ""),
        page,
        PAGE_SIZE,
        rows.len() as u64,
    );
    Ok(OperatorsPage {
        mode_spans: mode_spans(&columns),
        columns,
        families,
        total,
        entries: cut(rows, page),
        family_choices: Choice::words(names.iter().map(String::as_str), asked.family.as_deref()),
        sort_choices: choices(
            &[("", "name"), ("failing", "most failing cases"), ("rate", "lowest pass rate")],
            asked.sort.as_deref().unwrap_or_default(),
        ),
        pager,
        ..empty_page(scope, asked, false)
    })
}

/// Entries that the filter leaves, in the order asked for.
fn chosen_entries(mut rows: Vec<MatrixRow>, asked: &Parameters) -> Vec<MatrixRow> {
    let text = asked.text.as_deref().unwrap_or_default().trim().to_lowercase();
    let family = asked.family.as_deref().unwrap_or_default();
    let show = asked.show.as_deref().unwrap_or_default();
    rows.retain(|row| {
        (text.is_empty() || row.name.to_lowercase().contains(&text))
            && (family.is_empty() || row.family == family)
            && match show {
                "failing" => row.sum.not_passed() > 0,
                "missing" => row.sum.of(protocol::Verdict::Missing) > 0,
                _ => true,
            }
    });
    match asked.sort.as_deref().unwrap_or_default() {
        "failing" => rows.sort_by_key(|row| Reverse(row.sum.not_passed())),
        "rate" => rows.sort_by_key(|row| {
            (u128::from(row.sum.passed()) * 1_000_000)
                .checked_div(u128::from(row.sum.rated()))
                .unwrap_or(u128::MAX)
        }),
        _ => {}
    }
    rows
}

fn overloads_page(
    scope: Scope,
    asked: &Parameters,
    mut counts: Vec<OverloadCount>,
) -> Result<OperatorsPage> {
    let text = asked.text.as_deref().unwrap_or_default().trim().to_lowercase();
    let only_failing = asked.show.as_deref() == Some("failing");
    counts.retain(|count| {
        (text.is_empty() || count.overload.to_lowercase().contains(&text))
            && (!only_failing || count.blamed > 0)
    });
    match asked.sort.as_deref().unwrap_or_default() {
        "name" => {}
        "calls" => counts.sort_by_key(|count| Reverse(count.calls)),
        _ => counts.sort_by_key(|c| Reverse((c.blocked_models, c.blamed, c.fell_back, c.models))),
    }
    let page = view::page_number(asked.page.as_deref())?;
    let parameters = parameters(&scope, asked, "overloads");
    let pager = Pager::new("/operators", &parameters, page, PAGE_SIZE, counts.len() as u64);
    let rows = cut(counts, page);
    Ok(OperatorsPage {
        overloads: rows.into_iter().map(|count| OverloadRow::new(count, &scope.pin)).collect(),
        show_choices: choices(
            &[("", "all"), ("failing", "blamed for a failure")],
            asked.show.as_deref().unwrap_or_default(),
        ),
        sort_choices: choices(
            &[("", "what stops most models"), ("name", "name"), ("calls", "most calls")],
            asked.sort.as_deref().unwrap_or_default(),
        ),
        pager,
        ..empty_page(scope, asked, true)
    })
}
