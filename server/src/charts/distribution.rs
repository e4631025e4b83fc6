//! How far answers are from what was expected, as counts by decade: one row of bars for each
//! element type.

use std::collections::BTreeMap;

const LEFT: f64 = 84.0;
const TOP: f64 = 8.0;
const ROW: f64 = 52.0;
/// Of the tallest bar.
const TALLEST: f64 = 34.0;
const WIDTH: f64 = 640.0;
const FOOT: f64 = 34.0;
/// Decades told apart; what is larger shares the last one.
const DECADES: i32 = 8;

/// Distances of one element type.
#[derive(Debug, Clone, Default)]
pub struct Distances {
    /// One for each output that has a distance; infinite where a pair is not finite.
    pub values: Vec<f64>,
    /// Outputs without one: whole numbers, truth values.
    pub without: usize,
}

/// The chart, and its table.
#[derive(Debug, Clone)]
pub struct DistributionChart {
    /// Of the drawing.
    pub width: f64,
    /// Of the drawing.
    pub height: f64,
    /// Left edge of the plot.
    pub left: f64,
    /// Centre and name of each column.
    pub heads: Vec<(f64, String)>,
    /// Height of the names of columns.
    pub foot_y: f64,
    /// One for each element type.
    pub rows: Vec<DistributionRow>,
    /// In words.
    pub description: String,
}

/// One element type.
#[derive(Debug, Clone)]
pub struct DistributionRow {
    /// `float32`.
    pub dtype: String,
    /// Its line.
    pub base: f64,
    /// Columns with something in them.
    pub bars: Vec<DistributionBar>,
    /// Number in every column, also where it is nothing.
    pub counts: Vec<usize>,
    /// Outputs without a distance.
    pub without: usize,
}

/// A bar.
#[derive(Debug, Clone)]
pub struct DistributionBar {
    /// Left edge.
    pub x: f64,
    /// Top.
    pub y: f64,
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
    /// Centre, for its number.
    pub middle: f64,
    /// How many.
    pub count: usize,
    /// Whether these are not finite.
    pub is_infinite: bool,
    /// In words.
    pub title: String,
}

/// Column of a distance: nothing, then decades, then what is not finite.
fn column(distance: f64) -> usize {
    if !distance.is_finite() {
        return columns() - 1;
    }
    if distance <= 0.0 {
        return 0;
    }
    // 1 ULP belongs to the first decade, 1.5 to the second.
    let decade = distance.log10().ceil().clamp(0.0, f64::from(DECADES)) as usize;
    decade + 1
}

const fn columns() -> usize {
    DECADES as usize + 3
}

fn names() -> Vec<String> {
    let mut names = vec!["0".to_owned(), "≤ 1".to_owned()];
    names.extend((1..DECADES).map(|decade| match decade {
        1 => "≤ 10".to_owned(),
        2 => "≤ 100".to_owned(),
        _ => format!("≤ 1e{decade}"),
    }));
    names.extend([format!("> 1e{}", DECADES - 1), "not finite".to_owned()]);
    names
}

impl DistributionChart {
    /// Nothing where no output has a distance. `unit` names what is counted in.
    #[must_use]
    pub fn new(groups: &BTreeMap<String, Distances>, unit: &str) -> Option<Self> {
        let names = names();
        let width = WIDTH / columns() as f64;
        let mut rows = Vec::new();
        for (dtype, group) in groups.iter().filter(|(_, group)| !group.values.is_empty()) {
            let mut counts = vec![0; columns()];
            for value in &group.values {
                counts[column(*value)] += 1;
            }
            let base = TOP + ROW * (rows.len() as f64 + 1.0);
            let most = counts.iter().copied().max().unwrap_or(1).max(1);
            let bar = |(place, count): (usize, &usize)| {
                let height = (TALLEST * *count as f64 / most as f64).max(2.0);
                let x = LEFT + width * place as f64;
                DistributionBar {
                    x: x + width * 0.15,
                    y: base - height,
                    width: width * 0.7,
                    height,
                    middle: x + width / 2.0,
                    count: *count,
                    is_infinite: place == columns() - 1,
                    title: format!("{dtype}, {} {unit}: {count} outputs", names[place]),
                }
            };
            let bars = counts.iter().enumerate().filter(|(_, count)| **count > 0).map(bar);
            let (bars, without) = (bars.collect(), group.without);
            rows.push(DistributionRow { dtype: dtype.clone(), base, bars, counts, without });
        }
        if rows.is_empty() {
            return None;
        }
        let middle = |place: usize| LEFT + width * (place as f64 + 0.5);
        let bottom = TOP + ROW * rows.len() as f64;
        let of = |row: &DistributionRow| {
            let exact = row.counts[0];
            format!("{}: {exact} of {} exact", row.dtype, row.counts.iter().sum::<usize>())
        };
        Some(Self {
            width: LEFT + WIDTH + 8.0,
            height: bottom + FOOT,
            left: LEFT,
            heads: names.iter().enumerate().map(|(at, name)| (middle(at), name.clone())).collect(),
            foot_y: bottom + 15.0,
            description: rows.iter().map(of).collect::<Vec<_>>().join("; "),
            rows,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_distance_has_one_column_and_the_columns_have_names() {
        assert_eq!(names().len(), columns());
        for (distance, name) in [
            (0.0, "0"),
            (0.5, "≤ 1"),
            (1.0, "≤ 1"),
            (1.5, "≤ 10"),
            (10.0, "≤ 10"),
            (11.0, "≤ 100"),
            (1e7, "≤ 1e7"),
            (1e30, "> 1e7"),
            (f64::INFINITY, "not finite"),
            (f64::NAN, "not finite"),
        ] {
            assert_eq!(names()[column(distance)], name, "{distance}");
        }
    }

    #[test]
    fn the_bars_hold_every_output_once() {
        let distances = Distances { values: vec![0.0, 0.0, 3.0, f64::INFINITY], without: 2 };
        let none = Distances { values: vec![], without: 5 };
        let groups = [("float32".to_owned(), distances), ("int64".to_owned(), none)].into();
        let chart = DistributionChart::new(&groups, "ULP").unwrap();
        assert_eq!(chart.rows.len(), 1, "what has no distance has no row");
        let row = &chart.rows[0];
        assert_eq!(row.bars.iter().map(|bar| bar.count).sum::<usize>(), 4);
        assert_eq!((row.without, row.bars.last().unwrap().is_infinite), (2, true));
        assert!(row.bars.iter().all(|bar| bar.y >= TOP && bar.x + bar.width < chart.width));
        assert_eq!(chart.description, "float32: 2 of 4 exact");
        assert!(DistributionChart::new(&BTreeMap::new(), "ULP").is_none());
    }
}
