//! What ran when in one run: a lane for each attempt at a time, cut into pieces by the worst that
//! ended in them.

use chrono::{DateTime, Duration, Utc};
use protocol::Outcome;

use crate::filters;
use crate::pages::view::Mark;

const LEFT: f64 = 96.0;
const TOP: f64 = 8.0;
const WIDTH: f64 = 780.0;
const LANE: f64 = 20.0;
const FOOT: f64 = 22.0;
/// Pieces that a lane is cut into, so that a run of a day draws as much as one of a minute.
const BINS: usize = 240;
/// Lanes drawn.
const MOST_LANES: usize = 48;
/// An attempt that begins so much before the last one of its lane ended still follows it: clocks
/// are read a moment apart.
const SLACK_SECS: f64 = 0.05;

/// One attempt.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// Who sent it: place in the list of sources.
    pub source: usize,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// How long it took.
    pub seconds: f64,
    /// What was observed.
    pub outcome: Outcome,
}

/// The chart, and its table.
#[derive(Debug, Clone)]
pub struct TimelineChart {
    /// Of the drawing.
    pub width: f64,
    /// Of the drawing.
    pub height: f64,
    /// Left edge of the plot.
    pub left: f64,
    /// Bottom of the plot.
    pub bottom: f64,
    /// Those drawn.
    pub lanes: Vec<Lane>,
    /// Lanes that there was no room for.
    pub more: usize,
    /// Place, and time of day.
    pub ticks: Vec<(f64, String)>,
    /// In words.
    pub description: String,
}

/// Attempts that followed each other.
#[derive(Debug, Clone)]
pub struct Lane {
    /// `shard 1/2, lane 3`, or `lane 3`.
    pub name: String,
    /// Centre of its name.
    pub y: f64,
    /// Its pieces.
    pub pieces: Vec<Piece>,
    /// How many attempts.
    pub attempts: usize,
    /// Of those, that did not pass.
    pub not_passed: usize,
    /// Seconds in which it was at work.
    pub busy: f64,
}

/// A stretch of one tone.
#[derive(Debug, Clone)]
pub struct Piece {
    /// Left edge.
    pub x: f64,
    /// Width.
    pub width: f64,
    /// Top; worse is taller.
    pub y: f64,
    /// Height.
    pub height: f64,
    /// The worst in it.
    pub mark: Mark,
    /// In words.
    pub title: String,
}

impl TimelineChart {
    /// Lays out the attempts of a run. `sources` are the names of those who sent them; one name is
    /// not repeated on every lane. Nothing where no attempt took any time.
    #[must_use]
    pub fn new(spans: &[Span], sources: &[String]) -> Option<Self> {
        let mut spans: Vec<Span> =
            spans.iter().copied().filter(|span| span.seconds > 0.0).collect();
        spans.sort_by_key(|span| (span.source, span.started_at));
        let begin = spans.iter().map(|span| span.started_at).min()?;
        let at = |time: DateTime<Utc>| (time - begin).num_milliseconds() as f64 / 1000.0;
        let end =
            spans.iter().map(|span| at(span.started_at) + span.seconds).max_by(f64::total_cmp)?;
        let end = end.max(0.001);
        let packed = pack(&spans, at);
        let lanes: Vec<Lane> = packed
            .iter()
            .take(MOST_LANES)
            .enumerate()
            .map(|(place, own)| {
                let source = sources.get(own.source).filter(|_| sources.len() > 1);
                let name = source.map_or_else(
                    || format!("lane {}", own.number),
                    |source| format!("{source}, lane {}", own.number),
                );
                let top = TOP + LANE * place as f64;
                let spans: Vec<Span> = own.spans.iter().map(|span| spans[*span]).collect();
                Lane {
                    name,
                    y: top + LANE / 2.0,
                    attempts: spans.len(),
                    not_passed: spans.iter().filter(|s| s.outcome != Outcome::Pass).count(),
                    busy: spans.iter().map(|span| span.seconds).sum(),
                    pieces: pieces(&spans, top, end, at, begin),
                }
            })
            .collect();
        let bottom = TOP + LANE * lanes.len() as f64;
        let busy: f64 = spans.iter().map(|span| span.seconds).sum();
        let most = packed.len();
        Some(Self {
            width: LEFT + WIDTH + 8.0,
            height: bottom + FOOT,
            left: LEFT,
            bottom,
            more: most - lanes.len(),
            ticks: ticks(begin, end),
            description: format!(
                "{} attempts in {} on {most} lane{}, {:.1} at once on average",
                filters::group_digits(&spans.len().to_string()),
                filters::say_seconds(end),
                if most == 1 { "" } else { "s" },
                busy / end
            ),
            lanes,
        })
    }
}

struct Packed {
    source: usize,
    /// From 1 within its source.
    number: usize,
    free_at: f64,
    spans: Vec<usize>,
}

/// Puts each attempt on the first lane of its source that is free, in the order of their starts.
fn pack(spans: &[Span], at: impl Fn(DateTime<Utc>) -> f64) -> Vec<Packed> {
    let mut lanes: Vec<Packed> = Vec::new();
    for (place, span) in spans.iter().enumerate() {
        let start = at(span.started_at);
        let is_free =
            |lane: &&mut Packed| lane.source == span.source && lane.free_at <= start + SLACK_SECS;
        let end = start + span.seconds;
        if let Some(lane) = lanes.iter_mut().find(is_free) {
            lane.free_at = end;
            lane.spans.push(place);
            continue;
        }
        let number = 1 + lanes.iter().filter(|lane| lane.source == span.source).count();
        lanes.push(Packed { source: span.source, number, free_at: end, spans: vec![place] });
    }
    lanes
}

/// What a bin holds.
#[derive(Clone, Copy, Default)]
struct Bin {
    worst: Option<Outcome>,
    attempts: usize,
}

fn pieces(
    spans: &[Span],
    top: f64,
    end: f64,
    at: impl Fn(DateTime<Utc>) -> f64,
    begin: DateTime<Utc>,
) -> Vec<Piece> {
    let mut bins = vec![Bin::default(); BINS];
    let bin_of = |time: f64| ((time / end * BINS as f64) as usize).min(BINS - 1);
    for span in spans {
        let (first, last) =
            (bin_of(at(span.started_at)), bin_of(at(span.started_at) + span.seconds));
        bins[first].attempts += 1;
        for bin in &mut bins[first..=last] {
            bin.worst = bin.worst.max_by_severity(span.outcome);
        }
    }
    let mut pieces = Vec::new();
    let mut place = 0;
    while place < BINS {
        let Some(worst) = bins[place].worst else {
            place += 1;
            continue;
        };
        let until = (place..BINS).find(|p| bins[*p].worst != Some(worst)).unwrap_or(BINS);
        let attempts: usize = bins[place..until].iter().map(|bin| bin.attempts).sum();
        let mark = Mark::of_outcome(worst);
        let height = LANE * height_of(mark.tone);
        let width = WIDTH / BINS as f64;
        let time = |bin: usize| {
            let seconds = end * bin as f64 / BINS as f64;
            (begin + Duration::milliseconds((seconds * 1000.0) as i64)).format("%H:%M:%S")
        };
        pieces.push(Piece {
            x: LEFT + width * place as f64,
            width: width * (until - place) as f64,
            y: top + LANE * 0.9 - height,
            height,
            mark,
            title: format!("{} to {}: {attempts} begun, worst {worst}", time(place), time(until)),
        });
        place = until;
    }
    pieces
}

/// Worse is taller, so that it is not told by colour alone.
fn height_of(tone: &str) -> f64 {
    match tone {
        "good" => 0.35,
        "quiet" | "absent" => 0.2,
        "warn" => 0.6,
        _ => 0.8,
    }
}

trait Worse {
    fn max_by_severity(self, other: Outcome) -> Option<Outcome>;
}

impl Worse for Option<Outcome> {
    fn max_by_severity(self, other: Outcome) -> Option<Outcome> {
        Some(self.filter(|own| own.severity() >= other.severity()).unwrap_or(other))
    }
}

fn ticks(begin: DateTime<Utc>, end: f64) -> Vec<(f64, String)> {
    let format = if end > 86_400.0 { "%m-%d %H:%M" } else { "%H:%M:%S" };
    (0..=4)
        .map(|quarter| {
            let part = f64::from(quarter) / 4.0;
            let time = begin + Duration::milliseconds((end * part * 1000.0) as i64);
            (LEFT + WIDTH * part, time.format(format).to_string())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(source: usize, start: i64, seconds: f64, outcome: Outcome) -> Span {
        let started_at = DateTime::UNIX_EPOCH + Duration::milliseconds(start);
        Span { source, started_at, seconds, outcome }
    }

    #[test]
    fn attempts_that_overlap_have_lanes_of_their_own() {
        let spans = [
            span(0, 0, 10.0, Outcome::Pass),
            span(0, 1_000, 2.0, Outcome::Crash),
            span(0, 3_020, 4.0, Outcome::Pass),
            span(1, 0, 1.0, Outcome::Pass),
            span(0, 0, 0.0, Outcome::Pass),
        ];
        let chart =
            TimelineChart::new(&spans, &["shard 1/2".to_owned(), "shard 2/2".to_owned()]).unwrap();
        let lanes: Vec<(&str, usize, usize)> = chart
            .lanes
            .iter()
            .map(|lane| (lane.name.as_str(), lane.attempts, lane.not_passed))
            .collect();
        assert_eq!(
            lanes,
            [("shard 1/2, lane 1", 1, 0), ("shard 1/2, lane 2", 2, 1), ("shard 2/2, lane 1", 1, 0)]
        );
        assert_eq!(chart.description, "4 attempts in 10.0 s on 3 lanes, 1.7 at once on average");
        let crash = &chart.lanes[1].pieces[0];
        assert_eq!(crash.mark.word, "crash");
        assert!(crash.height > chart.lanes[0].pieces[0].height, "worse is taller");
    }

    #[test]
    fn a_short_crash_in_a_long_run_is_still_seen() {
        let mut spans: Vec<Span> =
            (0..1_000).map(|n| span(0, n * 60_000, 60.0, Outcome::Pass)).collect();
        spans[500].outcome = Outcome::Crash;
        spans[500].seconds = 0.001;
        let chart = TimelineChart::new(&spans, &[String::new()]).unwrap();
        let pieces = &chart.lanes[0].pieces;
        assert!(pieces.len() <= BINS);
        let crash = pieces.iter().find(|piece| piece.mark.word == "crash").unwrap();
        assert!(crash.width >= WIDTH / BINS as f64 - 1e-9);
    }

    #[test]
    fn nothing_that_took_time_is_no_chart() {
        assert!(TimelineChart::new(&[span(0, 0, 0.0, Outcome::Skipped)], &[]).is_none());
    }
}
