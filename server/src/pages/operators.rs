//! The operator matrix: families and entries of the operator suite by dtype and mode, narrowed by
//! form and class. Its second view, by overload over all suites, is `overloads`.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use askama::Template;
use askama_web::WebTemplate;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use protocol::Suite;
use protocol::inventory::Class;
use serde::Deserialize;

use super::matrix::{Column, Matrix, MatrixRow, add_up, mode_spans};
use super::operator;
use super::overloads::{self, Classes};
use super::scope::{self, Scope};
use super::view::{self, Choice, Pager, Section, Shell};
use crate::app::AppState;
use crate::db::inventories;
use crate::db::read_operators::{self, Form, SubjectCount};
use crate::error::{Error, Result};
use crate::extract::Query;
use crate::filters;

/// Lines of a page, in either view.
pub(super) const PAGE_SIZE: u64 = 100;

/// The route.
pub fn router() -> Router<AppState> {
    Router::new().route("/operators", get(show))
}

/// What the address of either view asks for.
#[derive(Debug, Deserialize)]
pub(super) struct Parameters {
    device: Option<String>,
    run: Option<String>,
    view: Option<String>,
    pub(super) definition: Option<String>,
    pub(super) class: Option<String>,
    pub(super) family: Option<String>,
    form: Option<String>,
    pub(super) text: Option<String>,
    pub(super) show: Option<String>,
    pub(super) sort: Option<String>,
    pub(super) page: Option<String>,
}

impl Parameters {
    /// What narrows and sorts, for the links of the pager.
    pub(super) fn chosen(&self) -> [(&'static str, &str); 7] {
        [
            ("definition", self.definition.as_deref().unwrap_or_default()),
            ("class", self.class.as_deref().unwrap_or_default()),
            ("family", self.family.as_deref().unwrap_or_default()),
            ("form", self.form.as_deref().unwrap_or_default()),
            ("text", self.text.as_deref().unwrap_or_default()),
            ("show", self.show.as_deref().unwrap_or_default()),
            ("sort", self.sort.as_deref().unwrap_or_default()),
        ]
    }

    /// Whether anything narrows.
    pub(super) fn is_filtered(&self) -> bool {
        self.chosen().iter().any(|(name, value)| *name != "sort" && !value.is_empty())
    }
}

#[derive(Debug, Template, WebTemplate)]
#[template(path = "pages/operators.html")]
struct OperatorsPage {
    shell: Shell,
    scope: Scope,
    entries_href: String,
    overloads_href: String,
    columns: Vec<Column>,
    mode_spans: Vec<(&'static str, usize)>,
    families: Vec<MatrixRow>,
    total: MatrixRow,
    entries: Vec<MatrixRow>,
    family_choices: Vec<Choice>,
    class_choices: Vec<Choice>,
    form_choices: Vec<Choice>,
    show_choices: Vec<Choice>,
    sort_choices: Vec<Choice>,
    has_classes: bool,
    text: String,
    is_filtered: bool,
    pager: Pager,
}

async fn show(State(state): State<AppState>, Query(asked): Query<Parameters>) -> Result<Response> {
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
        return Ok(overloads::page(pool, scope, &asked).await?.into_response());
    }
    let forms = read_operators::list_forms(pool, Suite::Operators).await?;
    let form = chosen_form(&forms, &asked)?;
    let counts =
        read_operators::count_by_subject(pool, &scope.run_ids, &scope.suites, form).await?;
    let inventory = inventories::find(pool, &scope.run_ids).await?;
    let classes = Classes::new(inventory.as_ref());
    Ok(entries_page(scope, &asked, &counts, &classes, &forms)?.into_response())
}

/// `forward`, or `forward, out`.
fn form_name(form: &Form) -> String {
    match &form.layout {
        Some(layout) => format!("{}, {layout}", form.direction),
        None => form.direction.clone(),
    }
}

fn chosen_form<'a>(forms: &'a [Form], asked: &Parameters) -> Result<Option<&'a Form>> {
    let Some(name) = asked.form.as_deref().filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    let found = forms.iter().find(|form| form_name(form) == name);
    found.map(Some).ok_or_else(|| {
        let known: Vec<String> = forms.iter().map(form_name).collect();
        Error::bad_request(
            format!("no case has the form `{name}`: it must be one of {}", known.join("; ")),
            "choose one of these, or leave it out",
        )
    })
}

/// The part of the rows that a page shows.
pub(super) fn cut<T>(rows: Vec<T>, page: u64) -> Vec<T> {
    let begin = usize::try_from((page - 1).saturating_mul(PAGE_SIZE)).unwrap_or(usize::MAX);
    rows.into_iter().skip(begin).take(PAGE_SIZE as usize).collect()
}

/// Values with their labels.
pub(super) fn choices(list: &[(&str, &str)], chosen: Option<&str>) -> Vec<Choice> {
    let chosen = chosen.unwrap_or_default();
    list.iter()
        .map(|(value, label)| Choice {
            value: (*value).to_owned(),
            label: (*label).to_owned(),
            chosen: *value == chosen,
        })
        .collect()
}

fn entries_page(
    scope: Scope,
    asked: &Parameters,
    counts: &[SubjectCount],
    classes: &Classes,
    forms: &[Form],
) -> Result<OperatorsPage> {
    let class = view::word::<Class>(asked.class.as_deref())?;
    let mut matrix = Matrix::default();
    for count in counts {
        let name = operator::entry_name(&count.subject_base);
        if class.is_some() && classes.of_entry(name) != class {
            continue;
        }
        let column = Column { mode: count.mode.0, dtype: count.dtype.0 };
        let outcome = count.outcome.map(|word| word.0);
        matrix.entry(name, column).add(count.verdict.0, outcome, count.cases);
    }
    let columns = matrix.columns();
    let mut rows = matrix.rows(|name| view::operator_href(name, &scope.pin));
    for row in &mut rows {
        row.class = classes.of_entry(&row.name).map_or("", Class::as_str);
    }
    let mut by_family: BTreeMap<&str, Vec<&MatrixRow>> = BTreeMap::new();
    for row in &rows {
        by_family.entry(&row.family).or_default().push(row);
    }
    let pin: Vec<(&str, &str)> = scope.pin.split_once('=').into_iter().collect();
    let families: Vec<MatrixRow> = by_family
        .iter()
        .map(|(name, rows)| {
            let mut with_family = pin.clone();
            with_family.push(("class", class.map_or("", Class::as_str)));
            with_family.push(("form", asked.form.as_deref().unwrap_or_default()));
            with_family.push(("family", name));
            let href = view::link("/operators", &with_family) + "#entries";
            add_up(name, href, rows, columns.len())
        })
        .collect();
    let all: Vec<&MatrixRow> = families.iter().collect();
    let total = add_up("All families", String::new(), &all, columns.len());
    let names: Vec<String> = families.iter().map(|row| row.name.clone()).collect();
    let forms: Vec<String> = forms.iter().map(form_name).collect();

    let page = view::page_number(asked.page.as_deref())?;
    let rows = chosen_entries(rows, asked);
    let mut parameters = pin.clone();
    parameters.extend(asked.chosen());
    let mut overloads = pin.clone();
    overloads.insert(0, ("view", "overloads"));
    Ok(OperatorsPage {
        shell: Shell::new(Section::Operators),
        entries_href: view::link("/operators", &pin),
        overloads_href: view::link("/operators", &overloads),
        mode_spans: mode_spans(&columns),
        columns,
        families,
        total,
        pager: Pager::new("/operators", &parameters, page, PAGE_SIZE, rows.len() as u64),
        entries: cut(rows, page),
        family_choices: Choice::words(names.iter().map(String::as_str), asked.family.as_deref()),
        class_choices: overloads::class_choices(class),
        form_choices: Choice::words(forms.iter().map(String::as_str), asked.form.as_deref()),
        show_choices: choices(
            &[("", "all"), ("failing", "not all passing"), ("missing", "with missing cases")],
            asked.show.as_deref(),
        ),
        sort_choices: choices(
            &[("", "name"), ("failing", "most failing cases"), ("rate", "lowest pass rate")],
            asked.sort.as_deref(),
        ),
        has_classes: !classes.is_empty(),
        text: asked.text.clone().unwrap_or_default(),
        is_filtered: asked.is_filtered(),
        scope,
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
        "rate" => rows.sort_by_key(|row| row.sum.rate_order()),
        _ => {}
    }
    rows
}
