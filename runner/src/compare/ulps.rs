//! Distances in units in the last place, counted in one pass.
//!
//! The percentile `q` of `n` distances is by nearest rank: the smallest distance that at least
//! `⌈q·n⌉` of them do not exceed. Up to [`FEW`] distances are kept as they are. More are counted in
//! bins, which hold distances to eleven significant bits, rounded down: exact up to 2048, and within
//! one part in 1024 above. The maximum is always exact.

use super::float::CHUNK;

/// Distances kept one by one.
const FEW: usize = 1024;
/// Significant bits of a bin after the first.
const MANTISSA_BITS: u32 = 10;
/// The bits of 1.0 as `f64`, in units of one bin.
const ONE: u64 = 1023 << MANTISSA_BITS;
/// The same of 1.0 as `f32`.
const NARROW_ONE: u32 = 127 << MANTISSA_BITS;
/// Largest distance up to which looking for each value beats one increment per element.
const MOST_SMALL: u8 = 31;
/// Zero has the first bin, then come 64 powers of two.
const BINS: usize = 1 + (64 << MANTISSA_BITS);
/// As many as 16 bits can name, of which those of distances of 32 bits are the first half.
const NARROW_BINS: usize = 1 << 16;

/// Counts of distances.
#[derive(Debug, Clone, Default)]
pub(super) struct Ulps {
    few: Vec<u64>,
    /// Empty as long as `few` is enough.
    bins: Vec<u64>,
    /// What was counted of distances of 32 bits and is not in `bins` yet: half as wide, since more
    /// of them stay in the first-level cache.
    narrow: Vec<u32>,
    in_narrow: u32,
    count: u64,
    max: u64,
}

impl Ulps {
    /// Forgets everything, keeping the memory of the few.
    pub(super) fn clear(&mut self) {
        self.few.clear();
        self.bins = Vec::new();
        self.narrow = Vec::new();
        self.in_narrow = 0;
        self.count = 0;
        self.max = 0;
    }

    /// Counts some distances.
    #[inline(always)]
    pub(super) fn add(&mut self, distances: &[u64]) {
        let max = distances.iter().fold(0, |max, distance| max.max(*distance));
        self.max = self.max.max(max);
        self.count += distances.len() as u64;
        if self.bins.is_empty() {
            if self.few.len() + distances.len() <= FEW {
                self.few.extend_from_slice(distances);
                return;
            }
            self.open_bins();
        }
        match few(max) {
            Some(max) => self.count_small(distances, max, |distance| distance as u8),
            None => self.count_each(distances),
        }
    }

    /// Counts at most [`CHUNK`] distances that are not wider than 32 bits.
    #[inline(always)]
    pub(super) fn add_narrow(&mut self, distances: &[u32]) {
        let max = distances.iter().fold(0, |max, distance| max.max(*distance));
        self.max = self.max.max(u64::from(max));
        self.count += distances.len() as u64;
        if self.bins.is_empty() {
            if self.few.len() + distances.len() <= FEW {
                self.few.extend(distances.iter().map(|distance| u64::from(*distance)));
                return;
            }
            self.open_bins();
        }
        match few(u64::from(max)) {
            Some(max) => self.count_small(distances, max, |distance| distance as u8),
            None => self.count_each_narrow(distances),
        }
    }

    #[inline(always)]
    fn count_each_narrow(&mut self, distances: &[u32]) {
        let length = u32::try_from(distances.len()).expect("a chunk is small");
        self.in_narrow = if let Some(sum) = self.in_narrow.checked_add(length) {
            sum
        } else {
            self.spill();
            length
        };
        self.narrow.resize(NARROW_BINS, 0);
        let bins: &mut [u32; NARROW_BINS] =
            self.narrow.first_chunk_mut().expect("there are as many");
        let (groups, rest) = distances.as_chunks::<64>();
        let mut found = [0u16; 64];
        for group in groups {
            for (found, distance) in found.iter_mut().zip(group) {
                *found = narrow_bin(*distance);
            }
            for found in found {
                bins[usize::from(found)] += 1;
            }
        }
        for distance in rest {
            bins[usize::from(narrow_bin(*distance))] += 1;
        }
    }

    /// Moves what is in the narrow bins to the wide ones.
    #[inline(never)]
    fn spill(&mut self) {
        for (bin, narrow) in self.bins.iter_mut().zip(&mut self.narrow) {
            *bin += u64::from(std::mem::take(narrow));
        }
        self.in_narrow = 0;
    }

    #[inline(never)]
    fn open_bins(&mut self) {
        self.bins = vec![0; BINS];
        for distance in self.few.drain(..) {
            self.bins[bin(distance)] += 1;
        }
    }

    /// Counts distances of few values, the largest of which is `max`, as bytes, of which most fit a
    /// vector: that beats one scattered increment per element.
    #[inline(always)]
    fn count_small<T: Copy>(&mut self, distances: &[T], max: u8, byte: impl Fn(T) -> u8) {
        for part in distances.chunks(CHUNK) {
            // No value is the largest byte.
            let mut bytes = [u8::MAX; CHUNK];
            for (slot, distance) in bytes.iter_mut().zip(part) {
                *slot = byte(*distance);
            }
            let mut zeros = part.len() as u64;
            for value in 1..=max {
                // There are so few groups that a byte can count them.
                let mut equal = [0u8; 64];
                for group in bytes.as_chunks::<64>().0 {
                    for (equal, byte) in equal.iter_mut().zip(group) {
                        *equal += u8::from(*byte == value);
                    }
                }
                let equal = equal.iter().map(|equal| u64::from(*equal)).sum::<u64>();
                self.bins[bin(u64::from(value))] += equal;
                zeros -= equal;
            }
            self.bins[0] += zeros;
        }
    }

    /// Bins are found in vectors, a group at a time, and then counted up.
    #[inline(always)]
    fn count_each(&mut self, distances: &[u64]) {
        let bins: &mut [u64; BINS] =
            self.bins.as_mut_slice().try_into().expect("bins are opened whole");
        let (groups, rest) = distances.as_chunks::<64>();
        let mut found = [0usize; 64];
        for group in groups {
            for (found, distance) in found.iter_mut().zip(group) {
                *found = bin(*distance);
            }
            for found in found {
                bins[found.min(BINS - 1)] += 1;
            }
        }
        for distance in rest {
            bins[bin(*distance)] += 1;
        }
    }

    /// Adds the counts of another part of the same tensor.
    pub(super) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.max = self.max.max(other.max);
        if self.bins.is_empty() {
            self.open_bins();
        }
        for (bin, other) in self.bins.iter_mut().zip(&other.bins) {
            *bin += other;
        }
        for (bin, other) in self.bins.iter_mut().zip(&other.narrow) {
            *bin += u64::from(*other);
        }
        for distance in &other.few {
            self.bins[bin(*distance)] += 1;
        }
    }

    /// The largest distance, if there is any.
    pub(super) fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The percentile of `percent` out of 100.
    pub(super) fn percentile(&mut self, percent: u64) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let rank = u128::from(self.count) * u128::from(percent);
        let rank = u64::try_from(rank.div_ceil(100)).expect("at most the count").max(1);
        if self.bins.is_empty() {
            let at = usize::try_from(rank - 1).expect("few");
            return Some(*self.few.select_nth_unstable(at).1);
        }
        self.spill();
        let mut before = 0;
        let within = self.bins.iter().position(|count| {
            before += count;
            before >= rank
        });
        within.map(smallest_in)
    }
}

/// The largest distance as a byte, where there are few values.
#[inline(always)]
fn few(max: u64) -> Option<u8> {
    u8::try_from(max).ok().filter(|max| *max <= MOST_SMALL)
}

/// The bin of a distance: the leading bits of its floating-point form, which is its logarithm with
/// eleven significant bits.
#[inline(always)]
#[expect(clippy::cast_precision_loss, reason = "bits beyond the eleventh are cut off anyway")]
#[expect(clippy::cast_possible_truncation, reason = "at most BINS")]
fn bin(distance: u64) -> usize {
    // Rounding to 53 bits must not carry into the eleventh.
    let kept = if distance >> 53 == 0 { distance } else { distance & !0xffff };
    let bits = (kept as f64).to_bits() >> (52 - MANTISSA_BITS);
    let above_zero = bits.wrapping_sub(ONE - 1);
    (if distance == 0 { 0 } else { above_zero }) as usize
}

/// The bin of a distance that is not wider than 32 bits.
#[inline(always)]
#[expect(clippy::cast_precision_loss, reason = "bits beyond the eleventh are cut off anyway")]
#[expect(clippy::cast_possible_truncation, reason = "32 powers of two have 2^15 bins")]
fn narrow_bin(distance: u32) -> u16 {
    // Rounding to 24 bits must not carry into the eleventh.
    let kept = if distance >> 24 == 0 { distance } else { distance & !0xff };
    let bits = (kept as f32).to_bits() >> (23 - MANTISSA_BITS);
    (if distance == 0 { 0 } else { bits - NARROW_ONE + 1 }) as u16
}

/// The smallest distance of a bin.
#[expect(clippy::cast_possible_truncation, reason = "bins are of whole numbers")]
#[expect(clippy::cast_sign_loss, reason = "never negative")]
fn smallest_in(bin: usize) -> u64 {
    if bin == 0 {
        return 0;
    }
    let bits = (bin as u64 + ONE - 1) << (52 - MANTISSA_BITS);
    // A bin below 1024 between two whole numbers is never used; rounding up names the whole one.
    f64::from_bits(bits).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// To eleven significant bits, rounded down.
    fn cut(distance: u64) -> u64 {
        let extra = (64 - distance.leading_zeros()).saturating_sub(MANTISSA_BITS + 1);
        distance >> extra << extra
    }

    #[test]
    fn bins_hold_eleven_significant_bits() {
        for distance in (0..5000).chain((0..64).flat_map(|log2| {
            let power = 1u64 << log2;
            [power - 1, power, power + 1, power + power / 3, power.wrapping_mul(2).wrapping_sub(1)]
        })) {
            let bin = bin(distance);
            assert!(bin < BINS);
            assert_eq!(smallest_in(bin), cut(distance), "{distance}");
        }
        assert_eq!(smallest_in(bin(u64::MAX)), cut(u64::MAX));
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_distances() {
        let mut state = 7u64;
        for count in [1usize, 2, 3, 99, 100, 101, 1024, 1025, 5000] {
            for shift in [0, 3, 30, 50, 61] {
                let distances: Vec<u64> = (0..count)
                    .map(|_| {
                        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        (state >> 33).wrapping_mul(state) >> (61 - shift)
                    })
                    .collect();
                let mut sorted = distances.clone();
                sorted.sort_unstable();
                let (mut whole, mut first, mut second) =
                    (Ulps::default(), Ulps::default(), Ulps::default());
                for part in distances.chunks(700) {
                    whole.add(part);
                }
                first.add(&distances[..count / 2]);
                second.add(&distances[count / 2..]);
                first.merge(&second);
                for percent in [50, 99, 100] {
                    let right = sorted[(count * percent).div_ceil(100).max(1) - 1];
                    let kept = if count <= FEW { right } else { cut(right) };
                    let what = format!("{count} distances, shift {shift}, {percent} %");
                    assert_eq!(whole.percentile(percent as u64), Some(kept), "{what}");
                    assert_eq!(first.percentile(percent as u64), Some(cut(right)), "{what}");
                }
                assert_eq!(whole.max(), sorted.last().copied());
                assert_eq!(first.max(), sorted.last().copied());
            }
        }
    }

    #[test]
    fn narrow_distances_are_counted_as_others_are() {
        let mut state = 7u64;
        for (count, shift) in [(1024, 0), (1025, 0), (5000, 0), (5000, 2), (5000, 5), (5000, 29)] {
            // The largest are 7 << shift, so that there are few values and many.
            let distances: Vec<u32> = (0..count)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    u32::try_from(state >> (61 - shift)).unwrap()
                })
                .collect();
            let (mut narrow, mut wide) = (Ulps::default(), Ulps::default());
            for part in distances.chunks(CHUNK) {
                narrow.add_narrow(part);
                wide.add(&part.iter().map(|distance| u64::from(*distance)).collect::<Vec<_>>());
            }
            assert_eq!(narrow.max(), wide.max());
            for percent in 1..=100 {
                let what = format!("{count} distances, shift {shift}, {percent} %");
                assert_eq!(narrow.percentile(percent), wide.percentile(percent), "{what}");
            }
        }
    }

    #[test]
    fn nothing_counted_has_no_percentile_and_what_was_counted_is_forgotten() {
        let mut ulps = Ulps::default();
        assert_eq!((ulps.percentile(50), ulps.max()), (None, None));
        for count in [10, 5000] {
            ulps.add(&vec![7; count]);
            ulps.clear();
            assert_eq!((ulps.percentile(50), ulps.max()), (None, None));
        }
    }

    /// The narrow bins are full after four thousand million; what they hold is moved on then.
    #[test]
    fn nothing_is_lost_when_the_narrow_bins_are_full() {
        let mut ulps = Ulps::default();
        ulps.add_narrow(&[100; CHUNK]);
        for distance in [100, 200, 300] {
            ulps.add_narrow(&[distance; CHUNK]);
            ulps.in_narrow = u32::MAX - 1000;
        }
        assert_eq!(ulps.bins.iter().sum::<u64>(), 3 * CHUNK as u64, "moved on twice");
        let told = [50, 51, 75, 76].map(|percent| ulps.percentile(percent));
        assert_eq!(told, [Some(100), Some(200), Some(200), Some(300)]);
    }
}
