//! The operator matrix: families of ATen, their operators and the overloads of those, by dtype and
//! mode, narrowed by form, class and definition of coverage. A cell counts the cases of the operator
//! suite that dispatched an overload or are blamed on it; operators and families are sums of what is
//! left of their overloads.

use std::collections::{BTreeMap, BTreeSet};

use askama::Template;
use askama_web::WebTemplate;
use protocol::Suite;
use protocol::coverage::Definition;
use protocol::inventory::{Class, operator_of};

use super::classes::{Classes, Narrowing, class_choices, definition_choices, family};
use super::coverage::{self, Figure};
use super::matrix::{self, Column, Fold, Matrix, MatrixRow, add_up, add_up_families, mode_spans};
use super::operators::{Forms, Parameters, View, choices, cut};
use super::scope::Scope;
use super::view::{self, Choice, Pager, Section, Shell};
use crate::db::Db;
use crate::db::inventories;
use crate::db::read_variants;
use crate::error::Result;
use crate::filters;

#[derive(Debug, Template, WebTemplate)]
#[template(path = "pages/operator_matrix.html")]
pub(super) struct OperatorMatrixPage {
    shell: Shell,
    scope: Scope,
    views: Vec<Choice>,
    all_href: String,
    entries_href: String,
    /// The run whose cases are counted; empty where none has the operator suite.
    run: String,
    run_href: String,
    definition: &'static str,
    describes: &'static str,
    figure: Option<Figure>,
    columns: Vec<Column>,
    mode_spans: Vec<(&'static str, usize)>,
    families: Vec<MatrixRow>,
    total: MatrixRow,
    operators: Vec<MatrixRow>,
    definition_choices: Vec<Choice>,
    class_choices: Vec<Choice>,
    form_choices: Vec<Choice>,
    family_choices: Vec<Choice>,
    show_choices: Vec<Choice>,
    sort_choices: Vec<Choice>,
    has_classes: bool,
    text: String,
    is_filtered: bool,
    pager: Pager,
}

/// The page, for what the address asks.
pub(super) async fn page(db: &Db, scope: Scope, asked: &Parameters) -> Result<OperatorMatrixPage> {
    let definition = view::word::<Definition>(asked.definition.as_deref())?;
    let class = view::word::<Class>(asked.class.as_deref())?;
    let pool = db.pool();
    let forms = Forms::read(pool, asked).await?;
    let (ids, suites, form) = (&scope.run_ids, &scope.suites, forms.chosen());
    let count = read_variants::count_overload_variants(pool, ids, suites, form, None);
    let counts = db.kept("overload variants", ids, (suites, form), count).await?;
    let inventory = inventories::find(pool, ids).await?;
    let classes = Classes::new(inventory.as_ref());
    let counted = coverage::count_for(pool, &scope, inventory.as_ref(), definition).await?;
    let chosen = definition.and_then(|own| counted.iter().find(|one| one.definition == own));

    let mut matrix = Matrix::of_overloads(&counts);
    inventory.iter().flat_map(|own| &own.overloads).for_each(|own| matrix.touch(&own.name));
    let families: BTreeSet<String> = matrix.names().map(|name| family(name).to_owned()).collect();
    let narrowing = Narrowing::new(&classes, class, definition, chosen);
    narrow(&mut matrix, asked, &classes, &narrowing);
    let tree = Tree::new(&matrix, &classes, &narrowing, &scope, asked);
    let number = view::page_number(asked.page.as_deref())?;
    let operators = chosen_operators(tree.operators, asked);
    Ok(OperatorMatrixPage {
        shell: Shell::new(Section::Operators),
        views: View::Matrix.choices(&scope),
        all_href: View::Matrix.href(&scope, &[]),
        entries_href: View::Entries.href(&scope, &[]),
        run_href: scope.run_key_of(Suite::Operators).map(view::run_href).unwrap_or_default(),
        run: scope.run_key_of(Suite::Operators).unwrap_or_default().to_owned(),
        definition: definition.map_or("", Definition::as_str),
        describes: definition.map_or("", Definition::describe),
        figure: chosen.map(Figure::new),
        mode_spans: mode_spans(&tree.columns),
        columns: tree.columns,
        families: tree.families,
        total: tree.total,
        pager: asked.pager(View::Matrix, &scope, number, operators.len()),
        operators: cut(operators, number)
            .into_iter()
            .map(|row| folded(row, asked, &scope, number))
            .collect(),
        definition_choices: definition_choices(asked.definition.as_deref()),
        class_choices: class_choices(class),
        form_choices: forms.choices(),
        family_choices: Choice::words(families.iter().map(String::as_str), asked.family.as_deref()),
        show_choices: choices(
            &[("", "all"), ("failing", "not all passing"), ("missing", "missing from the build")],
            asked.show.as_deref(),
        ),
        sort_choices: choices(&matrix::ORDERS, asked.sort.as_deref()),
        has_classes: !classes.is_empty(),
        text: asked.text.clone().unwrap_or_default(),
        is_filtered: asked.is_filtered(),
        scope,
    })
}

/// Leaves the overloads that the address asks for, of every family: what is narrowed away is in no
/// sum either.
fn narrow(matrix: &mut Matrix, asked: &Parameters, classes: &Classes, narrowing: &Narrowing<'_>) {
    let text = asked.text_to_find();
    let show = asked.show.as_deref().unwrap_or_default();
    matrix.retain(|name, sum| {
        narrowing.keeps(name)
            && (text.is_empty() || name.to_lowercase().contains(&text))
            && match show {
                "failing" => sum.not_passed() > 0,
                "missing" => {
                    !classes.is_empty() && matches!(classes.of(name), None | Some(Class::Missing))
                }
                _ => true,
            }
    });
}

/// Overloads added up.
struct Tree {
    columns: Vec<Column>,
    /// By name, each with its overloads.
    operators: Vec<MatrixRow>,
    families: Vec<MatrixRow>,
    total: MatrixRow,
}

impl Tree {
    fn new(
        matrix: &Matrix,
        classes: &Classes,
        narrowing: &Narrowing<'_>,
        scope: &Scope,
        asked: &Parameters,
    ) -> Self {
        let columns = matrix.columns();
        let href = |name: &str| view::operator_href(name, &scope.pin);
        let word = |class: Option<Class>| match class {
            Some(class) => class.as_str(),
            None if classes.is_empty() => "",
            None => "not in the inventory",
        };
        let mut by_operator: BTreeMap<String, Vec<MatrixRow>> = BTreeMap::new();
        for mut row in matrix.rows(href) {
            row.class = word(classes.of(&row.name));
            by_operator.entry(operator_of(&row.name).to_owned()).or_default().push(row);
        }
        let operator = |(name, overloads): (String, Vec<MatrixRow>)| {
            let rows: Vec<&MatrixRow> = overloads.iter().collect();
            let best = || overloads.iter().filter_map(|row| classes.of(&row.name)).min();
            let sum = add_up(&name, href(&name), &rows, columns.len());
            let class = word(narrowing.of_operator(&name).or_else(best));
            MatrixRow { family: family(&name).to_owned(), class, children: overloads, ..sum }
        };
        let operators: Vec<MatrixRow> = by_operator.into_iter().map(operator).collect();
        let families = add_up_families(&operators, columns.len(), |name| {
            View::Matrix.href(scope, &asked.chosen_of_family(name)) + "#operators"
        });
        let all: Vec<&MatrixRow> = families.iter().collect();
        let total = add_up("All families", String::new(), &all, columns.len());
        Self { columns, operators, families, total }
    }
}

/// Operators of the family asked for, in the order asked for.
fn chosen_operators(mut operators: Vec<MatrixRow>, asked: &Parameters) -> Vec<MatrixRow> {
    let family = asked.family.as_deref().unwrap_or_default();
    operators.retain(|row| family.is_empty() || row.family == family);
    matrix::sort(&mut operators, asked.sort.as_deref());
    operators
}

/// An operator with its overloads below it where the address opens it: by its name, or because
/// little is left when a family or a text is asked for.
fn folded(mut row: MatrixRow, asked: &Parameters, scope: &Scope, page: u64) -> MatrixRow {
    let is_open = asked.open.as_deref() == Some(row.name.as_str());
    let is_asked_for = |text: &Option<String>| text.as_deref().is_some_and(|t| !t.is_empty());
    let all_open = is_asked_for(&asked.family) || is_asked_for(&asked.text);
    let page = if page == 1 { String::new() } else { page.to_string() };
    let mut kept = asked.chosen().to_vec();
    kept.push(("page", &page));
    let overloads = match row.children.len() {
        1 => "1 overload".to_owned(),
        many => format!("{many} overloads"),
    };
    row.fold = if all_open {
        Fold { label: overloads, ..Fold::default() }
    } else if is_open {
        let href = View::Matrix.href(scope, &kept) + "#operators";
        Fold { label: "close".to_owned(), href, is_open }
    } else {
        kept.push(("open", &row.name));
        let href = View::Matrix.href(scope, &kept) + "#open";
        Fold { label: overloads, href, is_open }
    };
    if !all_open && !is_open {
        row.children.clear();
    }
    row
}

#[cfg(test)]
mod tests {
    use protocol::inventory::{Inventory, Overload};
    use protocol::{Dtype, Mode, Outcome, Verdict};

    use super::*;
    use crate::pages::count::Count;

    fn inventory() -> Inventory {
        let overload = |name: &str, kernels: &[&str]| Overload {
            name: name.to_owned(),
            schema: String::new(),
            tags: Vec::new(),
            view: false,
            structured_delegate: String::new(),
            kernels: kernels.iter().map(|&key| key.to_owned()).collect(),
            added: Vec::new(),
        };
        Inventory {
            dispatch_key: "PrivateUse1".to_owned(),
            overloads: vec![
                overload("aten::add.Tensor", &["PrivateUse1"]),
                overload("aten::add.out", &["CPU"]),
                overload("aten::fft_rfft", &["CompositeImplicitAutograd"]),
                overload("aten::linalg_svd.U", &["CPU"]),
            ],
        }
    }

    fn matrix() -> Matrix {
        let mut matrix = Matrix::default();
        for own in &inventory().overloads {
            matrix.touch(&own.name);
        }
        for (place, name) in
            ["aten::add", "aten::add.Tensor", "aten::add.out", "aten::fft_rfft", "tpu::own"]
                .iter()
                .enumerate()
        {
            let cases = i64::try_from(place).unwrap() + 1;
            for (mode, dtype) in [(Mode::Eager, Dtype::Float32), (Mode::Compile, Dtype::Bfloat16)] {
                let count = matrix.entry(name, Column { mode, dtype });
                count.add(Verdict::ALL[place], Some(Outcome::ALL[place]), cases);
            }
        }
        matrix
    }

    fn tree(asked: &Parameters, class: Option<Class>, definition: Option<Definition>) -> Tree {
        let inventory = inventory();
        let classes = Classes::new(Some(&inventory));
        let counted = definition.and_then(|own| own.count(&inventory, &Default::default()));
        let narrowing = Narrowing::new(&classes, class, definition, counted.as_ref());
        let mut matrix = matrix();
        narrow(&mut matrix, asked, &classes, &narrowing);
        Tree::new(&matrix, &classes, &narrowing, &Scope::default(), asked)
    }

    /// Cases of each verdict, and the worst of them.
    fn figures<'a>(counts: impl Iterator<Item = Option<&'a Count>>) -> (Vec<u64>, &'static str) {
        let mut sum = Count::default();
        counts.flatten().for_each(|count| sum += count);
        (Verdict::ALL.iter().map(|verdict| sum.of(*verdict)).collect(), sum.mark().word)
    }

    fn check(parent: &MatrixRow, children: &[&MatrixRow]) {
        let own = figures(std::iter::once(Some(&parent.sum)));
        assert_eq!(own, figures(children.iter().map(|row| Some(&row.sum))), "{}", parent.name);
        assert_eq!(own, figures(parent.cells.iter().map(Option::as_ref)), "{}", parent.name);
        for (place, cell) in parent.cells.iter().enumerate() {
            let own = figures(std::iter::once(cell.as_ref()));
            let below = figures(children.iter().map(|row| row.cells[place].as_ref()));
            assert_eq!(own, below, "{} in {place}", parent.name);
        }
    }

    #[test]
    fn every_level_is_the_sum_of_the_level_below_whatever_is_asked_for() {
        let text = |text: &str| Some(text.to_owned());
        let plain = Parameters::default;
        let mut sizes = Vec::new();
        for (asked, class, definition) in [
            (plain(), None, None),
            (plain(), Some(Class::Missing), None),
            (plain(), None, Some(Definition::Reachable)),
            (plain(), Some(Class::Native), Some(Definition::RegisteredOperators)),
            (plain(), None, Some(Definition::Tier1Calls)),
            (Parameters { text: text("ADD."), ..plain() }, None, None),
            (Parameters { show: text("failing"), ..plain() }, None, None),
            (Parameters { show: text("missing"), ..plain() }, None, None),
        ] {
            let tree = tree(&asked, class, definition);
            let overloads: usize = tree.operators.iter().map(|row| row.children.len()).sum();
            sizes.push((tree.families.len(), tree.operators.len(), overloads));
            check(&tree.total, &tree.families.iter().collect::<Vec<_>>());
            for family in &tree.families {
                let own = tree.operators.iter().filter(|row| row.family == family.name);
                check(family, &own.collect::<Vec<_>>());
            }
            for operator in &tree.operators {
                check(operator, &operator.children.iter().collect::<Vec<_>>());
            }
        }
        let expected = [
            (4, 4, 6),
            (2, 2, 2),
            (3, 3, 4),
            (1, 1, 3),
            (0, 0, 0),
            (1, 1, 2),
            (3, 3, 3),
            (3, 3, 3),
        ];
        assert_eq!(sizes, expected);
    }

    #[test]
    fn an_operator_is_opened_by_its_name_and_closed_again() {
        let scope = Scope { pin: "device=cpu".to_owned(), ..Scope::default() };
        let add = |asked: &Parameters| {
            let tree = tree(asked, None, None);
            let row = tree.operators.into_iter().find(|row| row.name == "aten::add").unwrap();
            folded(row, asked, &scope, 2)
        };
        let mut asked = Parameters { sort: Some("rate".to_owned()), ..Parameters::default() };
        let row = add(&asked);
        assert_eq!((row.children.len(), row.fold.label.as_str()), (0, "3 overloads"));
        let href = "/operators?device=cpu&sort=rate&page=2&open=aten%3A%3Aadd#open";
        assert_eq!(row.fold.href, href);
        asked.open = Some("aten::add".to_owned());
        let row = add(&asked);
        assert_eq!((row.children.len(), row.fold.is_open), (3, true));
        assert_eq!(row.fold.href, "/operators?device=cpu&sort=rate&page=2#operators");
        let row = add(&Parameters { family: Some("general".to_owned()), ..Parameters::default() });
        assert_eq!((row.children.len(), row.fold.href.as_str()), (3, ""));
    }

    #[test]
    fn an_operator_has_the_best_class_of_what_is_left_of_it() {
        let class = |class| {
            let tree = tree(&Parameters::default(), class, None);
            tree.operators.iter().map(|row| row.class).collect::<Vec<_>>()
        };
        let unknown = "not in the inventory";
        assert_eq!(class(None), ["native", "composite-implicit", "missing", unknown]);
        assert_eq!(class(Some(Class::Missing)), ["missing", "missing"]);
    }
}
