//! The pass rate of a suite over nights: a line that is broken where a night is missing.

use std::fmt::Write as _;

use chrono::{Days, NaiveDate};

use super::GridLine;
use crate::pages::count::Count;

/// Nights that a trend looks back.
pub const NIGHTS: u64 = 90;

/// What one night gave.
#[derive(Debug, Clone)]
pub struct Night {
    /// The day (UTC) on which its run began.
    pub day: NaiveDate,
    /// The run.
    pub run: String,
    /// Its page.
    pub href: String,
    /// Version of the backend under test; empty when the run does not say.
    pub backend: String,
    /// Its verdicts.
    pub count: Count,
}

/// A night, placed.
#[derive(Debug, Clone)]
pub struct TrendPoint {
    /// Centre.
    pub x: f64,
    /// Centre.
    pub y: f64,
    /// Whether every planned case was judged.
    pub is_complete: bool,
    /// Day and figures in words.
    pub title: String,
    /// Page of the run.
    pub href: String,
}

/// What is said beside a night that stands alone, since one point shows no trend.
#[derive(Debug, Clone)]
pub struct TrendLabel {
    /// Where the text begins, or ends.
    pub x: f64,
    /// Its base line.
    pub y: f64,
    /// Whether it begins or ends there: `start` or `end`.
    pub anchor: &'static str,
    /// Rate and day.
    pub text: String,
}

/// How large it is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// In a card: without dates.
    Small,
    /// On a page of its own.
    Large,
}

/// The chart.
#[derive(Debug, Clone)]
pub struct TrendChart {
    /// Of the drawing.
    pub width: f64,
    /// Of the drawing.
    pub height: f64,
    /// Left edge of the plot.
    pub left: f64,
    /// Bottom of the plot.
    pub bottom: f64,
    /// Rates.
    pub grid: Vec<GridLine>,
    /// One path for each stretch of nights without a gap.
    pub lines: Vec<String>,
    /// The nights with a rate.
    pub points: Vec<TrendPoint>,
    /// Beside the only point.
    pub label: Option<TrendLabel>,
    /// First and last day; empty where there is no room for them.
    pub days: Option<(String, String)>,
    /// In words.
    pub description: String,
}

impl TrendChart {
    /// Lays out the nights up to `today`; nothing when none of them has a rate. Nights are in
    /// order, at most one a day.
    #[must_use]
    pub fn new(nights: &[Night], today: NaiveDate, size: Size) -> Option<Self> {
        let rated: Vec<(&Night, f64)> =
            nights.iter().filter_map(|night| Some((night, rate(&night.count)?))).collect();
        let lowest = rated.iter().map(|(_, rate)| *rate).reduce(f64::min)?;
        let (left, top, plot_width, plot_height, foot) = match size {
            Size::Small => (40.0, 8.0, 260.0, 44.0, 8.0),
            Size::Large => (56.0, 12.0, 680.0, 200.0, 26.0),
        };
        let floor = floor_of(lowest);
        let first_day = today.checked_sub_days(Days::new(NIGHTS - 1))?;
        let x_of = |day: NaiveDate| {
            let nth = (day - first_day).num_days().max(0) as f64;
            left + plot_width * (nth + 0.5) / NIGHTS as f64
        };
        let y_of = |rate: f64| top + plot_height * (1.0 - (rate - floor) / (100.0 - floor));
        let mut lines: Vec<String> = Vec::new();
        let mut points: Vec<TrendPoint> = Vec::with_capacity(rated.len());
        let mut last: Option<NaiveDate> = None;
        for (night, rate) in &rated {
            let (x, y) = (x_of(night.day), y_of(*rate));
            let goes_on = last.is_some_and(|day| (night.day - day).num_days() <= 1);
            match lines.last_mut() {
                Some(line) if goes_on => {
                    let _ = write!(line, " L{x:.1} {y:.1}");
                }
                _ => lines.push(format!("M{x:.1} {y:.1}")),
            }
            last = Some(night.day);
            points.push(TrendPoint {
                x,
                y,
                is_complete: night.count.is_complete(),
                title: in_words(night),
                href: night.href.clone(),
            });
        }
        let steps: &[f64] = if size == Size::Small { &[0.0, 1.0] } else { &[0.0, 0.5, 1.0] };
        let grid = steps.iter().map(|part| floor + part * (100.0 - floor));
        Some(Self {
            width: left + plot_width + 8.0,
            height: top + plot_height + foot,
            left,
            bottom: top + plot_height,
            grid: grid.map(|rate| GridLine { y: y_of(rate), label: format!("{rate} %") }).collect(),
            label: match (points.as_slice(), rated.as_slice()) {
                ([point], [(night, _)]) => {
                    let middle = (left + plot_width / 2.0, top + plot_height / 2.0);
                    Some(TrendLabel::new(point, night, middle))
                }
                _ => None,
            },
            lines: lines.into_iter().filter(|line| line.contains('L')).collect(),
            points,
            days: (size == Size::Large).then(|| (first_day.to_string(), today.to_string())),
            description: describe(&rated),
        })
    }
}

impl TrendLabel {
    /// Towards the middle of the plot, where there is room for it.
    fn new(point: &TrendPoint, night: &Night, (middle_x, middle_y): (f64, f64)) -> Self {
        let is_left = point.x < middle_x;
        Self {
            x: if is_left { point.x - 3.0 } else { point.x + 3.0 },
            y: if point.y < middle_y { point.y + 15.0 } else { point.y - 7.0 },
            anchor: if is_left { "start" } else { "end" },
            text: format!("{} on {}, the only night", night.count.rate(), night.day),
        }
    }
}

/// Per cent that passed; nothing when no case is rated.
fn rate(count: &Count) -> Option<f64> {
    (count.rated() > 0).then(|| count.passed() as f64 * 100.0 / count.rated() as f64)
}

/// A round number below the lowest rate, so that what changes is seen; the axis names it.
fn floor_of(lowest: f64) -> f64 {
    ((lowest - 1.0) / 10.0).floor().max(0.0) * 10.0
}

fn in_words(night: &Night) -> String {
    let count = &night.count;
    let aside = count.set_aside();
    let aside = if aside.is_empty() { aside } else { format!("; {aside}") };
    let (passed, rated) = (count.passed(), count.rated());
    format!("{}: {passed} of {rated}, {}{aside}", night.day, count.rate())
}

fn describe(rated: &[(&Night, f64)]) -> String {
    let (Some((last, _)), Some(low), Some(high)) = (
        rated.last(),
        rated.iter().min_by(|a, b| a.1.total_cmp(&b.1)),
        rated.iter().max_by(|a, b| a.1.total_cmp(&b.1)),
    ) else {
        return String::new();
    };
    format!(
        "nights with a rate: {} of {NIGHTS}; the last one, {}; lowest {} on {}, highest {} on {}",
        rated.len(),
        in_words(last),
        low.0.count.rate(),
        low.0.day,
        high.0.count.rate(),
        high.0.day,
    )
}

#[cfg(test)]
mod tests {
    use protocol::Verdict;

    use super::*;

    fn night(day: &str, passed: u64, failed: u64, missing: u64) -> Night {
        let mut count = Count::default();
        count.add(Verdict::Passed, None, i64::try_from(passed).unwrap());
        count.add(Verdict::Failed, None, i64::try_from(failed).unwrap());
        count.add(Verdict::Missing, None, i64::try_from(missing).unwrap());
        let (run, href, backend) = (String::new(), String::new(), String::new());
        Night { day: day.parse().unwrap(), run, href, backend, count }
    }

    fn chart(nights: &[Night]) -> Option<TrendChart> {
        TrendChart::new(nights, "2026-11-30".parse().unwrap(), Size::Large)
    }

    #[test]
    fn a_missing_night_breaks_the_line() {
        let nights = [
            night("2026-11-25", 9, 1, 0),
            night("2026-11-26", 8, 2, 0),
            night("2026-11-28", 9, 1, 0),
            night("2026-11-29", 9, 1, 0),
            night("2026-11-30", 10, 0, 0),
        ];
        let chart = chart(&nights).unwrap();
        assert_eq!(chart.lines.len(), 2, "{:?}", chart.lines);
        assert_eq!(chart.points.len(), 5);
        assert!(chart.label.is_none());
        assert_eq!(
            chart.description,
            "nights with a rate: 5 of 90; the last one, 2026-11-30: 10 of 10, 100 %; lowest 80.0 % \
             on 2026-11-26, highest 100 % on 2026-11-30"
        );
    }

    #[test]
    fn a_lower_rate_is_drawn_lower_and_all_of_it_within_the_plot() {
        let nights = [night("2026-09-02", 1, 99, 0), night("2026-11-30", 99, 1, 0)];
        let chart = chart(&nights).unwrap();
        assert!(chart.points[0].y > chart.points[1].y);
        assert!(chart.points[0].x < chart.points[1].x);
        for point in &chart.points {
            assert!((chart.left..chart.width).contains(&point.x), "{point:?}");
            assert!((0.0..=chart.bottom).contains(&point.y), "{point:?}");
        }
        assert!(chart.lines.is_empty(), "two nights apart are not joined");
    }

    #[test]
    fn what_was_not_judged_is_not_drawn_as_complete_and_nothing_has_no_point() {
        let nights = [night("2026-11-29", 0, 0, 0), night("2026-11-30", 5, 0, 5)];
        let chart = chart(&nights).unwrap();
        assert_eq!(chart.points.len(), 1);
        assert!(!chart.points[0].is_complete);
        let label = chart.label.unwrap();
        assert_eq!(label.text, "50.0 % on 2026-11-30, the only night");
        assert!((0.0..chart.bottom).contains(&label.y) && label.x < chart.width, "{label:?}");
        assert!(chart.points[0].title.contains("5 of 10"), "{}", chart.points[0].title);
        assert!(super::TrendChart::new(&[], nights[0].day, Size::Small).is_none());
    }
}
