//! The overloads of ATen and what the build has of each: families by class under a definition of
//! coverage, then every overload with what it stops. The definitions are those of `coverage`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use askama::Template;
use askama_web::WebTemplate;
use protocol::coverage::{Coverage, Definition};
use protocol::inventory::{Class, Inventory};
use sqlx::PgPool;

use super::classes::{Classes, Narrowing, class_choices, definition_choices, family};
use super::coverage::{self, CoverageRow, Figure};
use super::operators::{Parameters, View, choices, cut};
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
    views: Vec<Choice>,
    all_href: String,
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

/// The page, for what the address asks.
pub(super) async fn page(pool: &PgPool, scope: Scope, asked: &Parameters) -> Result<OverloadsPage> {
    let definition = view::word::<Definition>(asked.definition.as_deref())?;
    let class = view::word::<Class>(asked.class.as_deref())?;
    let counts = read_operators::count_overloads(pool, &scope.run_ids, &scope.suites, None).await?;
    let inventory = inventories::find(pool, &scope.run_ids).await?;
    let classes = Classes::new(inventory.as_ref());
    let counted = coverage::count_for(pool, &scope, inventory.as_ref(), definition).await?;
    let chosen = definition.and_then(|own| counted.iter().find(|one| one.definition == own));
    let counts = with_untouched(counts, inventory.as_ref());
    let rolled = roll_up(&scope, definition, chosen, &counts, &classes, class);
    let rows = chosen_rows(counts, asked, &Narrowing::new(&classes, class, definition, chosen));
    let page = view::page_number(asked.page.as_deref())?;
    let pager = asked.pager(View::Overloads, &scope, page, rows.len());
    let names: Vec<String> = rolled.iter().map(|row| row.name.clone()).collect();
    let mut total = FamilyRow::new("All families", String::new());
    rolled.iter().for_each(|row| total.add_row(row));
    Ok(OverloadsPage {
        shell: Shell::new(Section::Operators),
        views: View::Overloads.choices(&scope),
        all_href: View::Overloads.href(&scope, &[]),
        coverage: coverage::rows(&counted, &scope.pin, definition),
        definition: definition.map_or("", Definition::as_str),
        describes: definition.map_or("", Definition::describe),
        figure: chosen.map(Figure::new),
        unit: chosen.map_or("overloads", |chosen| chosen.unit),
        families: if inventory.is_some() { rolled } else { Vec::new() },
        total,
        definition_choices: definition_choices(asked.definition.as_deref()),
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
        overloads: cut(rows, page)
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

/// Every overload of the inventory has a line, also those that no case touched.
fn with_untouched(
    mut counts: Vec<OverloadCount>,
    inventory: Option<&Inventory>,
) -> Vec<OverloadCount> {
    let Some(inventory) = inventory else { return counts };
    let touched: BTreeSet<String> = counts.iter().map(|count| count.overload.clone()).collect();
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
            let kept = [
                ("definition", definition.map_or("", Definition::as_str)),
                ("class", class.map_or("", Class::as_str)),
                ("family", name),
            ];
            FamilyRow::new(name, View::Overloads.href(scope, &kept) + "#overloads")
        });
        row.add(one);
    }
    families.into_values().collect()
}

/// Overloads that the filter leaves, in the order asked for.
fn chosen_rows(
    mut counts: Vec<OverloadCount>,
    asked: &Parameters,
    narrowing: &Narrowing<'_>,
) -> Vec<OverloadCount> {
    let text = asked.text_to_find();
    let family_asked = asked.family.as_deref().unwrap_or_default();
    let only_failing = asked.show.as_deref() == Some("failing");
    counts.retain(|count| {
        let name = count.overload.as_str();
        narrowing.keeps(name)
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

#[cfg(test)]
mod tests {
    use super::*;

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
