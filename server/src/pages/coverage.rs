//! Coverage of ATen by one named definition, down to each overload or operator that it counts. The
//! definitions are those of `protocol::coverage`; those that need results take them from the runs
//! that the page looks at.

use askama::Template;
use askama_web::WebTemplate;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use protocol::Suite;
use protocol::coverage::{Coverage, Definition, Item, Usage};
use protocol::inventory::Inventory;
use serde::Deserialize;
use sqlx::PgPool;

use super::count;
use super::scope::{self, Scope};
use super::view::{self, Choice, Mark, Pager, Section, Shell};
use crate::app::AppState;
use crate::db::{inventories, read_operators};
use crate::error::Result;
use crate::extract::Query;
use crate::filters;

const PAGE_SIZE: u64 = 200;
/// The reading of "about 450 operators, structural and composite delegates excluded" that leaves
/// out most.
pub(super) const DEFAULT: Definition = Definition::ComputingStrict;

/// The route.
pub fn router() -> Router<AppState> {
    Router::new().route("/coverage", get(show))
}

#[derive(Debug, Deserialize)]
struct Parameters {
    device: Option<String>,
    run: Option<String>,
    definition: Option<String>,
    show: Option<String>,
    text: Option<String>,
    page: Option<String>,
}

#[derive(Debug, Template, WebTemplate)]
#[template(path = "pages/coverage.html")]
struct CoveragePage {
    shell: Shell,
    scope: Scope,
    definition: &'static str,
    describes: &'static str,
    rows: Vec<CoverageRow>,
    chosen: Option<Figure>,
    items: Vec<ItemRow>,
    show_choices: Vec<Choice>,
    text: String,
    pager: Pager,
}

/// One number, by a definition of `docs/coverage.md`.
#[derive(Debug)]
pub(super) struct CoverageRow {
    pub(super) definition: &'static str,
    pub(super) counts: &'static str,
    pub(super) href: String,
    pub(super) is_chosen: bool,
    pub(super) figure: Figure,
}

#[derive(Debug, Clone)]
pub(super) struct Figure {
    pub(super) numerator: u64,
    pub(super) denominator: u64,
    pub(super) rate: String,
    pub(super) unit: &'static str,
}

#[derive(Debug)]
struct ItemRow {
    name: String,
    href: String,
    mark: Mark,
    class: &'static str,
    weight: u64,
}

impl Figure {
    pub(super) fn new(coverage: &Coverage) -> Self {
        Self {
            numerator: coverage.numerator,
            denominator: coverage.denominator,
            rate: count::percent(coverage.numerator, coverage.denominator),
            unit: coverage.unit,
        }
    }
}

/// Every definition that an inventory alone can be counted by; none where no run of the scope has
/// one.
pub(super) async fn count_build(pool: &PgPool, scope: &Scope) -> Result<Vec<Coverage>> {
    count_all(pool, scope, Usage::default()).await
}

/// Every definition that an inventory alone can be counted by, and the chosen one, which may need
/// results; none without an inventory.
pub(super) async fn count_for(
    pool: &PgPool,
    scope: &Scope,
    inventory: Option<&Inventory>,
    chosen: Option<Definition>,
) -> Result<Vec<Coverage>> {
    let Some(inventory) = inventory else { return Ok(Vec::new()) };
    let usage = match chosen {
        Some(Definition::OpinfoExecuted | Definition::Tier1Calls) => usage(pool, scope).await?,
        Some(_) | None => Usage::default(),
    };
    Ok(Definition::ALL.iter().filter_map(|own| own.count(inventory, &usage)).collect())
}

/// Every definition that the runs of a scope can be counted by.
async fn count_all(pool: &PgPool, scope: &Scope, usage: Usage) -> Result<Vec<Coverage>> {
    let Some(inventory) = inventories::find(pool, &scope.run_ids).await? else {
        return Ok(Vec::new());
    };
    let count = |definition: &Definition| definition.count(&inventory, &usage);
    Ok(Definition::ALL.iter().filter_map(count).collect())
}

/// What the runs of a scope dispatched.
async fn usage(pool: &PgPool, scope: &Scope) -> Result<Usage> {
    let mut usage = Usage::default();
    let (ids, suites) = scope.only(|suite| suite == Suite::Operators);
    if !ids.is_empty() {
        let rows = read_operators::count_overloads(pool, &ids, &suites, None).await?;
        let reached = rows.into_iter().map(|row| (row.overload, row.passed > 0));
        usage.operator_suite = Some(reached.collect());
    }
    let (ids, suites) = scope.only(|suite| suite == Suite::Tier1);
    if !ids.is_empty() {
        let rows = read_operators::count_overloads(pool, &ids, &suites, None).await?;
        let calls = rows.into_iter().filter_map(|row| {
            Some((row.overload, row.calls.and_then(|calls| u64::try_from(calls).ok())?))
        });
        usage.tier1 = Some(calls.collect());
    }
    Ok(usage)
}

/// Where a definition is counted down to its items.
pub(super) fn href(definition: Definition, pin: &str) -> String {
    let mut parameters = vec![("definition", definition.as_str())];
    parameters.extend(pin.split_once('='));
    view::link("/coverage", &parameters)
}

/// The numbers as lines of a table.
pub(super) fn rows(
    counted: &[Coverage],
    pin: &str,
    chosen: Option<Definition>,
) -> Vec<CoverageRow> {
    let row = |coverage: &Coverage| CoverageRow {
        definition: coverage.definition.as_str(),
        counts: coverage.definition.describe(),
        href: href(coverage.definition, pin),
        is_chosen: chosen == Some(coverage.definition),
        figure: Figure::new(coverage),
    };
    counted.iter().map(row).collect()
}

async fn show(
    State(state): State<AppState>,
    Query(asked): Query<Parameters>,
) -> Result<CoveragePage> {
    let pool = state.db.pool();
    let definition = view::word::<Definition>(asked.definition.as_deref())?.unwrap_or(DEFAULT);
    let pins = scope::Asked { device: asked.device.as_deref(), run: asked.run.as_deref() };
    let deciding = [Suite::Operators];
    let scope = scope::find(pool, pins, Suite::ALL, &deciding, state.clock.now()).await?;
    let usage = usage(pool, &scope).await?;
    let counted = count_all(pool, &scope, usage).await?;
    let chosen = counted.iter().find(|coverage| coverage.definition == definition);
    let wanted = asked.show.as_deref().unwrap_or_default();
    let text = view::text(asked.text.as_deref()).unwrap_or_default();
    let is_wanted = |item: &&Item| {
        let shown = match wanted {
            "covered" => item.covered,
            "all" => true,
            _ => !item.covered,
        };
        shown && item.name.contains(&text)
    };
    let items: Vec<&Item> =
        chosen.iter().flat_map(|coverage| &coverage.items).filter(is_wanted).collect();
    let page = view::page_number(asked.page.as_deref())?;
    let mut parameters = vec![("definition", definition.as_str())];
    parameters.extend(scope.pin.split_once('='));
    parameters.extend([("show", wanted), ("text", text.as_str())]);
    let begin = usize::try_from((page - 1).saturating_mul(PAGE_SIZE)).unwrap_or(usize::MAX);
    let choice = |value: &str, label: &str| Choice {
        value: value.to_owned(),
        label: label.to_owned(),
        chosen: value == wanted,
    };
    Ok(CoveragePage {
        shell: Shell::new(Section::Operators),
        definition: definition.as_str(),
        describes: definition.describe(),
        rows: rows(&counted, &scope.pin, Some(definition)),
        chosen: chosen.map(Figure::new),
        items: items
            .iter()
            .skip(begin)
            .take(PAGE_SIZE as usize)
            .map(|item| ItemRow::new(item, &scope.pin))
            .collect(),
        show_choices: vec![
            choice("", "not covered"),
            choice("covered", "covered"),
            choice("all", "all"),
        ],
        pager: Pager::new("/coverage", &parameters, page, PAGE_SIZE, items.len() as u64),
        text,
        scope,
    })
}

impl ItemRow {
    fn new(item: &Item, pin: &str) -> Self {
        Self {
            href: view::operator_href(&item.name, pin),
            name: item.name.clone(),
            mark: if item.covered {
                Mark { word: "covered", shape: "tick", tone: "neutral" }
            } else {
                Mark { word: "not covered", shape: "square", tone: "warn" }
            },
            class: item.class.map_or("not in the inventory", |class| class.as_str()),
            weight: item.weight,
        }
    }
}
