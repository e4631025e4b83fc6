//! Two tensors of one shape: blocks, threads, figures.
//!
//! A block is the same numbers whatever the number of threads, and blocks are added up in their
//! order: a comparison has the same figures on every machine.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use memmap2::{Mmap, UncheckedAdvice};
use protocol::{Figures, Number, Tolerance};

use super::elements::{Element, Kind};
use super::figures::Summary;
use super::float::Scratch;
use super::{float, integer};

/// Numbers in one block.
const BLOCK: usize = 1 << 18;
/// Most threads for one tensor; more would only wait for memory.
const MAX_THREADS: usize = 4;

/// The stored elements of one side.
#[derive(Debug, Clone, Copy)]
pub(super) struct Side<'a> {
    /// Type as stored; of the parts, for complex numbers.
    pub(super) element: Element,
    /// All elements, and nothing else.
    pub(super) bytes: &'a [u8],
    /// The mapping they are in, if its pages are given back as they have been compared.
    pub(super) map: Option<&'a Mmap>,
}

impl<'a> Side<'a> {
    /// The bytes of `length` numbers from `start` on.
    #[inline(always)]
    pub(super) fn part(&self, start: usize, length: usize) -> &'a [u8] {
        let size = self.element.size();
        &self.bytes[start * size..(start + length) * size]
    }

    /// Gives the pages of these numbers back to the kernel, which enters them again should they be
    /// asked for. Otherwise one thread would give the whole mapping back in the end, which took a fifth
    /// of the time of a comparison.
    fn release(&self, numbers: &Range<usize>) {
        let Some(map) = self.map else { return };
        let bytes = self.part(numbers.start, numbers.len());
        let offset = bytes.as_ptr().addr() - map.as_ptr().addr();
        #[expect(unsafe_code, reason = "other mappings would lose what is in them")]
        // SAFETY: the file is mapped for reading: what is asked for again is read from it again.
        let released =
            unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, offset, bytes.len()) };
        // What could not be given back is given back with the mapping.
        drop(released);
    }

    /// One number, widened.
    pub(super) fn number(&self, at: usize) -> f64 {
        let mut out = [0.0];
        self.element.widen(self.part(at, 1), &mut out);
        out[0]
    }
}

/// Two tensors of one shape.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair<'a> {
    pub(super) actual: Side<'a>,
    pub(super) expected: Side<'a>,
    /// Whether two numbers make one element.
    pub(super) complex: bool,
    pub(super) tolerance: Tolerance,
    /// Whether the device declares that it gives zero in place of a subnormal number of this type.
    pub(super) flushes: bool,
}

/// What came of comparing two tensors.
#[derive(Debug)]
pub(super) struct Compared {
    pub(super) figures: Figures,
    /// Elements where expected is NaN and actual is not.
    pub(super) reference_undefined: u64,
    /// Subnormal expected numbers in whose place there is a zero.
    pub(super) flushed: u64,
}

impl Pair<'_> {
    /// Numbers per element.
    #[inline(always)]
    pub(super) fn parts(&self) -> usize {
        1 + usize::from(self.complex)
    }

    /// Numbers on each side.
    pub(super) fn numbers(&self) -> usize {
        self.actual.bytes.len() / self.actual.element.size()
    }

    /// One pair of numbers, widened, the expected one overflowing as the actual type does.
    pub(super) fn number(&self, at: usize) -> (f64, f64) {
        let (actual, expected) = (self.actual.number(at), self.expected.number(at));
        let limit = self.actual.element.overflows_from();
        if self.actual.element != self.expected.element
            && limit.is_some_and(|limit| expected.abs() >= limit)
        {
            return (actual, f64::INFINITY.copysign(expected));
        }
        if self.is_flushed(actual, expected) { (actual, actual) } else { (actual, expected) }
    }

    /// Whether there is a zero in place of a subnormal number, as the device declares.
    #[inline(always)]
    pub(super) fn is_flushed(&self, actual: f64, expected: f64) -> bool {
        self.flushes
            && actual == 0.0
            && expected != 0.0
            && expected.abs() < self.actual.element.smallest_normal()
    }

    fn is_integer(&self) -> bool {
        self.actual.element.kind() == Kind::Integer && self.expected.element.kind() == Kind::Integer
    }

    fn scan(&self, block: usize, scratch: &mut Scratch) -> Summary {
        let start = block * BLOCK;
        let range = start..self.numbers().min(start + BLOCK);
        let mut summary = Summary::default();
        if self.is_integer() {
            integer::scan(self, range.clone(), &mut summary);
        } else {
            float::scan(self, range.clone(), &mut summary, scratch);
        }
        self.actual.release(&range);
        self.expected.release(&range);
        summary
    }

    fn scan_all(&self, scratch: &mut Scratch) -> Summary {
        scratch.ulps.clear();
        let mut summary = Summary::default();
        let blocks = self.numbers().div_ceil(BLOCK);
        let threads = threads_for(blocks);
        if threads <= 1 {
            for block in 0..blocks {
                summary.merge(&self.scan(block, scratch));
            }
            return summary;
        }
        let next = AtomicUsize::new(0);
        let work = || {
            let (mut scratch, mut done) = (Scratch::new(), Vec::new());
            loop {
                let block = next.fetch_add(1, Ordering::Relaxed);
                if block >= blocks {
                    return (scratch, done);
                }
                done.push((block, self.scan(block, &mut scratch)));
            }
        };
        let mut done = Vec::with_capacity(blocks);
        std::thread::scope(|scope| {
            let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            for handle in handles {
                let (others, blocks) = handle.join().expect("scanning does not panic");
                scratch.ulps.merge(&others.ulps);
                done.extend(blocks);
            }
        });
        done.sort_unstable_by_key(|(block, _)| *block);
        for (_, block) in &done {
            summary.merge(block);
        }
        summary
    }

    /// All figures. `shape` is that of the elements, for the place of the worst.
    pub(super) fn compare(&self, shape: &[u64], scratch: &mut Scratch) -> Compared {
        let summary = self.scan_all(scratch);
        let ulps = &mut scratch.ulps;
        #[expect(clippy::cast_precision_loss, reason = "a figure")]
        let number = |distance: Option<u64>| distance.map(|distance| Number(distance as f64));
        let figures = Figures {
            ulp_p50: number(ulps.percentile(50)),
            ulp_p99: number(ulps.percentile(99)),
            ulp_max: number(ulps.max()),
            ..summary.figures(shape)
        };
        Compared {
            figures,
            reference_undefined: summary.reference_undefined,
            flushed: summary.flushed,
        }
    }

    /// For logits: part of the rows along the last dimension whose largest element is at the same
    /// place, the first where several are largest. A NaN is larger than all others, as in torch.
    #[expect(clippy::cast_precision_loss, reason = "a figure")]
    pub(super) fn top1_agreement(&self, shape: &[u64]) -> Option<f64> {
        let length = usize::try_from(*shape.last()?).ok()?;
        if self.complex || length < 2 || self.numbers() == 0 {
            return None;
        }
        let rows = self.numbers() / length;
        let agree = (0..rows)
            .filter(|row| {
                largest(&self.actual, row * length, length)
                    == largest(&self.expected, row * length, length)
            })
            .count();
        Some(agree as f64 / rows as f64)
    }
}

/// Threads for a tensor of so many blocks: only a large one is worth starting any.
fn threads_for(blocks: usize) -> usize {
    if blocks < 8 {
        return 1;
    }
    std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS)
}

/// Place of the largest of `length` numbers from `start` on.
fn largest(side: &Side<'_>, start: usize, length: usize) -> usize {
    let mut buffer = [0.0; 256];
    let (mut place, mut best) = (0, f64::NEG_INFINITY);
    for offset in (0..length).step_by(buffer.len()) {
        let numbers = &mut buffer[..length.min(offset + 256) - offset];
        side.element.widen(side.part(start + offset, numbers.len()), numbers);
        for (position, number) in numbers.iter().enumerate() {
            if number.is_nan() {
                return offset + position;
            }
            if *number > best {
                (place, best) = (offset + position, *number);
            }
        }
    }
    place
}
