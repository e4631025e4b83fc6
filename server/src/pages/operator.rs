//! The page of one operator. Three kinds of names lead here: an operator (`aten::add`), one of its
//! overloads (`aten::add.Tensor`), and an entry of PyTorch's operator database (`add`,
//! `nn.functional.relu`), which the operator suite executes.

use askama::Template;
use askama_web::WebTemplate;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use chrono::NaiveDate;
use protocol::Suite;
use protocol::inventory::Overload;
use serde::Deserialize;
use sqlx::PgPool;

use super::count::Count;
use super::history::{self, HistoryPoint};
use super::matrix::{Column, Matrix, MatrixRow, mode_spans};
use super::operator_errors::ErrorHistory;
use super::operator_users::Users;
use super::operator_waivers::{self, TouchingWaiver};
use super::overloads::OverloadRow;
use super::rows::CaseRow;
use super::scope::{self, Scope};
use super::view::{self, Section, Shell};
use crate::app::AppState;
use crate::db::Db;
use crate::db::inventories;
use crate::db::read_cases;
use crate::db::read_operators::{self, OverloadCount};
use crate::db::read_runs::{self, CaseFilter, CaseView};
use crate::db::read_variants;
use crate::error::{Error, Result};
use crate::extract::{Path, Query};
use crate::filters;

/// Most cases listed; the run page has the rest, with paging.
const MOST_CASES: i64 = 500;
/// Prefix of the subjects that are entries of the operator database.
const ENTRY_PREFIX: &str = "opinfo:";

/// The route.
pub fn router() -> Router<AppState> {
    Router::new().route("/operators/{name}", get(show))
}

#[derive(Debug, Deserialize)]
struct Parameters {
    device: Option<String>,
    run: Option<String>,
}

#[derive(Debug, Template, WebTemplate)]
#[template(path = "pages/operator.html")]
struct OperatorPage {
    shell: Shell,
    scope: Scope,
    name: String,
    is_entry: bool,
    sum: Count,
    columns: Vec<Column>,
    mode_spans: Vec<(&'static str, usize)>,
    row_head: &'static str,
    rows: Vec<MatrixRow>,
    overloads: Vec<OverloadRow>,
    users_of: String,
    users_href: String,
    users: Users,
    waivers: Vec<TouchingWaiver>,
    inventory: Vec<InventoryRow>,
    failures: Vec<CaseRow>,
    errors: ErrorHistory,
    history: Vec<HistoryPoint>,
    failures_total: i64,
    all_href: String,
}

/// What the dispatcher of the build knows of an overload.
#[derive(Debug)]
struct InventoryRow {
    overload: String,
    class: &'static str,
    kernels: String,
    schema: String,
    tags: String,
}

/// An entry's name as PyTorch has it, without the prefix that the case key carries.
#[must_use]
pub(super) fn entry_name(subject_base: &str) -> &str {
    subject_base.strip_prefix(ENTRY_PREFIX).unwrap_or(subject_base)
}

/// The subject that a name on an operator page stands for, when it is an entry.
async fn find_entry(pool: &PgPool, name: &str) -> Result<Option<String>> {
    let suites = [Suite::Operators.to_string()];
    for subject in [format!("{ENTRY_PREFIX}{name}"), name.to_owned()] {
        if read_operators::is_known_subject(pool, &subject, &suites).await? {
            return Ok(Some(subject));
        }
    }
    Ok(None)
}

async fn show(
    State(state): State<AppState>,
    Path(name): Path<String>,
    Query(asked): Query<Parameters>,
) -> Result<OperatorPage> {
    let pool = state.db.pool();
    let entry = find_entry(pool, &name).await?;
    if entry.is_none() && !read_operators::is_known_operator(pool, &name).await? {
        return Err(Error::no_such("operator", name));
    }
    let pins = scope::Asked { device: asked.device.as_deref(), run: asked.run.as_deref() };
    let deciding: &[Suite] = if entry.is_some() { &[Suite::Operators] } else { Suite::ALL };
    let scope = scope::find(pool, pins, Suite::ALL, deciding, state.clock.now()).await?;
    let today = state.clock.today();
    let mut page = match entry {
        Some(subject) => entry_page(&state.db, scope, name, &subject, today).await?,
        None => overload_page(&state.db, scope, name, today).await?,
    };
    page.inventory = read_inventory(pool, &page).await?;
    for row in &mut page.overloads {
        let known = page.inventory.iter().find(|own| own.overload == row.overload);
        row.class = known.map_or("", |own| own.class);
    }
    Ok(page)
}

/// The overloads of the page in the inventory of the newest run that has one.
async fn read_inventory(pool: &PgPool, page: &OperatorPage) -> Result<Vec<InventoryRow>> {
    let mut names: Vec<String> = page.overloads.iter().map(|row| row.overload.clone()).collect();
    names.push(page.name.clone());
    let found = inventories::describe(pool, &page.scope.run_ids, &names).await?;
    let Some(inventory) = found else { return Ok(Vec::new()) };
    let key = inventory.dispatch_key.as_str();
    let row = |overload: &Overload| InventoryRow {
        overload: overload.name.clone(),
        class: overload.class(key).as_str(),
        kernels: overload.kernels.join(", "),
        schema: overload.schema.clone(),
        tags: overload.tags.join(", "),
    };
    Ok(inventory.overloads.iter().map(row).collect())
}

/// An entry: its own cases, the overloads they dispatch, the models that use its namesake.
async fn entry_page(
    db: &Db,
    scope: Scope,
    name: String,
    subject: &str,
    today: NaiveDate,
) -> Result<OperatorPage> {
    let pool = db.pool();
    let (ids, suites) = scope.only(|suite| suite == Suite::Operators);
    let filter = CaseFilter { subject_base: Some(subject.to_owned()), ..CaseFilter::default() };
    let cases = read_runs::select_cases(pool, &ids, &suites, &filter, i64::MAX, 0).await?;
    let matrix = matrix_of_cases(&cases);
    let overloads =
        read_operators::count_overloads_of_subject(pool, &ids, &suites, subject).await?;
    let namesake = namesake(&name, &overloads);
    let users = match &namesake {
        Some(operator) => {
            let asked = scope.only(|suite| suite != Suite::Operators);
            Users::read(db, &scope, asked, operator).await?
        }
        None => Users::default(),
    };
    let failing: Vec<&CaseView> = cases.iter().filter(|case| !case.verdict.0.is_good()).collect();
    let failures_total = i64::try_from(failing.len()).unwrap_or(i64::MAX);
    let most = usize::try_from(MOST_CASES).unwrap_or(usize::MAX);
    let profile = scope.profile.as_str();
    let errors =
        ErrorHistory::read(pool, subject, profile, scope.run_key_of(Suite::Operators)).await?;
    let own = [Suite::Operators.to_string()];
    let history =
        read_cases::list_subject_history(pool, subject, &own, profile, history::MOST_RUNS).await?;
    let waivers = operator_waivers::find(pool, &name, &cases, today).await?;
    let page = OperatorPage::new(scope, name, &matrix, overloads, users);
    Ok(OperatorPage {
        waivers,
        errors,
        history: history::points(history),
        is_entry: true,
        row_head: "Form",
        users_href: view::operator_href(namesake.as_deref().unwrap_or_default(), &page.scope.pin),
        users_of: namesake.unwrap_or_default(),
        failures: failing.into_iter().take(most).map(CaseRow::new).collect(),
        failures_total,
        all_href: page
            .scope
            .run_key_of(Suite::Operators)
            .map(|key| {
                view::link(&view::run_href(key), &[("text", &format!("{subject}#"))]) + "#cases"
            })
            .unwrap_or_default(),
        ..page
    })
}

/// An operator or overload: every suite's cases that dispatched it or are blamed on it.
async fn overload_page(
    db: &Db,
    scope: Scope,
    name: String,
    today: NaiveDate,
) -> Result<OperatorPage> {
    let pool = db.pool();
    let (ids, suites) = (&scope.run_ids, &scope.suites);
    let overloads = read_operators::count_overloads(pool, ids, suites, Some(&name)).await?;
    let variants =
        read_variants::count_overload_variants(pool, ids, suites, None, Some(&name)).await?;
    let matrix = Matrix::of_overloads(&variants);
    let users = Users::read(db, &scope, (ids.clone(), suites.clone()), &name).await?;
    let filter =
        CaseFilter { operator: Some(name.clone()), only_bad: true, ..CaseFilter::default() };
    let select = read_runs::select_cases(pool, ids, suites, &filter, MOST_CASES, 0);
    let failing = db.kept("cases", ids, (suites, &filter, MOST_CASES), select).await?;
    let waivers = operator_waivers::find(pool, &name, &failing, today).await?;
    let users_of = name.clone();
    let page = OperatorPage::new(scope, name, &matrix, overloads, users);
    Ok(OperatorPage {
        row_head: "Overload",
        waivers,
        users_of,
        failures_total: failing.first().map_or(0, |case| case.total),
        failures: failing.iter().map(CaseRow::new).collect(),
        ..page
    })
}

/// Rows by direction and layout.
fn matrix_of_cases(cases: &[CaseView]) -> Matrix {
    let mut matrix = Matrix::default();
    for case in cases {
        let (Ok(mode), Ok(dtype)) = (case.mode.parse(), case.dtype.parse()) else { continue };
        let row = match &case.layout {
            Some(layout) => format!("{}, {layout}", case.direction),
            None => case.direction.clone(),
        };
        let outcome = case.outcome.map(|word| word.0);
        matrix.entry(&row, Column { mode, dtype }).add(case.verdict.0, outcome, 1);
    }
    matrix
}

/// The operator whose name is the last part of the entry's, if the entry's cases dispatched it.
fn namesake(entry: &str, overloads: &[OverloadCount]) -> Option<String> {
    let last = entry.rsplit('.').next().unwrap_or(entry);
    let first = entry.split('.').next().unwrap_or(entry);
    overloads
        .iter()
        .map(|count| count.overload.as_str())
        .filter_map(|overload| {
            let (space, rest) = overload.split_once("::")?;
            let name = rest.split('.').next().unwrap_or(rest);
            (name == last || name == first || name == entry.replace('.', "_"))
                .then(|| format!("{space}::{name}"))
        })
        .next()
}

impl OperatorPage {
    fn new(
        scope: Scope,
        name: String,
        matrix: &Matrix,
        overloads: Vec<OverloadCount>,
        users: Users,
    ) -> Self {
        let columns = matrix.columns();
        let rows = matrix.rows(|row| {
            if row.contains("::") { view::operator_href(row, &scope.pin) } else { String::new() }
        });
        let mut sum = Count::default();
        for row in &rows {
            sum += &row.sum;
        }
        Self {
            shell: Shell::new(Section::Operators),
            name,
            is_entry: false,
            sum,
            mode_spans: mode_spans(&columns),
            columns,
            row_head: "",
            rows,
            overloads: overloads
                .into_iter()
                .map(|count| OverloadRow::new(count, None, &scope.pin))
                .collect(),
            users_of: String::new(),
            users_href: String::new(),
            users,
            waivers: Vec::new(),
            inventory: Vec::new(),
            failures: Vec::new(),
            errors: ErrorHistory::default(),
            history: Vec::new(),
            failures_total: 0,
            all_href: String::new(),
            scope,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overload(name: &str) -> OverloadCount {
        OverloadCount { cases: 1, passed: 1, ..OverloadCount::untouched(name) }
    }

    #[test]
    fn an_entry_finds_the_operator_of_its_name_and_no_other() {
        let dispatched =
            [overload("aten::copy_"), overload("aten::relu"), overload("aten::fft_rfft")];
        for (entry, operator) in [
            ("nn.functional.relu", Some("aten::relu")),
            ("fft.rfft", Some("aten::fft_rfft")),
            ("copy", None),
            ("linalg.svd", None),
        ] {
            assert_eq!(namesake(entry, &dispatched).as_deref(), operator, "{entry}");
        }
    }
}
