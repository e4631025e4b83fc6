//! Distances in units in the last place: counted in one pass, percentiles exact.
//!
//! The percentile `q` of `n` distances is by nearest rank: the smallest distance that at least
//! `⌈q·n⌉` of them do not exceed. Small distances have a bin each. Larger ones share bins of one
//! sixteenth of a power of two, and where a percentile falls into such a bin, the distances inside
//! it are counted again in finer bins, until one is left.

/// Distances with a bin of their own.
const SINGLE: usize = 1024;
const SINGLE_LOG2: u32 = 10;
/// Bins per power of two above.
const SPLIT: usize = 16;
const SPLIT_LOG2: u32 = 4;
const BINS: usize = SINGLE + (64 - SINGLE_LOG2 as usize) * SPLIT;
/// Finer bins of one more pass.
const FINER: u64 = 4096;

/// Counts of distances.
#[derive(Debug, Clone)]
pub(super) struct Ulps {
    bins: Box<[u64]>,
    count: u64,
    max: u64,
}

/// Gives every distance once more, in slices.
pub(super) type Walk<'a> = &'a dyn Fn(&mut dyn FnMut(&[u64]));

impl Ulps {
    pub(super) fn new() -> Self {
        Self { bins: vec![0; BINS].into_boxed_slice(), count: 0, max: 0 }
    }

    /// Counts some distances.
    #[inline(always)]
    pub(super) fn add(&mut self, distances: &[u64]) {
        let max = distances.iter().fold(0, |max, distance| max.max(*distance));
        self.max = self.max.max(max);
        self.count += distances.len() as u64;
        // Counting a few values in vectors beats one scattered increment per element.
        if max < 6 {
            let mut rest = distances.len() as u64;
            for (value, bin) in (1..=max).zip(&mut self.bins[1..]) {
                let equal: u64 =
                    distances.iter().map(|distance| u64::from(*distance == value)).sum();
                *bin += equal;
                rest -= equal;
            }
            self.bins[0] += rest;
            return;
        }
        for distance in distances {
            self.bins[bin(*distance)] += 1;
        }
    }

    /// Adds the counts of another part of the same tensor.
    pub(super) fn merge(&mut self, other: &Self) {
        for (bin, other) in self.bins.iter_mut().zip(&other.bins) {
            *bin += other;
        }
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    /// The largest distance, if there is any.
    pub(super) fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The percentile of `percent` out of 100.
    pub(super) fn percentile(&self, percent: u64, walk: Walk<'_>) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let rank = u128::from(self.count) * u128::from(percent);
        let rank = u64::try_from(rank.div_ceil(100)).expect("at most the count").max(1);
        let (index, rank) = find_rank(&self.bins, rank);
        let (low, width) = bin_range(index);
        Some(narrow(low, width, rank, walk))
    }
}

/// The bin in which the element of this rank (from 1) is, and its rank inside.
fn find_rank(bins: &[u64], mut rank: u64) -> (usize, u64) {
    for (index, count) in bins.iter().enumerate() {
        if rank <= *count {
            return (index, rank);
        }
        rank -= count;
    }
    unreachable!("a rank is at most the number of elements counted")
}

/// The distance of this rank among those in `low..low + width`.
fn narrow(mut low: u64, mut width: u64, mut rank: u64, walk: Walk<'_>) -> u64 {
    while width > 1 {
        let step = width.div_ceil(FINER);
        let mut bins = vec![0u64; usize::try_from(width.div_ceil(step)).expect("at most FINER")];
        walk(&mut |distances| {
            for distance in distances {
                let offset = distance.wrapping_sub(low);
                if offset < width {
                    bins[usize::try_from(offset / step).expect("at most FINER")] += 1;
                }
            }
        });
        let (index, inside) = find_rank(&bins, rank);
        low += step * index as u64;
        width = step;
        rank = inside;
    }
    low
}

#[inline(always)]
fn bin(distance: u64) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "below SINGLE, or shifted to 5 bits")]
    if distance < SINGLE as u64 {
        distance as usize
    } else {
        let log2 = distance.ilog2();
        let split = (distance >> (log2 - SPLIT_LOG2)) as usize & (SPLIT - 1);
        SINGLE + (log2 - SINGLE_LOG2) as usize * SPLIT + split
    }
}

/// First distance of a bin and how many share it.
fn bin_range(index: usize) -> (u64, u64) {
    if index < SINGLE {
        return (index as u64, 1);
    }
    let (power, split) = ((index - SINGLE) / SPLIT, (index - SINGLE) % SPLIT);
    let log2 = SINGLE_LOG2 + u32::try_from(power).expect("below 64");
    let width = 1u64 << (log2 - SPLIT_LOG2);
    ((1u64 << log2) + width * split as u64, width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_distance_is_inside_its_bin() {
        for distance in (0..5000).chain((0..64).flat_map(|log2| {
            let power = 1u64 << log2;
            [power - 1, power, power + 1, power + power / 3, power.wrapping_mul(2).wrapping_sub(1)]
        })) {
            let (low, width) = bin_range(bin(distance));
            assert!(low <= distance && distance - low < width, "{distance}: {low}+{width}");
        }
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_distances() {
        let mut state = 7u64;
        for count in [1usize, 2, 3, 99, 100, 101, 5000] {
            for shift in [0, 3, 30, 50, 61] {
                let distances: Vec<u64> = (0..count)
                    .map(|_| {
                        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        (state >> 33).wrapping_mul(state) >> (61 - shift)
                    })
                    .collect();
                let mut ulps = Ulps::new();
                let mut half = Ulps::new();
                ulps.add(&distances[..count / 2]);
                half.add(&distances[count / 2..]);
                ulps.merge(&half);
                let mut sorted = distances.clone();
                sorted.sort_unstable();
                for percent in [50, 99, 100] {
                    let rank = (count * percent).div_ceil(100).max(1);
                    let walk = |sink: &mut dyn FnMut(&[u64])| sink(&distances);
                    assert_eq!(
                        ulps.percentile(percent as u64, &walk),
                        Some(sorted[rank - 1]),
                        "{count} distances, shift {shift}, {percent} %"
                    );
                }
                assert_eq!(ulps.max(), sorted.last().copied());
            }
        }
    }

    #[test]
    fn nothing_counted_has_no_percentile() {
        assert_eq!(Ulps::new().percentile(50, &|_| {}), None);
        assert_eq!(Ulps::new().max(), None);
    }
}
