//! The list of models: what each suite says of each, on the newest runs of a device profile.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use askama::Template;
use askama_web::WebTemplate;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use protocol::{Mode, Suite};
use serde::Deserialize;

use super::count::Count;
use super::model_graphs::{GraphCell, Graphs, PopularityCell};
use super::operators::choices;
use super::rows;
use super::scope::{self, Scope};
use super::view::{self, Choice, Pager, Section, Shell};
use crate::app::AppState;
use crate::db::graphs;
use crate::db::read_variants::{self, VariantCount};
use crate::error::Result;
use crate::extract::Query;
use crate::filters;

const PAGE_SIZE: u64 = 100;

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
    graph: Option<String>,
    sort: Option<String>,
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
    sort_choices: Vec<Choice>,
    graph: String,
    has_graphs: bool,
    /// Models with a known graph, different graphs, models whose execution was another's.
    graphs: (usize, usize, usize),
    has_popularity: bool,
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
    popularity: Option<PopularityCell>,
    graphs: Vec<GraphCell>,
    sum: Count,
    cells: Vec<Option<Count>>,
}

async fn show(
    State(state): State<AppState>,
    Query(asked): Query<Parameters>,
) -> Result<ModelsPage> {
    let pool = state.db.pool();
    let pins = scope::Asked { device: asked.device.as_deref(), run: asked.run.as_deref() };
    let scope = scope::find(pool, pins, Suite::MODELS, Suite::MODELS, state.clock.now()).await?;
    let (ids, suites) = (&scope.run_ids, &scope.suites);
    let count = read_variants::count_by_subject(pool, ids, suites, None);
    let counts = state.db.kept("subjects", ids, (suites, None::<()>), count).await?;
    let seen = graphs::list_of_models(pool, &scope.run_ids, &scope.suites).await?;
    let graphs = Graphs::new(seen, &scope.pin);
    let columns: Vec<Column> =
        counts.iter().map(Column::of).collect::<BTreeSet<_>>().into_iter().collect();
    let mut models = model_rows(&counts, &columns, &scope.pin);
    for row in &mut models {
        row.popularity = PopularityCell::of(&state.popularity, &row.name);
        row.graphs = graphs.of(&row.name);
    }
    let models = chosen_models(models, &asked);
    let total = total_row(&models, columns.len());
    let page = view::page_number(asked.page.as_deref())?;
    let mut parameters: Vec<(&str, &str)> = scope.pin.split_once('=').into_iter().collect();
    parameters.extend([
        ("text", asked.text.as_deref().unwrap_or_default()),
        ("show", asked.show.as_deref().unwrap_or_default()),
        ("graph", asked.graph.as_deref().unwrap_or_default()),
        ("sort", asked.sort.as_deref().unwrap_or_default()),
    ]);
    let pager = Pager::new("/models", &parameters, page, PAGE_SIZE, models.len() as u64);
    let begin = usize::try_from((page - 1).saturating_mul(PAGE_SIZE)).unwrap_or(usize::MAX);
    Ok(ModelsPage {
        shell: Shell::new(Section::Models),
        suite_spans: suite_spans(&columns),
        models: models.into_iter().skip(begin).take(PAGE_SIZE as usize).collect(),
        total,
        columns,
        show_choices: choices(
            &[
                ("", "all"),
                ("failing", "not all passing"),
                ("passing", "all passing"),
                ("executed", "executed itself"),
                ("shared", "with another's execution"),
            ],
            asked.show.as_deref(),
        ),
        sort_choices: choices(
            &[
                ("", "name"),
                ("popularity", "popularity"),
                ("failing", "most failing cases"),
                ("rate", "lowest pass rate"),
                ("graph", "most models with its graph"),
            ],
            asked.sort.as_deref(),
        ),
        has_graphs: !graphs.is_empty(),
        graphs: graphs.summary(),
        has_popularity: !state.popularity.is_empty(),
        is_filtered: [&asked.text, &asked.show, &asked.graph]
            .iter()
            .any(|value| value.as_deref().is_some_and(|text| !text.trim().is_empty())),
        graph: asked.graph.clone().unwrap_or_default(),
        text: asked.text.clone().unwrap_or_default(),
        pager,
        scope,
    })
}

/// Models that the filter leaves, in the order asked for; by name where that leaves them equal.
fn chosen_models(mut models: Vec<ModelRow>, asked: &Parameters) -> Vec<ModelRow> {
    let text = asked.text.as_deref().unwrap_or_default().trim().to_lowercase();
    let graph = asked.graph.as_deref().unwrap_or_default().trim();
    let is_shared = |row: &ModelRow| row.graphs.iter().any(|cell| cell.executed_as.is_some());
    models.retain(|row| {
        (text.is_empty() || row.name.to_lowercase().contains(&text))
            && (graph.is_empty() || row.graphs.iter().any(|cell| cell.graph == graph))
            && match asked.show.as_deref().unwrap_or_default() {
                "failing" => row.sum.not_passed() > 0,
                "passing" => row.sum.passed() == row.sum.planned(),
                "executed" => !row.graphs.is_empty() && !is_shared(row),
                "shared" => is_shared(row),
                _ => true,
            }
    });
    match asked.sort.as_deref().unwrap_or_default() {
        "popularity" => models.sort_by(|a, b| {
            let place = |row: &'_ ModelRow| row.popularity.is_none();
            let order = |row| PopularityCell::order(row);
            place(a).cmp(&place(b)).then_with(|| {
                a.popularity.as_ref().map(order).cmp(&b.popularity.as_ref().map(order))
            })
        }),
        "failing" => models.sort_by_key(|row| Reverse(row.sum.not_passed())),
        "rate" => models.sort_by_key(|row| row.sum.rate_order()),
        "graph" => models.sort_by_key(|row| {
            let largest = row.graphs.iter().max_by_key(|cell| cell.models);
            let key = largest.map(|cell| (Reverse(cell.models), cell.graph.clone()));
            (key.is_none(), key)
        }),
        _ => {}
    }
    models
}

impl Column {
    fn of(count: &VariantCount) -> Self {
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

fn model_rows(counts: &[VariantCount], columns: &[Column], pin: &str) -> Vec<ModelRow> {
    let mut models: BTreeMap<&str, BTreeMap<Column, Count>> = BTreeMap::new();
    for count in counts {
        let cells = models.entry(&count.name).or_default();
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
                popularity: None,
                graphs: Vec::new(),
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
    let name = format!("All {} models", models.len());
    let (popularity, graphs) = (None, Vec::new());
    ModelRow { name, href: String::new(), popularity, graphs, sum, cells }
}
