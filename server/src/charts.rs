//! Geometry of the charts. Templates in `templates/partials/` draw it as SVG and escape its texts;
//! every chart has a title, a description and the same numbers in a table beside it.

pub mod distribution;
pub mod errors;
pub mod timeline;
pub mod trend;

use std::fmt::Write as _;

use protocol::evidence::SweepPoint;
use protocol::{Comparison, Outcome};

use crate::pages::view::Mark;

/// One part of a [`Bar`].
#[derive(Debug, Clone)]
pub struct Segment {
    /// What it stands for.
    pub mark: Mark,
    /// How many.
    pub cases: u64,
    /// Left edge, in hundredths of the width.
    pub x: f64,
    /// Width, in hundredths of the width.
    pub width: f64,
}

impl Segment {
    /// Not placed yet.
    #[must_use]
    pub const fn new(mark: Mark, cases: u64) -> Self {
        Self { mark, cases, x: 0.0, width: 0.0 }
    }
}

/// A bar cut into parts, 100 wide.
#[derive(Debug, Clone)]
pub struct Bar {
    /// From left to right.
    pub segments: Vec<Segment>,
    /// The same in words.
    pub title: String,
}

/// A part is never drawn thinner than this, or a single crash among thousands would be unseen.
const THINNEST: f64 = 0.8;

impl Bar {
    /// Places the parts side by side.
    #[must_use]
    pub fn new(segments: impl IntoIterator<Item = Segment>) -> Self {
        let mut segments: Vec<Segment> = segments.into_iter().collect();
        let total: u64 = segments.iter().map(|segment| segment.cases).sum();
        if total > 0 {
            for segment in &mut segments {
                segment.width = (segment.cases as f64 / total as f64 * 100.0).max(THINNEST);
            }
            let drawn: f64 = segments.iter().map(|segment| segment.width).sum();
            let mut x = 0.0;
            for segment in &mut segments {
                segment.width *= 100.0 / drawn;
                segment.x = x;
                x += segment.width;
            }
        }
        let title = segments
            .iter()
            .map(|segment| format!("{} {}", segment.cases, segment.mark.word))
            .collect::<Vec<_>>()
            .join(", ");
        Self { segments, title }
    }
}

/// One size of a sweep, placed.
#[derive(Debug, Clone)]
pub struct SweepMark {
    /// `sequence=17`.
    pub label: String,
    /// What was observed.
    pub mark: Mark,
    /// Centre.
    pub x: f64,
    /// Centre.
    pub y: f64,
    /// Top of the text under the axis.
    pub size: String,
    /// Whether there is room for its text.
    pub labelled: bool,
    /// Graphs compiled up to here.
    pub graph_count: u64,
    /// Whether it lies inside the bounds.
    pub inside: bool,
    /// Left edge and width of its column.
    pub column_x: f64,
}

/// A line across the chart with its value.
#[derive(Debug, Clone)]
pub struct GridLine {
    /// Height.
    pub y: f64,
    /// `1e-6`.
    pub label: String,
}

/// Error and graphs over the sizes of a sweep, in the order executed.
#[derive(Debug, Clone)]
pub struct SweepChart {
    /// Of the drawing.
    pub width: f64,
    /// Of the drawing.
    pub height: f64,
    /// Of one size.
    pub column: f64,
    /// Left edge of the plot.
    pub left: f64,
    /// Top of the plot.
    pub top: f64,
    /// Bottom of the plot.
    pub bottom: f64,
    /// The sizes.
    pub marks: Vec<SweepMark>,
    /// Powers of ten.
    pub grid: Vec<GridLine>,
    /// Path through the errors of the sizes that were compared.
    pub line: String,
    /// The name of the dimension, or of all.
    pub axis: String,
    /// In words.
    pub description: String,
}

const LEFT: f64 = 70.0;
const TOP: f64 = 12.0;
const PLOT_HEIGHT: f64 = 150.0;
const PLOT_WIDTH: f64 = 640.0;
/// Room under the plot for sizes and graph counts.
const FOOT: f64 = 48.0;

impl SweepChart {
    /// Lays out a sweep; nothing when there is none.
    #[must_use]
    pub fn new(sweep: &[SweepPoint], comparisons: &[Comparison]) -> Option<Self> {
        if sweep.is_empty() {
            return None;
        }
        let errors: Vec<Option<f64>> =
            sweep.iter().map(|point| max_error(&point.label, comparisons)).collect();
        let (low, high) = decades(&errors);
        let column = PLOT_WIDTH / sweep.len() as f64;
        let height_of = |error: f64| {
            let position = (error.max(1e-300).log10() - low) / (high - low);
            TOP + PLOT_HEIGHT * (1.0 - position.clamp(0.0, 1.0))
        };
        let single = sweep.iter().all(|point| point.sizes.len() == 1);
        let every = (38.0 / column).ceil().max(1.0) as usize;
        let mut marks = Vec::with_capacity(sweep.len());
        let mut line = String::new();
        for (place, (point, error)) in sweep.iter().zip(&errors).enumerate() {
            let x = LEFT + column * (place as f64 + 0.5);
            let y = error.map_or(TOP + PLOT_HEIGHT, height_of);
            if error.is_some() {
                let _ = write!(line, "{}{x:.1} {y:.1} ", if line.is_empty() { 'M' } else { 'L' });
            }
            marks.push(SweepMark {
                label: point.label.clone(),
                mark: Mark::of_outcome(point.outcome),
                x,
                y,
                size: axis_text(point, single),
                labelled: place.is_multiple_of(every),
                graph_count: point.graph_count,
                inside: point.inside,
                column_x: LEFT + column * place as f64,
            });
        }
        Some(Self {
            width: LEFT + PLOT_WIDTH + 8.0,
            height: TOP + PLOT_HEIGHT + FOOT,
            column,
            left: LEFT,
            top: TOP,
            bottom: TOP + PLOT_HEIGHT,
            marks,
            grid: grid_between(low, high, TOP, PLOT_HEIGHT),
            line: line.trim_end().to_owned(),
            axis: if single {
                sweep[0].sizes.keys().next().cloned().unwrap_or_default()
            } else {
                "size".to_owned()
            },
            description: describe(sweep),
        })
    }
}

/// The size alone where there is one dimension, else the label.
fn axis_text(point: &SweepPoint, single: bool) -> String {
    match point.sizes.values().next() {
        Some(size) if single => size.to_string(),
        Some(_) | None => point.label.clone(),
    }
}

/// Largest error over the tensors of the comparison with this label; infinite when a finite and a
/// non-finite value met.
fn max_error(label: &str, comparisons: &[Comparison]) -> Option<f64> {
    let comparison = comparisons.iter().find(|comparison| comparison.label == label)?;
    comparison
        .tensors
        .iter()
        .filter_map(|tensor| tensor.figures.max_abs_error)
        .map(|number| if number.0.is_nan() { f64::INFINITY } else { number.0 })
        .max_by(f64::total_cmp)
}

/// Whole powers of ten around the finite errors, at least two apart.
fn decades(errors: &[Option<f64>]) -> (f64, f64) {
    let finite =
        || errors.iter().flatten().filter(|e| e.is_finite() && **e > 0.0).map(|e| e.log10());
    let low = finite().fold(f64::INFINITY, f64::min).floor();
    let high = finite().fold(f64::NEG_INFINITY, f64::max).ceil();
    if !low.is_finite() || !high.is_finite() {
        return (-9.0, 0.0);
    }
    (low - 1.0, high.max(low + 1.0))
}

/// Lines at whole powers of ten, at most six.
fn grid_between(low: f64, high: f64, top: f64, height: f64) -> Vec<GridLine> {
    let step = ((high - low) / 5.0).ceil().max(1.0);
    let mut lines = Vec::new();
    let mut decade = low;
    while decade <= high {
        let y = top + height * (1.0 - (decade - low) / (high - low));
        lines.push(GridLine { y, label: format!("1e{decade:.0}") });
        decade += step;
    }
    lines
}

fn describe(sweep: &[SweepPoint]) -> String {
    let passed = sweep.iter().filter(|p| p.inside && p.outcome == Outcome::Pass).count();
    let inside = sweep.iter().filter(|p| p.inside).count();
    let graphs = sweep.iter().map(|p| p.graph_count).max().unwrap_or(0);
    format!(
        "{passed} of {inside} sizes inside the bounds passed; sizes tried outside: {}; graphs \
         compiled: {graphs}",
        sweep.len() - inside
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn point(size: u64, outcome: Outcome, inside: bool) -> SweepPoint {
        SweepPoint {
            label: format!("sequence={size}"),
            sizes: BTreeMap::from([("sequence".to_owned(), size)]),
            inside,
            outcome,
            graph_count: 1,
            boundary: None,
            message: String::new(),
        }
    }

    #[test]
    fn one_case_among_thousands_is_still_seen() {
        let bar = Bar::new([
            Segment::new(Mark::of_outcome(Outcome::Pass), 100_000),
            Segment::new(Mark::of_outcome(Outcome::Crash), 1),
        ]);
        assert!(bar.segments[1].width > 0.5);
        let end = bar.segments[1].x + bar.segments[1].width;
        assert!((end - 100.0).abs() < 1e-9);
        assert_eq!(bar.title, "100000 pass, 1 crash");
    }

    #[test]
    fn a_sweep_without_figures_is_drawn_on_its_floor() {
        let sweep = [point(2, Outcome::Pass, true), point(65, Outcome::Error, false)];
        let chart = SweepChart::new(&sweep, &[]).unwrap();
        assert_eq!(chart.marks.len(), 2);
        assert!(chart.line.is_empty());
        assert!(chart.marks.iter().all(|mark| mark.y.is_finite() && mark.x < chart.width));
        assert_eq!(
            chart.description,
            "1 of 1 sizes inside the bounds passed; sizes tried outside: 1; graphs compiled: 1"
        );
        assert!(SweepChart::new(&[], &[]).is_none());
    }
}
