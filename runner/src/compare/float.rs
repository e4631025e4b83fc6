//! Floating-point and complex elements, a block at a time: widening, non-finite values first, then
//! the vector pass over what is left.
//!
//! A complex number is close when its non-finite parts agree part by part and, where both sides are
//! finite, when the modulus of the difference is within `atol + rtol·|expected|`, as numpy and torch
//! have it: a small part beside a large one carries the rounding of the large one. Moments,
//! correlation and distances in units in the last place look at the parts.

use std::ops::Range;

use protocol::Tolerance;

use super::elements::{Element, Kind};
use super::figures::{Summary, Worst};
use super::kernel::{all_finite, pass};
use super::narrow::{self, Allowance, Vectors};
use super::rules::is_close;
use super::tensors::Pair;
use super::ulps::Ulps;

/// Numbers widened at a time; even, so that the parts of a complex number stay together. The four
/// buffers of this many numbers fit a first-level cache of 32 KiB.
pub(super) const CHUNK: usize = 1024;

/// What a scan needs beside its result: kept from tensor to tensor, since clearing it costs more
/// than comparing a small one.
#[derive(Debug)]
pub(super) struct Scratch {
    chunk: Box<Chunk>,
    narrow: Box<narrow::Buffers>,
    pub(super) ulps: Ulps,
}

impl Scratch {
    pub(super) fn new() -> Self {
        Self {
            chunk: Box::new(Chunk::new()),
            narrow: Box::new(narrow::Buffers::new()),
            ulps: Ulps::default(),
        }
    }
}

/// Widened numbers of one chunk. Where a number is not finite, the finite ones are moved together
/// and `moved` says where they were.
#[derive(Debug)]
struct Chunk {
    actual: [f64; CHUNK],
    expected: [f64; CHUNK],
    distances: [u64; CHUNK],
    places: [i64; CHUNK],
    other_places: [i64; CHUNK],
    moved: [u32; CHUNK],
    is_moved: bool,
    length: usize,
}

impl Chunk {
    fn new() -> Self {
        Self {
            actual: [0.0; CHUNK],
            expected: [0.0; CHUNK],
            distances: [0; CHUNK],
            places: [0; CHUNK],
            other_places: [0; CHUNK],
            moved: [0; CHUNK],
            is_moved: false,
            length: 0,
        }
    }

    /// Place within the chunk, before finite numbers were moved together.
    fn original(&self, position: usize) -> usize {
        if self.is_moved { self.moved[position] as usize } else { position }
    }
}

/// Looks at the numbers of `range` (parts, for complex elements).
pub(super) fn scan(
    pair: &Pair<'_>,
    range: Range<usize>,
    summary: &mut Summary,
    scratch: &mut Scratch,
) {
    match Vectors::widest() {
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx512 => {
            #[expect(unsafe_code, reason = "the processor has been asked")]
            // SAFETY: it has them.
            unsafe {
                scan_avx512(pair, range, summary, scratch);
            }
        }
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx2 => {
            #[expect(unsafe_code, reason = "the processor has been asked")]
            // SAFETY: it has them.
            unsafe {
                scan_avx2(pair, range, summary, scratch);
            }
        }
        Vectors::None => scan_all(Vectors::None, pair, range, summary, scratch),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,fma")]
fn scan_avx512(pair: &Pair<'_>, range: Range<usize>, summary: &mut Summary, scratch: &mut Scratch) {
    scan_all(Vectors::Avx512, pair, range, summary, scratch);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn scan_avx2(pair: &Pair<'_>, range: Range<usize>, summary: &mut Summary, scratch: &mut Scratch) {
    scan_all(Vectors::Avx2, pair, range, summary, scratch);
}

#[inline(always)]
fn scan_all(
    vectors: Vectors,
    pair: &Pair<'_>,
    range: Range<usize>,
    summary: &mut Summary,
    scratch: &mut Scratch,
) {
    scan_with(Allowance::of(pair), vectors, pair, range, summary, scratch);
}

/// Without an allowance everything goes the general way.
#[inline(always)]
pub(super) fn scan_with(
    allowance: Option<Allowance>,
    vectors: Vectors,
    pair: &Pair<'_>,
    range: Range<usize>,
    summary: &mut Summary,
    scratch: &mut Scratch,
) {
    let Scratch { chunk, narrow, ulps } = scratch;
    // An integer beside a float has no units in the last place.
    let has_places = pair.actual.element.kind() == Kind::Float;
    let mut start = range.start;
    while start < range.end {
        let length = CHUNK.min(range.end - start);
        if let Some(allowance) = allowance
            && narrow::scan(pair, allowance, vectors, (start, length), narrow, summary, ulps)
        {
            start += length;
            continue;
        }
        summary.elements += (length / pair.parts()) as u64;
        fill(pair, start, length, chunk);
        if pair.flushes {
            summary.flushed += excuse_flushed(pair, chunk);
        }
        if chunk.is_moved {
            note_nonfinite(pair, start, length, chunk, summary);
        }
        if chunk.length > 0 {
            if has_places {
                ulps.add(&chunk.distances[..chunk.length]);
            }
            if pair.complex {
                scan_complex(pair, start, chunk, summary);
            } else {
                scan_real(pair, start, chunk, summary);
            }
        }
        start += length;
    }
}

/// Widens a chunk and leaves the finite pairs in it.
#[inline(always)]
fn fill(pair: &Pair<'_>, start: usize, length: usize, chunk: &mut Chunk) {
    let (actual, expected) = (pair.actual.part(start, length), pair.expected.part(start, length));
    pair.actual.element.widen(actual, &mut chunk.actual[..length]);
    pair.expected.element.widen(expected, &mut chunk.expected[..length]);
    if pair.actual.element == pair.expected.element {
        places_of_one_type(pair.actual.element, actual, expected, length, chunk);
    } else {
        overflow(pair.actual.element, &mut chunk.expected[..length]);
        places_of_two_types(pair.actual.element, length, chunk);
    }
    chunk.length = length;
    chunk.is_moved = !(all_finite(&chunk.actual[..length]) & all_finite(&chunk.expected[..length]));
    if chunk.is_moved {
        move_finite(pair.parts(), length, chunk);
    }
}

/// Takes what the device declares to flush for the zeros that it gives, and counts it.
#[inline(never)]
fn excuse_flushed(pair: &Pair<'_>, chunk: &mut Chunk) -> u64 {
    let mut flushed = 0;
    let numbers = chunk.actual[..chunk.length].iter().zip(&mut chunk.expected[..chunk.length]);
    for (actual, expected) in numbers {
        if pair.is_flushed(*actual, *expected) {
            *expected = *actual;
            flushed += 1;
        }
    }
    flushed
}

#[inline(always)]
fn places_of_one_type(
    element: Element,
    actual: &[u8],
    expected: &[u8],
    length: usize,
    chunk: &mut Chunk,
) {
    element.places(actual, &mut chunk.places[..length]);
    element.places(expected, &mut chunk.other_places[..length]);
    let places = chunk.places[..length].iter().zip(&chunk.other_places[..length]);
    for (distance, (actual, expected)) in chunk.distances[..length].iter_mut().zip(places) {
        *distance = actual.abs_diff(*expected);
    }
}

/// The expected number is first rounded to the type of the actual one, whose steps are counted.
#[inline(never)]
fn places_of_two_types(element: Element, length: usize, chunk: &mut Chunk) {
    let numbers = chunk.actual[..length].iter().zip(&chunk.expected[..length]);
    for (distance, (actual, expected)) in chunk.distances[..length].iter_mut().zip(numbers) {
        *distance = element.place_of(*actual).abs_diff(element.place_of(*expected));
    }
}

/// A reference in a wider type does not overflow where the device's type must: what rounds to
/// infinity in the narrower type is expected to be infinite.
#[inline(always)]
fn overflow(element: Element, expected: &mut [f64]) {
    if let Some(limit) = element.overflows_from() {
        for value in expected {
            if value.abs() >= limit {
                *value = f64::INFINITY.copysign(*value);
            }
        }
    }
}

#[inline(never)]
fn move_finite(parts: usize, length: usize, chunk: &mut Chunk) {
    let mut kept = 0;
    for element in (0..length).step_by(parts) {
        let finite = (element..element + parts)
            .all(|at| chunk.actual[at].is_finite() && chunk.expected[at].is_finite());
        if finite {
            for at in element..element + parts {
                chunk.actual.swap(kept, at);
                chunk.expected.swap(kept, at);
                chunk.distances.swap(kept, at);
                chunk.moved[kept] = u32::try_from(at).expect("a chunk is small");
                kept += 1;
            }
        }
    }
    chunk.length = kept;
}

/// Judges the elements of a chunk that are not finite on both sides, from the bytes, since their
/// widened values have been moved about.
#[inline(never)]
fn note_nonfinite(
    pair: &Pair<'_>,
    start: usize,
    length: usize,
    chunk: &Chunk,
    summary: &mut Summary,
) {
    let parts = pair.parts();
    let mut kept = chunk.moved[..chunk.length].iter().step_by(parts).peekable();
    for element in (0..length).step_by(parts) {
        if kept.peek().is_some_and(|place| **place as usize == element) {
            kept.next();
            continue;
        }
        let numbers: [_; 2] =
            std::array::from_fn(|part| pair.number(start + element + part.min(parts - 1)));
        let index = ((start + element) / parts) as u64;
        let wrong = |(actual, expected): &(f64, f64)| !is_close(*actual, *expected, pair.tolerance);
        let nonfinite =
            |(actual, expected): &(f64, f64)| !actual.is_finite() || !expected.is_finite();
        if let Some(number) = numbers.iter().find(|number| wrong(number) && nonfinite(number)) {
            summary.nonfinite_mismatched += 1;
            let worst = Worst { index, actual: number.0, expected: number.1 };
            summary.worst_nonfinite.get_or_insert(worst);
        }
        if numbers.iter().any(wrong) {
            summary.mismatched += 1;
        }
        if numbers.iter().any(|(actual, expected)| expected.is_nan() && !actual.is_nan()) {
            summary.reference_undefined += 1;
        }
    }
}

#[inline(always)]
fn scan_real(pair: &Pair<'_>, start: usize, chunk: &Chunk, summary: &mut Summary) {
    let (actual, expected) = (&chunk.actual[..chunk.length], &chunk.expected[..chunk.length]);
    let pass = pass(actual, expected, pair.tolerance, pair.actual.element.smallest_normal());
    summary.finite += chunk.length as u64;
    summary.mismatched += pass.over;
    summary.sign_of_zero += pass.zero_signs;
    summary.flushed += pass.flushed;
    summary.squared += pass.squared;
    summary.add_moments(&pass.moments);
    summary.note_distance(pass.max_abs, pass.max_rel);
    let worse_abs = summary.worst_abs.is_none_or(|(distance, _)| pass.max_abs > distance);
    let worse_excess = summary.worst_excess.is_none_or(|(excess, _)| pass.max_excess > excess);
    if (worse_abs && pass.max_abs > 0.0) || (worse_excess && pass.max_excess > 0.0) {
        find_worst(pair, start, chunk, summary);
    }
}

/// Finds the place of what the vector pass has only seen the size of. Rare: a chunk comes here only
/// when it is worse than all before it.
#[inline(never)]
fn find_worst(pair: &Pair<'_>, start: usize, chunk: &Chunk, summary: &mut Summary) {
    for position in 0..chunk.length {
        let (actual, expected) = (chunk.actual[position], chunk.expected[position]);
        let distance = (actual - expected).abs();
        let excess = distance - pair.tolerance.allowed(expected);
        let index = (start + chunk.original(position)) as u64;
        summary.note_worst(distance, excess, Worst { index, actual, expected });
    }
}

#[inline(never)]
fn scan_complex(pair: &Pair<'_>, start: usize, chunk: &Chunk, summary: &mut Summary) {
    let (actual, expected) = (&chunk.actual[..chunk.length], &chunk.expected[..chunk.length]);
    let pass = pass(actual, expected, pair.tolerance, pair.actual.element.smallest_normal());
    summary.sign_of_zero += pass.zero_signs;
    summary.flushed += pass.flushed;
    summary.squared += pass.squared;
    summary.add_moments(&pass.moments);
    let (actual, _) = actual.as_chunks::<2>();
    let (expected, _) = expected.as_chunks::<2>();
    for (position, (a, e)) in actual.iter().zip(expected).enumerate() {
        let (real, imaginary) = ((a[0] - e[0]).abs(), (a[1] - e[1]).abs());
        let distance = real.hypot(imaginary);
        let modulus = e[0].hypot(e[1]);
        let excess = if modulus.is_finite() {
            distance - pair.tolerance.allowed(modulus)
        } else {
            scaled_excess(*a, *e, pair.tolerance)
        };
        summary.finite += 1;
        summary.mismatched += u64::from(excess > 0.0);
        summary.note_distance(distance, relative(*a, *e));
        let part = usize::from(imaginary > real);
        let index = ((start + chunk.original(position * 2)) / 2) as u64;
        summary.note_worst(distance, excess, Worst { index, actual: a[part], expected: e[part] });
    }
}

/// The excess of huge numbers, whose modulus is over the range though their parts are not: an
/// infinite allowance would let anything pass. A quarter of everything is within the range.
fn scaled_excess(a: [f64; 2], e: [f64; 2], tolerance: Tolerance) -> f64 {
    let quarter = Tolerance { rtol: tolerance.rtol, atol: tolerance.atol / 4.0 };
    let distance = (a[0] / 4.0 - e[0] / 4.0).hypot(a[1] / 4.0 - e[1] / 4.0);
    distance - quarter.allowed((e[0] / 4.0).hypot(e[1] / 4.0))
}

/// Distance over modulus, where that is defined.
fn relative(a: [f64; 2], e: [f64; 2]) -> Option<f64> {
    // Scaled only where it must be: small numbers would lose bits.
    let scale = if e[0].abs().max(e[1].abs()) > 1e300 { 0.25 } else { 1.0 };
    let distance = (a[0] * scale - e[0] * scale).hypot(a[1] * scale - e[1] * scale);
    let modulus = (e[0] * scale).hypot(e[1] * scale);
    (modulus > 0.0).then(|| distance / modulus)
}
