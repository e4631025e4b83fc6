//! A matrix of counts: names by dtype and mode, with families and sums.

use std::collections::{BTreeMap, BTreeSet};

use protocol::{Dtype, Mode};

use super::count::Count;

/// A column of a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Column {
    pub(super) mode: Mode,
    pub(super) dtype: Dtype,
}

/// One line of a matrix: its sum, and a cell per column; nothing where no case exists.
#[derive(Debug)]
pub(super) struct MatrixRow {
    pub(super) name: String,
    pub(super) href: String,
    pub(super) family: String,
    /// How the backend gets at the operator of its name; empty where that is not known.
    pub(super) class: &'static str,
    pub(super) sum: Count,
    pub(super) cells: Vec<Option<Count>>,
}

/// Counts by name and column, from which rows and sums are made.
#[derive(Debug, Default)]
pub(super) struct Matrix {
    cells: BTreeMap<String, BTreeMap<Column, Count>>,
}

impl Matrix {
    pub(super) fn entry(&mut self, name: &str, column: Column) -> &mut Count {
        if !self.cells.contains_key(name) {
            self.cells.insert(name.to_owned(), BTreeMap::new());
        }
        let row = self.cells.get_mut(name).expect("inserted above");
        row.entry(column).or_default()
    }

    /// Every column in which some row has a case, modes together.
    pub(super) fn columns(&self) -> Vec<Column> {
        let all: BTreeSet<Column> =
            self.cells.values().flat_map(|row| row.keys()).copied().collect();
        all.into_iter().collect()
    }

    pub(super) fn rows(&self, href: impl Fn(&str) -> String) -> Vec<MatrixRow> {
        let columns = self.columns();
        self.cells
            .iter()
            .map(|(name, row)| {
                let mut sum = Count::default();
                for count in row.values() {
                    sum += count;
                }
                MatrixRow {
                    name: name.clone(),
                    href: href(name),
                    family: family(name).to_owned(),
                    class: "",
                    sum,
                    cells: columns.iter().map(|column| row.get(column).cloned()).collect(),
                }
            })
            .collect()
    }
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
    let mut sum = Count::default();
    let mut cells: Vec<Option<Count>> = vec![None; width];
    for row in rows {
        sum += &row.sum;
        for (total, cell) in cells.iter_mut().zip(&row.cells) {
            if let Some(cell) = cell {
                *total.get_or_insert_default() += cell;
            }
        }
    }
    MatrixRow { name: name.to_owned(), href, family: name.to_owned(), class: "", sum, cells }
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
fn family(entry: &str) -> &'static str {
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
            assert_eq!(family(entry), name, "{entry}");
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
