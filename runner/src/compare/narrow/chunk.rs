//! What is done with a chunk of [`narrow`](super) beside its figures.

use zerocopy::FromBytes as _;

use crate::compare::elements::Narrow;
use crate::compare::tensors::Pair;

/// Both sides of a chunk, as they are stored, and of as much of the one after it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stored<'a> {
    pub(super) actual: &'a [u8],
    pub(super) expected: &'a [u8],
    pub(super) next: (&'a [u8], &'a [u8]),
}

impl<'a> Stored<'a> {
    #[inline(always)]
    pub(super) fn of(pair: &Pair<'a>, start: usize, length: usize) -> Self {
        let next = length.min(pair.numbers() - start - length);
        Self {
            actual: pair.actual.part(start, length),
            expected: pair.expected.part(start, length),
            next: (
                pair.actual.part(start + length, next),
                pair.expected.part(start + length, next),
            ),
        }
    }
}

/// The numbers of a chunk: as they are stored where these are float32, else widened into `buffer`,
/// which has as many.
#[inline(always)]
pub(super) fn floats<'a>(element: Narrow, bytes: &'a [u8], buffer: &'a mut [f32]) -> &'a [f32] {
    // What begins at an odd place is copied.
    if element == Narrow::Float32
        && cfg!(target_endian = "little")
        && let Ok(numbers) = <[f32]>::ref_from_bytes(bytes)
    {
        return numbers;
    }
    element.widen(bytes, buffer);
    buffer
}

/// Asks for the bytes of the next chunk while this one is computed with: processors look ahead by
/// themselves, but not from one page to the next, and a chunk is as long as a page.
#[inline(always)]
pub(super) fn prefetch(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    for line in bytes.chunks(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        #[expect(unsafe_code, reason = "a hint, on which nothing but time depends")]
        // SAFETY: every x86-64 has it, and it reads nothing.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}

/// Zeros of the other sign, and zeros in place of subnormal numbers.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "a power of two that float32 has")]
pub(super) fn zero_pairs(actual: &[f32], expected: &[f32], smallest_normal: f64) -> (u64, u64) {
    let smallest_normal = smallest_normal as f32;
    let (mut signs, mut flushed): (u32, u32) = (0, 0);
    for (a, e) in actual.iter().zip(expected) {
        let is_zero = *a == 0.0;
        signs += u32::from(is_zero & (a.to_bits() ^ e.to_bits() == 1 << 31));
        flushed += u32::from(is_zero & (*e != 0.0) & (e.abs() < smallest_normal));
    }
    (u64::from(signs), u64::from(flushed))
}
