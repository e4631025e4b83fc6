//! The overloads of ATen and what the build has of each: families by class under a definition of
//! coverage, then every overload with what it stops. The definitions are those of `coverage`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use askama::Template;
use askama_web::WebTemplate;
use protocol::coverage::{Coverage, Definition};
use protocol::inventory::{Class, Inventory, operator_of};
use sqlx::PgPool;

use super::coverage::{self, CoverageRow, Figure};
use super::operators::{PAGE_SIZE, Parameters, choices, cut};
use super::scope::Scope;
use super::view::{self, Choice, Mark, Pager, Section, Shell};
use crate::db::inventories;
use crate::db::read_operators::{self, OverloadCount};
use crate::error::Result;
use crate::filters;

#[derive(Debug, Template, WebTemplate)]
#[template(path = "pages/overloads.html")]
pub(super) struct OverloadsPage {
    shell: Shell,
    scope: Scope,
    entries_href: String,
    overloads_href: String,
    coverage: Vec<CoverageRow>,
    definition: &'static str,
    describes: &'static str,
    figure: Option<Figure>,
    unit: &'static str,
    families: Vec<FamilyRow>,
    total: FamilyRow,
    overloads: Vec<OverloadRow>,
    definition_choices: Vec<Choice>,
    class_choices: Vec<Choice>,
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
    pub(super) class: &'static str,
    pub(super) count: OverloadCount,
}

impl OverloadRow {
    pub(super) fn new(count: OverloadCount, class: Option<Class>, pin: &str) -> Self {
        let words = count.blamed_outcomes.iter().filter_map(|word| word.parse().ok());
        Self {
            overload: count.overload.clone(),
            href: view::operator_href(&count.overload, pin),
            marks: words.map(Mark::of_outcome).collect(),
            class: class.map_or("", Class::as_str),
            count,
        }
    }
}

/// Sums over what is counted of one family, or of all.
#[derive(Debug, Clone, Default)]
struct FamilyRow {
    name: String,
    href: String,
    counted: u64,
    covered: u64,
    rate: String,
    /// In the order of [`Class::ALL`].
    classes: Vec<u64>,
    /// What the inventory does not know.
    unknown: u64,
}

/// Something that is counted.
struct Counted<'a> {
    name: &'a str,
    covered: bool,
    weight: u64,
    class: Option<Class>,
}

impl FamilyRow {
    fn new(name: &str, href: String) -> Self {
        let classes = vec![0; Class::ALL.len()];
        Self { name: name.to_owned(), href, classes, ..Self::default() }
    }

    fn add(&mut self, counted: &Counted<'_>) {
        self.counted += counted.weight;
        self.covered += if counted.covered { counted.weight } else { 0 };
        match counted.class.and_then(|own| Class::ALL.iter().position(|class| *class == own)) {
            Some(place) => self.classes[place] += counted.weight,
            None => self.unknown += counted.weight,
        }
        self.rate = super::count::percent(self.covered, self.counted);
    }

    fn add_row(&mut self, row: &Self) {
        self.counted += row.counted;
        self.covered += row.covered;
        self.unknown += row.unknown;
        for (sum, own) in self.classes.iter_mut().zip(&row.classes) {
            *sum += own;
        }
        self.rate = super::count::percent(self.covered, self.counted);
    }
}

/// What the operators and overloads of an inventory are.
pub(super) struct Classes {
    overloads: HashMap<String, Class>,
    operators: HashMap<String, Class>,
}

impl Classes {
    pub(super) fn new(inventory: Option<&Inventory>) -> Self {
        let mut classes = Self { overloads: HashMap::new(), operators: HashMap::new() };
        let Some(inventory) = inventory else { return classes };
        for overload in &inventory.overloads {
            let class = overload.class(&inventory.dispatch_key);
            classes.overloads.insert(overload.name.clone(), class);
            let best = classes.operators.entry(overload.operator().to_owned()).or_insert(class);
            *best = class.min(*best);
        }
        classes
    }

    /// Of an overload, or the best of the overloads where only an operator is named.
    pub(super) fn of(&self, name: &str) -> Option<Class> {
        self.overloads.get(name).or_else(|| self.operators.get(name)).copied()
    }

    /// Of the operator that has the name of an entry of the operator database: the best of its
    /// overloads. Families whose entries only share words with ATen have none.
    pub(super) fn of_entry(&self, entry: &str) -> Option<Class> {
        let last = entry.rsplit('.').next().unwrap_or(entry);
        let first = entry.split('.').next().unwrap_or(entry);
        let only_words = ["masked", "sparse", "signal", "_refs", "ops"].contains(&first);
        let names = [entry.replace('.', "_"), last.to_owned(), first.to_owned()];
        let most = if only_words { 1 } else { names.len() };
        names[..most].iter().find_map(|name| self.operators.get(&format!("aten::{name}"))).copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.overloads.is_empty()
    }
}

/// The classes to choose from.
pub(super) fn class_choices(chosen: Option<Class>) -> Vec<Choice> {
    Choice::words(Class::ALL.iter().map(|class| class.as_str()), chosen.map(Class::as_str))
}

/// The page, for what the address asks.
pub(super) async fn page(pool: &PgPool, scope: Scope, asked: &Parameters) -> Result<OverloadsPage> {
    let definition = view::word::<Definition>(asked.definition.as_deref())?;
    let class = view::word::<Class>(asked.class.as_deref())?;
    let counts = read_operators::count_overloads(pool, &scope.run_ids, &scope.suites, None).await?;
    let inventory = inventories::find(pool, &scope.run_ids).await?;
    let classes = Classes::new(inventory.as_ref());
    let counted = match &inventory {
        Some(inventory) => coverage::count_for(pool, &scope, inventory, definition).await?,
        None => Vec::new(),
    };
    let chosen = definition.and_then(|own| counted.iter().find(|one| one.definition == own));
    let counts = with_untouched(counts, inventory.as_ref());
    let rolled = roll_up(&scope, definition, chosen, &counts, &classes, class);
    let rows = chosen_rows(counts, asked, chosen, &classes, class);
    let pages = view::page_number(asked.page.as_deref())?;
    let pager =
        Pager::new("/operators", &parameters(&scope, asked), pages, PAGE_SIZE, rows.len() as u64);
    let pin: Vec<(&str, &str)> = scope.pin.split_once('=').into_iter().collect();
    let mut overloads = pin.clone();
    overloads.insert(0, ("view", "overloads"));
    let definitions = std::iter::once(("", "every overload"))
        .chain(Definition::ALL.iter().map(|own| (own.as_str(), own.as_str())));
    let names: Vec<String> = rolled.iter().map(|row| row.name.clone()).collect();
    let mut total = FamilyRow::new("All families", String::new());
    rolled.iter().for_each(|row| total.add_row(row));
    Ok(OverloadsPage {
        shell: Shell::new(Section::Operators),
        entries_href: view::link("/operators", &pin),
        overloads_href: view::link("/operators", &overloads),
        coverage: coverage::rows(&counted, &scope.pin, definition),
        definition: definition.map_or("", Definition::as_str),
        describes: definition.map_or("", Definition::describe),
        figure: chosen.map(Figure::new),
        unit: chosen.map_or("overloads", |chosen| chosen.unit),
        families: if inventory.is_some() { rolled } else { Vec::new() },
        total,
        definition_choices: choices(&definitions.collect::<Vec<_>>(), asked.definition.as_deref()),
        class_choices: class_choices(class),
        family_choices: Choice::words(names.iter().map(String::as_str), asked.family.as_deref()),
        show_choices: choices(
            &[("", "all"), ("failing", "blamed for a failure")],
            asked.show.as_deref(),
        ),
        sort_choices: choices(
            &[("", "what stops most models"), ("name", "name"), ("calls", "most calls")],
            asked.sort.as_deref(),
        ),
        text: asked.text.clone().unwrap_or_default(),
        is_filtered: asked.is_filtered(),
        overloads: cut(rows, pages)
            .into_iter()
            .map(|count| {
                let class = classes.of(&count.overload);
                OverloadRow::new(count, class, &scope.pin)
            })
            .collect(),
        pager,
        scope,
    })
}

fn parameters<'a>(scope: &'a Scope, asked: &'a Parameters) -> Vec<(&'a str, &'a str)> {
    let mut all = vec![("view", "overloads")];
    all.extend(scope.pin.split_once('='));
    all.extend(asked.chosen());
    all
}

/// Every overload of the inventory has a line, also those that no case touched.
fn with_untouched(
    mut counts: Vec<OverloadCount>,
    inventory: Option<&Inventory>,
) -> Vec<OverloadCount> {
    let Some(inventory) = inventory else { return counts };
    let touched: std::collections::BTreeSet<String> =
        counts.iter().map(|count| count.overload.clone()).collect();
    let untouched = inventory.overloads.iter().filter(|own| !touched.contains(&own.name));
    counts.extend(untouched.map(|own| OverloadCount::untouched(&own.name)));
    counts.sort_by(|a, b| a.overload.cmp(&b.overload));
    counts
}

/// One line for each family, of what the definition counts; of every overload without one.
fn roll_up(
    scope: &Scope,
    definition: Option<Definition>,
    chosen: Option<&Coverage>,
    counts: &[OverloadCount],
    classes: &Classes,
    class: Option<Class>,
) -> Vec<FamilyRow> {
    let counted: Vec<Counted<'_>> = match (definition, chosen) {
        (_, Some(coverage)) => coverage
            .items
            .iter()
            .map(|item| Counted {
                name: &item.name,
                covered: item.covered,
                weight: item.weight,
                class: item.class,
            })
            .collect(),
        (Some(_), None) => Vec::new(),
        (None, None) => counts
            .iter()
            .map(|count| Counted {
                name: &count.overload,
                covered: false,
                weight: 1,
                class: classes.of(&count.overload),
            })
            .collect(),
    };
    let mut families: BTreeMap<String, FamilyRow> = BTreeMap::new();
    for one in counted.iter().filter(|one| class.is_none() || one.class == class) {
        let name = family(one.name);
        let row = families.entry(name.to_owned()).or_insert_with(|| {
            let mut parameters = vec![("view", "overloads")];
            parameters.extend(scope.pin.split_once('='));
            parameters.push(("definition", definition.map_or("", Definition::as_str)));
            parameters.push(("class", class.map_or("", Class::as_str)));
            parameters.push(("family", name));
            FamilyRow::new(name, view::link("/operators", &parameters) + "#overloads")
        });
        row.add(one);
    }
    families.into_values().collect()
}

/// Overloads that the filter leaves, in the order asked for.
fn chosen_rows(
    mut counts: Vec<OverloadCount>,
    asked: &Parameters,
    chosen: Option<&Coverage>,
    classes: &Classes,
    class: Option<Class>,
) -> Vec<OverloadCount> {
    let text = asked.text.as_deref().unwrap_or_default().trim().to_lowercase();
    let family_asked = asked.family.as_deref().unwrap_or_default();
    let only_failing = asked.show.as_deref() == Some("failing");
    let is_of_operators = chosen.is_some_and(|coverage| coverage.unit == "operators");
    let of_definition: Option<HashMap<&str, Option<Class>>> = chosen.map(|coverage| {
        coverage.items.iter().map(|item| (item.name.as_str(), item.class)).collect()
    });
    counts.retain(|count| {
        let name = count.overload.as_str();
        // Where operators are counted, the class is that of the operator, as in the sums above.
        let (is_counted, own) = match &of_definition {
            None => (asked.definition.as_deref().unwrap_or_default().is_empty(), classes.of(name)),
            Some(items) => {
                let item = items.get(if is_of_operators { operator_of(name) } else { name });
                (item.is_some(), item.copied().flatten())
            }
        };
        is_counted
            && (class.is_none() || own == class)
            && (text.is_empty() || name.to_lowercase().contains(&text))
            && (family_asked.is_empty() || family(name) == family_asked)
            && (!only_failing || count.blamed > 0)
    });
    match asked.sort.as_deref().unwrap_or_default() {
        "name" => {}
        "calls" => counts.sort_by_key(|count| Reverse(count.calls)),
        _ => counts.sort_by_key(|c| Reverse((c.blocked_models, c.blamed, c.fell_back, c.models))),
    }
    counts
}

/// Families of ATen, by what operators are called.
const FAMILIES: [(&str, &[&str]); 9] = [
    ("fft", &["fft_", "_fft_"]),
    ("foreach and fused", &["_foreach_", "_fused_", "_amp_foreach"]),
    ("linalg", &["linalg_", "_linalg_"]),
    ("nested", &["nested_", "_nested_"]),
    ("quantized", &["quantize", "_quantize", "fake_quantize", "_fake_quantize", "dequantize"]),
    ("sparse", &["sparse_", "_sparse_", "to_sparse", "_to_sparse"]),
    ("special", &["special_"]),
    ("vendor libraries", &["cudnn_", "_cudnn_", "miopen_", "mkldnn_", "_mkldnn_", "_mps_"]),
    ("internal", &["_"]),
];

/// The family of an operator or overload; another name space is a family of its own.
fn family(name: &str) -> &str {
    let Some((space, rest)) = name.split_once("::") else { return "no name space" };
    if space != "aten" {
        return space;
    }
    let is_of = |(_, starts): &&(&str, &[&str])| starts.iter().any(|start| rest.starts_with(start));
    FAMILIES.iter().find(is_of).map_or("general", |(family, _)| family)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_belongs_to_the_family_of_its_name() {
        for (name, expected) in [
            ("aten::add.Tensor", "general"),
            ("aten::_fft_r2c", "fft"),
            ("aten::linalg_svd.U", "linalg"),
            ("aten::_foreach_add.List", "foreach and fused"),
            ("aten::_log_softmax", "internal"),
            ("tpu::own", "tpu"),
            ("odd", "no name space"),
        ] {
            assert_eq!(family(name), expected, "{name}");
        }
    }

    #[test]
    fn a_sum_of_families_is_what_they_are_made_of() {
        let one = |name, covered, class| Counted { name, covered, weight: 3, class };
        let mut first = FamilyRow::new("a", String::new());
        first.add(&one("aten::add", true, Some(Class::Native)));
        first.add(&one("aten::mul", false, Some(Class::Missing)));
        let mut second = FamilyRow::new("b", String::new());
        second.add(&one("aten::odd", false, None));
        let mut total = FamilyRow::new("all", String::new());
        total.add_row(&first);
        total.add_row(&second);
        assert_eq!((total.covered, total.counted, total.unknown), (3, 9, 3));
        assert_eq!(total.classes.iter().sum::<u64>() + total.unknown, total.counted);
        assert_eq!(total.rate, "33.3 %");
    }
}
