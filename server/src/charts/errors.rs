//! Largest errors of an operator over its runs: one line for each element type, in decades.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{GridLine, decades, grid_between};

const LEFT: f64 = 70.0;
const TOP: f64 = 12.0;
const PLOT_HEIGHT: f64 = 180.0;
const PLOT_WIDTH: f64 = 560.0;
/// Room for the name of an element type at the end of its line.
const NAMES: f64 = 110.0;
const FOOT: f64 = 24.0;
/// Least distance between two names.
const NAME_HEIGHT: f64 = 12.0;

/// The chart.
#[derive(Debug, Clone)]
pub struct ErrorChart {
    /// Of the drawing.
    pub width: f64,
    /// Of the drawing.
    pub height: f64,
    /// Left edge of the plot.
    pub left: f64,
    /// Right edge of the plot.
    pub right: f64,
    /// Bottom of the plot.
    pub bottom: f64,
    /// Powers of ten.
    pub grid: Vec<GridLine>,
    /// One for each element type.
    pub lines: Vec<ErrorLine>,
    /// In words.
    pub description: String,
}

/// The errors of one element type.
#[derive(Debug, Clone)]
pub struct ErrorLine {
    /// `float32`.
    pub dtype: String,
    /// Path through the runs that have an error.
    pub path: String,
    /// Centre, whether it is not finite, and what it says.
    pub points: Vec<(f64, f64, bool, String)>,
    /// Height of the name.
    pub name_y: f64,
}

impl ErrorChart {
    /// `runs` are names, oldest first; `errors` has one entry for each run, by element type.
    /// Nothing where there is no error to draw.
    #[must_use]
    pub fn new(runs: &[String], errors: &BTreeMap<String, Vec<Option<f64>>>) -> Option<Self> {
        let all: Vec<Option<f64>> = errors.values().flatten().copied().collect();
        if runs.is_empty() || all.iter().all(Option::is_none) {
            return None;
        }
        let (low, high) = decades(&all);
        let bottom = TOP + PLOT_HEIGHT;
        let y_of = |error: f64| {
            let position = (error.max(1e-300).log10() - low) / (high - low);
            TOP + PLOT_HEIGHT * (1.0 - position.clamp(0.0, 1.0))
        };
        // The newest run stands at the right edge, beside the names.
        let x_of = |place: usize| LEFT + PLOT_WIDTH * (place as f64 + 1.0) / runs.len() as f64;
        let mut lines = Vec::new();
        for (dtype, own) in errors {
            let mut path = String::new();
            let mut points = Vec::new();
            for (place, (error, run)) in own.iter().zip(runs).enumerate() {
                let Some(error) = *error else { continue };
                let (x, y) = (x_of(place), y_of(error));
                let _ = write!(path, "{}{x:.1} {y:.1} ", if path.is_empty() { 'M' } else { 'L' });
                points.push((x, y, !error.is_finite(), format!("{dtype} in {run}: {error:e}")));
            }
            let Some((_, name_y, ..)) = points.last() else { continue };
            lines.push(ErrorLine {
                dtype: dtype.clone(),
                path: path.trim_end().to_owned(),
                name_y: *name_y,
                points,
            });
        }
        spread(&mut lines, bottom);
        let description = describe(runs, errors);
        Some(Self {
            width: LEFT + PLOT_WIDTH + NAMES,
            height: bottom + FOOT,
            left: LEFT,
            right: LEFT + PLOT_WIDTH,
            bottom,
            grid: grid_between(low, high, TOP, PLOT_HEIGHT),
            lines,
            description,
        })
    }
}

/// Moves names apart, so that each can be read: up from the bottom, since many end at nothing, and
/// down again where that leaves the plot.
fn spread(lines: &mut [ErrorLine], bottom: f64) {
    lines.sort_by(|a, b| b.name_y.total_cmp(&a.name_y));
    let mut room = bottom;
    for line in lines.iter_mut() {
        line.name_y = line.name_y.min(room);
        room = line.name_y - NAME_HEIGHT;
    }
    let mut room = TOP;
    for line in lines.iter_mut().rev() {
        line.name_y = line.name_y.max(room);
        room = line.name_y + NAME_HEIGHT;
    }
}

fn describe(runs: &[String], errors: &BTreeMap<String, Vec<Option<f64>>>) -> String {
    let last = errors.iter().filter_map(|(dtype, own)| {
        let error = own.iter().rev().flatten().next()?;
        Some(format!("{dtype} {error:.1e}"))
    });
    let last = last.collect::<Vec<_>>().join(", ");
    format!("largest absolute error over {} runs; the last: {last}", runs.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_element_type_has_a_line_and_a_name_of_its_own() {
        let runs = ["r1".to_owned(), "r2".to_owned(), "r3".to_owned()];
        let errors = BTreeMap::from([
            ("bfloat16".to_owned(), vec![Some(1e-2), Some(1e-2), Some(1e-2)]),
            ("float32".to_owned(), vec![Some(1e-7), None, Some(1e-2)]),
            ("int64".to_owned(), vec![Some(0.0), Some(0.0), Some(0.0)]),
        ]);
        let chart = ErrorChart::new(&runs, &errors).unwrap();
        assert_eq!(chart.lines.len(), 3);
        let line = |dtype: &str| chart.lines.iter().find(|line| line.dtype == dtype).unwrap();
        assert_eq!(line("float32").points.len(), 2);
        assert!(line("float32").points[0].1 > line("float32").points[1].1, "worse is higher");
        assert!(line("int64").points.iter().all(|point| point.1 == chart.bottom));
        for (place, one) in chart.lines.iter().enumerate() {
            for other in &chart.lines[place + 1..] {
                assert!((one.name_y - other.name_y).abs() >= NAME_HEIGHT, "{one:?} {other:?}");
            }
        }
        assert_eq!(
            chart.description,
            "largest absolute error over 3 runs; the last: bfloat16 1.0e-2, float32 1.0e-2, int64 \
             0.0e0"
        );
    }

    #[test]
    fn what_is_not_finite_is_drawn_at_the_top_and_marked() {
        let errors =
            BTreeMap::from([("float32".to_owned(), vec![Some(1e-7), Some(f64::INFINITY)])]);
        let chart = ErrorChart::new(&["r1".to_owned(), "r2".to_owned()], &errors).unwrap();
        let points = &chart.lines[0].points;
        assert!(!points[0].2 && points[1].2);
        assert_eq!(points[1].1, TOP);
        let none = BTreeMap::from([("float32".to_owned(), vec![None])]);
        assert!(ErrorChart::new(&["r1".to_owned()], &none).is_none());
    }
}
