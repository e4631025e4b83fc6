//! Which case before it makes a case fail that passes alone. Pure: says which predecessors to
//! execute again before it, and is told whether it failed; executing is [`crate::slot`]'s.

use std::ops::Range;

/// How much longer each window is than the one before, while none repeats the failure.
const GROWTH: usize = 4;

/// A search over the predecessors `0..n` of a case, in the order in which they were executed.
#[derive(Debug, Clone)]
pub struct Search {
    predecessors: usize,
    replays_left: u32,
    replays: u32,
    /// The shortest window of which it is known that the failure follows it.
    repeats: Option<Range<usize>>,
    /// Where a single culprit must be.
    suspects: Range<usize>,
    /// The longest window up to the case of which it is known that the failure does not follow it.
    innocent: usize,
}

/// What came of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// The case fails after this one alone.
    One(usize),
    /// It fails after these, and no single one of them could be told.
    Among(Range<usize>),
    /// It did not fail again after any of the windows that were tried.
    Nothing,
}

impl Search {
    /// A search with at most so many replays.
    #[must_use]
    pub const fn new(predecessors: usize, most_replays: u32) -> Self {
        Self {
            predecessors,
            replays_left: most_replays,
            replays: 0,
            repeats: None,
            suspects: 0..predecessors,
            innocent: 0,
        }
    }

    /// The predecessors to execute before the case next; nothing when the search is over.
    #[must_use]
    pub fn next_window(&self) -> Option<Range<usize>> {
        if self.replays_left == 0 {
            return None;
        }
        let Some(repeats) = &self.repeats else {
            // The nearest first: what spoils a process mostly shows at once.
            let length = if self.innocent == 0 { 1 } else { self.innocent.saturating_mul(GROWTH) };
            let length = length.min(self.predecessors);
            return (length > self.innocent).then(|| self.predecessors - length..self.predecessors);
        };
        let Range { start, end } = self.suspects;
        if *repeats == self.suspects && end - start <= 1 {
            return None;
        }
        let middle = if end - start > 1 { start + (end - start) / 2 } else { end };
        Some(start..middle)
    }

    /// Whether the case failed after that window as it had in the run.
    pub fn tell(&mut self, failed: bool) {
        let Some(window) = self.next_window() else { return };
        self.replays_left -= 1;
        self.replays += 1;
        match (&self.repeats, failed) {
            (None, false) => self.innocent = window.len(),
            (None, true) => {
                self.suspects = window.start..self.predecessors - self.innocent;
                self.repeats = Some(window);
            }
            (Some(_), true) => {
                self.suspects = window.clone();
                self.repeats = Some(window);
            }
            (Some(_), false) if self.suspects.len() > 1 => self.suspects.start = window.end,
            // The last suspect alone does not do it: it takes several.
            (Some(_), false) => self.replays_left = 0,
        }
    }

    /// Replays that were made.
    #[must_use]
    pub const fn replays(&self) -> u32 {
        self.replays
    }

    /// What is known so far.
    #[must_use]
    pub fn found(&self) -> Found {
        match &self.repeats {
            None => Found::Nothing,
            Some(window) if window.len() == 1 => Found::One(window.start),
            Some(window) => Found::Among(window.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches with `fails` as the truth about a window.
    fn search(n: usize, most: u32, fails: impl Fn(&Range<usize>) -> bool) -> (Found, u32) {
        let mut search = Search::new(n, most);
        while let Some(window) = search.next_window() {
            assert!(window.end <= n && !window.is_empty(), "{window:?}");
            search.tell(fails(&window));
        }
        (search.found(), search.replays())
    }

    #[test]
    fn a_single_culprit_is_found_wherever_it_is_with_few_replays() {
        for n in 1..=130 {
            for culprit in 0..n {
                let (found, replays) = search(n, u32::MAX, |window| window.contains(&culprit));
                assert_eq!(found, Found::One(culprit), "{culprit} of {n}");
                assert!(replays <= 14, "{culprit} of {n} took {replays}");
            }
        }
        let (found, replays) = search(500, u32::MAX, |window| window.contains(&499));
        assert_eq!((found, replays), (Found::One(499), 1), "the nearest is tried first");
    }

    #[test]
    fn two_that_only_act_together_are_not_called_one() {
        let (found, _) = search(64, u32::MAX, |w| w.contains(&10) && w.contains(&60));
        assert_eq!(found, Found::Among(0..64));
        let (found, _) = search(64, u32::MAX, |w| w.contains(&60) && w.contains(&62));
        assert_eq!(found, Found::Among(60..64));
    }

    #[test]
    fn what_does_not_come_again_blames_nobody() {
        assert_eq!(search(100, u32::MAX, |_| false), (Found::Nothing, 5));
        assert_eq!(search(0, u32::MAX, |_| true), (Found::Nothing, 0));
    }

    #[test]
    fn replays_are_bounded() {
        for most in 0..9 {
            let (found, replays) = search(400, most, |window| window.contains(&3));
            assert!(replays <= most);
            assert_ne!(found, Found::One(3), "{most} are too few to tell");
        }
    }
}
