//! A matrix of counts: names by dtype and mode, with families and sums.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use protocol::{Dtype, Mode};

use super::count::Count;
use crate::db::read_variants::VariantCount;

/// A column of a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Column {
    pub(super) mode: Mode,
    pub(super) dtype: Dtype,
}

/// One line of a matrix: its sum, and a cell per column; nothing where no case exists.
#[derive(Debug, Default)]
pub(super) struct MatrixRow {
    pub(super) name: String,
    pub(super) href: String,
    pub(super) family: String,
    /// How the backend gets at the operator of its name; empty where that is not known.
    pub(super) class: &'static str,
    pub(super) sum: Count,
    pub(super) cells: Vec<Option<Count>>,
    /// Lines that it is the sum of, where they stand below it.
    pub(super) children: Vec<MatrixRow>,
    pub(super) fold: Fold,
}

/// What leads from a line to the lines that it is the sum of, or back.
#[derive(Debug, Default)]
pub(super) struct Fold {
    /// `3 overloads`; empty for a line that is the sum of none.
    pub(super) label: String,
    /// Empty where they cannot be opened or closed.
    pub(super) href: String,
    /// Whether this is the line that the address opens.
    pub(super) is_open: bool,
}

/// Counts by name and column, from which rows and sums are made.
#[derive(Debug, Default)]
pub(super) struct Matrix {
    cells: BTreeMap<String, BTreeMap<Column, Count>>,
}

impl Matrix {
    /// Cases that touched overloads, by the names of these.
    pub(super) fn of_overloads(counts: &[VariantCount]) -> Self {
        let mut matrix = Self::default();
        for count in counts {
            let column = Column { mode: count.mode.0, dtype: count.dtype.0 };
            let outcome = count.outcome.map(|word| word.0);
            matrix.entry(&count.name, column).add(count.verdict.0, outcome, count.cases);
        }
        matrix
    }

    pub(super) fn entry(&mut self, name: &str, column: Column) -> &mut Count {
        if !self.cells.contains_key(name) {
            self.cells.insert(name.to_owned(), BTreeMap::new());
        }
        let row = self.cells.get_mut(name).expect("inserted above");
        row.entry(column).or_default()
    }

    /// Makes sure that there is a row of this name, be it without any case.
    pub(super) fn touch(&mut self, name: &str) {
        self.cells.entry(name.to_owned()).or_default();
    }

    /// Names of the rows, sorted.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.cells.keys().map(String::as_str)
    }

    /// Leaves only some of the rows.
    pub(super) fn retain(&mut self, keeps: impl Fn(&str, &Count) -> bool) {
        self.cells.retain(|name, row| keeps(name, &sum_of(row.values())));
    }

    /// Every column in which some row has a case, modes together.
    pub(super) fn columns(&self) -> Vec<Column> {
        let all: BTreeSet<Column> =
            self.cells.values().flat_map(|row| row.keys()).copied().collect();
        all.into_iter().collect()
    }

    /// A line for each name, without a family.
    pub(super) fn rows(&self, href: impl Fn(&str) -> String) -> Vec<MatrixRow> {
        let columns = self.columns();
        let row = |(name, row): (&String, &BTreeMap<Column, Count>)| MatrixRow {
            name: name.clone(),
            href: href(name),
            sum: sum_of(row.values()),
            cells: columns.iter().map(|column| row.get(column).cloned()).collect(),
            ..MatrixRow::default()
        };
        self.cells.iter().map(row).collect()
    }
}

fn sum_of<'a>(counts: impl Iterator<Item = &'a Count>) -> Count {
    counts.fold(Count::default(), |mut sum, count| {
        sum += count;
        sum
    })
}

/// How many columns each mode has, for the upper line of heads.
pub(super) fn mode_spans(columns: &[Column]) -> Vec<(&'static str, usize)> {
    let mut spans: Vec<(&'static str, usize)> = Vec::new();
    for column in columns {
        match spans.last_mut() {
            Some((mode, width)) if *mode == column.mode.as_str() => *width += 1,
            Some(_) | None => spans.push((column.mode.as_str(), 1)),
        }
    }
    spans
}

/// Sums rows cell by cell, so that a roll-up equals its children.
pub(super) fn add_up(name: &str, href: String, rows: &[&MatrixRow], width: usize) -> MatrixRow {
    let mut cells: Vec<Option<Count>> = vec![None; width];
    for row in rows {
        for (total, cell) in cells.iter_mut().zip(&row.cells) {
            if let Some(cell) = cell {
                *total.get_or_insert_default() += cell;
            }
        }
    }
    MatrixRow {
        name: name.to_owned(),
        href,
        sum: sum_of(rows.iter().map(|row| &row.sum)),
        cells,
        ..MatrixRow::default()
    }
}

/// Sums of the rows of each family, by its name.
pub(super) fn add_up_families(
    rows: &[MatrixRow],
    width: usize,
    href: impl Fn(&str) -> String,
) -> Vec<MatrixRow> {
    let mut by_family: BTreeMap<&str, Vec<&MatrixRow>> = BTreeMap::new();
    for row in rows {
        by_family.entry(&row.family).or_default().push(row);
    }
    by_family.iter().map(|(name, rows)| add_up(name, href(name), rows, width)).collect()
}

/// What sums can be sorted by.
pub(super) const ORDERS: [(&str, &str); 3] =
    [("", "name"), ("failing", "most failing cases"), ("rate", "lowest pass rate")];

/// Brings rows that are in the order of their names into one of [`ORDERS`].
pub(super) fn sort(rows: &mut [MatrixRow], order: Option<&str>) {
    match order.unwrap_or_default() {
        "failing" => rows.sort_by_key(|row| Reverse(row.sum.not_passed())),
        "rate" => rows.sort_by_key(|row| row.sum.rate_order()),
        _ => {}
    }
    // What no case touched says nothing yet, whatever is looked for.
    rows.sort_by_key(|row| row.sum.planned() == 0);
}

/// Name spaces of PyTorch's operator database; everything else is `torch`.
const FAMILIES: [&str; 9] = [
    "nn.functional",
    "linalg",
    "fft",
    "special",
    "masked",
    "sparse",
    "signal.windows",
    "_refs",
    "ops",
];

/// The family of an entry, by the name space it is in.
#[must_use]
pub(super) fn entry_family(entry: &str) -> &'static str {
    let is_in =
        |space: &&&str| entry.strip_prefix(**space).is_some_and(|rest| rest.starts_with('.'));
    FAMILIES.iter().find(is_in).copied().unwrap_or("torch")
}

#[cfg(test)]
mod tests {
    use protocol::{Outcome, Verdict};

    use super::*;

    #[test]
    fn an_entry_belongs_to_its_name_space() {
        for (entry, name) in [
            ("add", "torch"),
            ("std.unbiased", "torch"),
            ("nn.functional.relu", "nn.functional"),
            ("linalg.svd", "linalg"),
            ("linalgebra", "torch"),
            ("signal.windows.hann", "signal.windows"),
        ] {
            assert_eq!(entry_family(entry), name, "{entry}");
        }
    }

    #[test]
    fn every_roll_up_equals_the_sum_of_its_children() {
        let column = |dtype| Column { mode: Mode::Eager, dtype };
        let mut matrix = Matrix::default();
        for (place, name) in
            ["add", "mul", "fft.rfft", "linalg.svd", "linalg.qr"].iter().enumerate()
        {
            let cases = i64::try_from(place).unwrap() + 1;
            let verdict = Verdict::ALL[place];
            matrix.entry(name, column(Dtype::Float32)).add(verdict, Some(Outcome::Pass), cases);
            matrix.entry(name, column(Dtype::Bfloat16)).add(Verdict::Missing, None, 2);
        }
        let rows = matrix.rows(str::to_owned);
        let all: Vec<&MatrixRow> = rows.iter().collect();
        let total = add_up("All", String::new(), &all, matrix.columns().len());
        assert_eq!(total.sum.planned(), 15 + 10);
        let cells: u64 = total.cells.iter().flatten().map(Count::planned).sum();
        assert_eq!(cells, total.sum.planned());
        for verdict in Verdict::ALL {
            let children: u64 = rows.iter().map(|row| row.sum.of(*verdict)).sum();
            assert_eq!(children, total.sum.of(*verdict), "{verdict}");
        }
    }
}
