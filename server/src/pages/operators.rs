//! The views of operators, and what their addresses have in common. Here are the entries of the
//! operator suite by dtype and mode, narrowed by form and class; families, operators and overloads of
//! ATen by dtype and mode are in `operator_matrix`, overloads over all suites in `overloads`.

use askama::Template;
use askama_web::WebTemplate;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use protocol::Suite;
use protocol::inventory::Class;
use serde::Deserialize;
use sqlx::PgPool;

use super::classes::{Classes, class_choices};
use super::matrix::{
    self, Column, Matrix, MatrixRow, add_up, add_up_families, entry_family, mode_spans,
};
use super::operator;
use super::operator_matrix;
use super::overloads;
use super::scope::{self, Scope};
use super::view::{self, Choice, Pager, Section, Shell};
use crate::app::AppState;
use crate::db::Db;
use crate::db::inventories;
use crate::db::read_variants::{self, Form, VariantCount};
use crate::error::{Error, Result};
use crate::extract::Query;
use crate::filters;

/// Lines of a page, in every view.
const PAGE_SIZE: u64 = 100;

/// The route.
pub fn router() -> Router<AppState> {
    Router::new().route("/operators", get(show))
}

/// How operators can be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    /// Families, operators and overloads of ATen.
    Matrix,
    /// Entries of the operator suite.
    Entries,
    /// Overloads of ATen over all suites.
    Overloads,
}

impl View {
    const ALL: [Self; 3] = [Self::Matrix, Self::Entries, Self::Overloads];

    fn read(word: Option<&str>) -> Result<Self> {
        let word = word.filter(|word| !word.is_empty()).unwrap_or(Self::Matrix.as_str());
        Self::ALL.into_iter().find(|view| view.as_str() == word).ok_or_else(|| {
            Error::bad_request(
                format!(
                    "unknown view `{word}`: it must be one of {}",
                    Self::ALL.map(Self::as_str).join(", ")
                ),
                "choose one of these words, or leave it out",
            )
        })
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Matrix => "matrix",
            Self::Entries => "entries",
            Self::Overloads => "overloads",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Matrix => "operators and overloads of ATen",
            Self::Entries => "entries of the operator suite",
            Self::Overloads => "overloads over all suites",
        }
    }

    /// Parameters of an address of the view; `kept` is what narrows it.
    fn address<'a>(self, scope: &'a Scope, kept: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        let mut all = match self {
            Self::Matrix => Vec::new(),
            Self::Entries | Self::Overloads => vec![("view", self.as_str())],
        };
        all.extend(scope.pin.split_once('='));
        all.extend(kept);
        all
    }

    /// The same as a link.
    pub(super) fn href(self, scope: &Scope, kept: &[(&str, &str)]) -> String {
        view::link("/operators", &self.address(scope, kept))
    }

    /// All of them, for the switch of this one; the value is the address.
    pub(super) fn choices(self, scope: &Scope) -> Vec<Choice> {
        let choice = |view: Self| Choice {
            value: view.href(scope, &[]),
            label: view.title().to_owned(),
            chosen: view == self,
        };
        Self::ALL.into_iter().map(choice).collect()
    }
}

/// What the address of any view asks for.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Parameters {
    pub(super) device: Option<String>,
    pub(super) run: Option<String>,
    pub(super) view: Option<String>,
    /// The operator whose overloads are shown below it.
    pub(super) open: Option<String>,
    pub(super) definition: Option<String>,
    pub(super) class: Option<String>,
    pub(super) family: Option<String>,
    pub(super) form: Option<String>,
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

    /// The same with another family.
    pub(super) fn chosen_of_family<'a>(&'a self, family: &'a str) -> [(&'a str, &'a str); 7] {
        self.chosen().map(|(name, value)| (name, if name == "family" { family } else { value }))
    }

    /// Whether anything narrows.
    pub(super) fn is_filtered(&self) -> bool {
        self.chosen().iter().any(|(name, value)| *name != "sort" && !value.is_empty())
    }

    /// Text that names are searched for, in small letters.
    pub(super) fn text_to_find(&self) -> String {
        self.text.as_deref().unwrap_or_default().trim().to_lowercase()
    }

    /// Where in `total` lines a page is.
    pub(super) fn pager(&self, view: View, scope: &Scope, page: u64, total: usize) -> Pager {
        let address = view.address(scope, &self.chosen());
        Pager::new("/operators", &address, page, PAGE_SIZE, total as u64)
    }
}

#[derive(Debug, Template, WebTemplate)]
#[template(path = "pages/entries.html")]
struct EntriesPage {
    shell: Shell,
    scope: Scope,
    views: Vec<Choice>,
    all_href: String,
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
    let view = View::read(asked.view.as_deref())?;
    let (wanted, deciding): (&[Suite], &[Suite]) = match view {
        // Its cells are those of the operator suite; a definition may count calls of models.
        View::Matrix => (Suite::ALL, &[Suite::Operators]),
        View::Entries => (&[Suite::Operators], &[Suite::Operators]),
        View::Overloads => (Suite::ALL, Suite::ALL),
    };
    let pins = scope::Asked { device: asked.device.as_deref(), run: asked.run.as_deref() };
    let scope = scope::find(pool, pins, wanted, deciding, state.clock.now()).await?;
    Ok(match view {
        View::Matrix => operator_matrix::page(&state.db, scope, &asked).await?.into_response(),
        View::Entries => entries_page(&state.db, scope, &asked).await?.into_response(),
        View::Overloads => overloads::page(pool, scope, &asked).await?.into_response(),
    })
}

/// The forms of the operator suite, and which of them the address asks for.
pub(super) struct Forms {
    all: Vec<Form>,
    chosen: Option<usize>,
}

impl Forms {
    pub(super) async fn read(pool: &PgPool, asked: &Parameters) -> Result<Self> {
        let all = read_variants::list_forms(pool, Suite::Operators).await?;
        let Some(name) = asked.form.as_deref().filter(|name| !name.is_empty()) else {
            return Ok(Self { all, chosen: None });
        };
        if let Some(place) = all.iter().position(|form| form_name(form) == name) {
            return Ok(Self { all, chosen: Some(place) });
        }
        let known: Vec<String> = all.iter().map(form_name).collect();
        Err(Error::bad_request(
            format!("no case has the form `{name}`: it must be one of {}", known.join("; ")),
            "choose one of these, or leave it out",
        ))
    }

    pub(super) fn chosen(&self) -> Option<&Form> {
        self.chosen.map(|place| &self.all[place])
    }

    pub(super) fn choices(&self) -> Vec<Choice> {
        let names: Vec<String> = self.all.iter().map(form_name).collect();
        let chosen = self.chosen().map(form_name);
        Choice::words(names.iter().map(String::as_str), chosen.as_deref())
    }
}

/// `forward`, or `forward, out`.
fn form_name(form: &Form) -> String {
    match &form.layout {
        Some(layout) => format!("{}, {layout}", form.direction),
        None => form.direction.clone(),
    }
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

async fn entries_page(db: &Db, scope: Scope, asked: &Parameters) -> Result<EntriesPage> {
    let class = view::word::<Class>(asked.class.as_deref())?;
    let pool = db.pool();
    let forms = Forms::read(pool, asked).await?;
    let (ids, suites, form) = (&scope.run_ids, &scope.suites, forms.chosen());
    let count = read_variants::count_by_subject(pool, ids, suites, form);
    let counts = db.kept("subjects", ids, (suites, form), count).await?;
    let classes = Classes::new(inventories::find(pool, &scope.run_ids).await?.as_ref());
    let matrix = matrix_of_entries(&counts, &classes, class);
    let columns = matrix.columns();
    let mut rows = matrix.rows(|name| view::operator_href(name, &scope.pin));
    for row in &mut rows {
        row.class = classes.of_entry(&row.name).map_or("", Class::as_str);
        row.family = entry_family(&row.name).to_owned();
    }
    let families = add_up_families(&rows, columns.len(), |name| {
        let kept = [
            ("class", class.map_or("", Class::as_str)),
            ("form", asked.form.as_deref().unwrap_or_default()),
            ("family", name),
        ];
        View::Entries.href(&scope, &kept) + "#entries"
    });
    let all: Vec<&MatrixRow> = families.iter().collect();
    let total = add_up("All families", String::new(), &all, columns.len());
    let names: Vec<String> = families.iter().map(|row| row.name.clone()).collect();
    let page = view::page_number(asked.page.as_deref())?;
    let rows = chosen_entries(rows, asked);
    Ok(EntriesPage {
        shell: Shell::new(Section::Operators),
        views: View::Entries.choices(&scope),
        all_href: View::Entries.href(&scope, &[]),
        mode_spans: mode_spans(&columns),
        columns,
        families,
        total,
        pager: asked.pager(View::Entries, &scope, page, rows.len()),
        entries: cut(rows, page),
        family_choices: Choice::words(names.iter().map(String::as_str), asked.family.as_deref()),
        class_choices: class_choices(class),
        form_choices: forms.choices(),
        show_choices: choices(
            &[("", "all"), ("failing", "not all passing"), ("missing", "with missing cases")],
            asked.show.as_deref(),
        ),
        sort_choices: choices(&matrix::ORDERS, asked.sort.as_deref()),
        has_classes: !classes.is_empty(),
        text: asked.text.clone().unwrap_or_default(),
        is_filtered: asked.is_filtered(),
        scope,
    })
}

/// Counts of the entries of a class, or of all.
fn matrix_of_entries(counts: &[VariantCount], classes: &Classes, class: Option<Class>) -> Matrix {
    let mut matrix = Matrix::default();
    for count in counts {
        let name = operator::entry_name(&count.name);
        if class.is_some() && classes.of_entry(name) != class {
            continue;
        }
        let column = Column { mode: count.mode.0, dtype: count.dtype.0 };
        let outcome = count.outcome.map(|word| word.0);
        matrix.entry(name, column).add(count.verdict.0, outcome, count.cases);
    }
    matrix
}

/// Entries that the filter leaves, in the order asked for.
fn chosen_entries(mut rows: Vec<MatrixRow>, asked: &Parameters) -> Vec<MatrixRow> {
    let text = asked.text_to_find();
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
    matrix::sort(&mut rows, asked.sort.as_deref());
    rows
}
