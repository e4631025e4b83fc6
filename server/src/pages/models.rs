//! The list of models: what each suite says of each, on the newest runs of a device profile.

use std::collections::{BTreeMap, BTreeSet};

use askama::Template;
use askama_web::WebTemplate;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use protocol::{Mode, Suite};
use serde::Deserialize;

use super::count::Count;
use super::rows;
use super::scope::{self, Scope};
use super::view::{self, Choice, Pager, Section, Shell};
use crate::app::AppState;
use crate::db::read_operators::{self, SubjectCount};
use crate::error::Result;
use crate::extract::Query;
use crate::filters;

const PAGE_SIZE: u64 = 100;

/// Suites whose subjects are models.
pub(super) const MODEL_SUITES: [Suite; 3] = [Suite::Tier1, Suite::Tier2, Suite::Dynamism];

/// The route.
pub fn router() -> Router<AppState> {
    Router::new().route("/models", get(show))
}

#[derive(Debug, Deserialize)]
struct Parameters {
    device: Option<String>,
    run: Option<String>,
    text: Option<String>,
    show: Option<String>,
    page: Option<String>,
}

#[derive(Debug, Template, WebTemplate)]
#[template(path = "pages/models.html")]
struct ModelsPage {
    shell: Shell,
    scope: Scope,
    suite_spans: Vec<(String, usize)>,
    columns: Vec<Column>,
    models: Vec<ModelRow>,
    total: ModelRow,
    show_choices: Vec<Choice>,
    text: String,
    is_filtered: bool,
    pager: Pager,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Column {
    suite: Suite,
    mode: Mode,
}

#[derive(Debug)]
struct ModelRow {
    name: String,
    href: String,
    sum: Count,
    cells: Vec<Option<Count>>,
}

async fn show(
    State(state): State<AppState>,
    Query(asked): Query<Parameters>,
) -> Result<ModelsPage> {
    let pool = state.db.pool();
    let pins = scope::Asked { device: asked.device.as_deref(), run: asked.run.as_deref() };
    let scope = scope::find(pool, pins, &MODEL_SUITES, &MODEL_SUITES, state.clock.now()).await?;
    let counts = read_operators::count_by_subject(pool, &scope.run_ids, &scope.suites).await?;
    let columns: Vec<Column> =
        counts.iter().map(Column::of).collect::<BTreeSet<_>>().into_iter().collect();
    let mut models = model_rows(&counts, &columns, &scope.pin);

    let text = asked.text.as_deref().unwrap_or_default().trim().to_lowercase();
    let chosen = asked.show.as_deref().unwrap_or_default();
    models.retain(|row| {
        (text.is_empty() || row.name.to_lowercase().contains(&text))
            && match chosen {
                "failing" => row.sum.not_passed() > 0,
                "passing" => row.sum.passed() == row.sum.planned(),
                _ => true,
            }
    });
    let total = total_row(&models, columns.len());
    let page = view::page_number(asked.page.as_deref())?;
    let mut parameters: Vec<(&str, &str)> = scope.pin.split_once('=').into_iter().collect();
    parameters.extend([("text", text.as_str()), ("show", chosen)]);
    let pager = Pager::new("/models", &parameters, page, PAGE_SIZE, models.len() as u64);
    let begin = usize::try_from((page - 1).saturating_mul(PAGE_SIZE)).unwrap_or(usize::MAX);
    let show_choice = |value: &str, label: &str| Choice {
        value: value.to_owned(),
        label: label.to_owned(),
        chosen: value == chosen,
    };
    Ok(ModelsPage {
        shell: Shell::new(Section::Models),
        suite_spans: suite_spans(&columns),
        models: models.into_iter().skip(begin).take(PAGE_SIZE as usize).collect(),
        total,
        columns,
        show_choices: vec![
            show_choice("", "all"),
            show_choice("failing", "not all passing"),
            show_choice("passing", "all passing"),
        ],
        is_filtered: !text.is_empty() || !chosen.is_empty(),
        text: asked.text.clone().unwrap_or_default(),
        pager,
        scope,
    })
}

impl Column {
    fn of(count: &SubjectCount) -> Self {
        Self { suite: count.suite.0, mode: count.mode.0 }
    }
}

fn suite_spans(columns: &[Column]) -> Vec<(String, usize)> {
    let mut spans: Vec<(String, usize)> = Vec::new();
    for column in columns {
        let title = rows::suite_title(column.suite);
        match spans.last_mut() {
            Some((last, width)) if *last == title => *width += 1,
            Some(_) | None => spans.push((title, 1)),
        }
    }
    spans
}

fn model_rows(counts: &[SubjectCount], columns: &[Column], pin: &str) -> Vec<ModelRow> {
    let mut models: BTreeMap<&str, BTreeMap<Column, Count>> = BTreeMap::new();
    for count in counts {
        let cells = models.entry(&count.subject_base).or_default();
        let outcome = count.outcome.map(|word| word.0);
        cells.entry(Column::of(count)).or_default().add(count.verdict.0, outcome, count.cases);
    }
    models
        .into_iter()
        .map(|(name, row)| {
            let mut sum = Count::default();
            for count in row.values() {
                sum += count;
            }
            ModelRow {
                name: name.to_owned(),
                href: view::model_href(name, pin),
                sum,
                cells: columns.iter().map(|column| row.get(column).cloned()).collect(),
            }
        })
        .collect()
}

fn total_row(models: &[ModelRow], width: usize) -> ModelRow {
    let mut sum = Count::default();
    let mut cells: Vec<Option<Count>> = vec![None; width];
    for model in models {
        sum += &model.sum;
        for (total, cell) in cells.iter_mut().zip(&model.cells) {
            if let Some(cell) = cell {
                *total.get_or_insert_default() += cell;
            }
        }
    }
    ModelRow { name: format!("All {} models", models.len()), href: String::new(), sum, cells }
}
