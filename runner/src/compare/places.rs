//! The place of a number on the line of representable numbers, for distances in units in the last
//! place. Both zeros are at 0; neighbours differ by 1.

use super::elements::{Element, Narrow, each};
use super::float8;

impl Element {
    /// Places on the line of representable numbers, one per element of `out`. Both zeros are at 0;
    /// neighbours differ by 1. Meaningless for NaN and for integers, which have no such line here.
    #[inline(always)]
    pub(super) fn places(self, bytes: &[u8], out: &mut [i64]) {
        match self {
            Self::Float64 => each(bytes, out, |b| place_64(u64::from_le_bytes(b))),
            Self::Float32 => each(bytes, out, |b| place_32(u32::from_le_bytes(b))),
            Self::Bfloat16 | Self::Float16 => {
                each(bytes, out, |b| i64::from(signed_16(u16::from_le_bytes(b))));
            }
            Self::Float8E4m3fn | Self::Float8E5m2 | Self::Float8E4m3fnuz | Self::Float8E5m2fnuz => {
                each(bytes, out, |[b]: [u8; 1]| place_8(b))
            }
            Self::Float8E8m0fnu => each(bytes, out, |[b]: [u8; 1]| i64::from(b)),
            Self::Int64
            | Self::Int32
            | Self::Int16
            | Self::Int8
            | Self::Uint64
            | Self::Uint32
            | Self::Uint16
            | Self::Uint8
            | Self::Bool => out.fill(0),
        }
    }

    /// The place of the number of this type nearest to `value`, ties to even.
    #[expect(clippy::cast_possible_truncation, reason = "rounding to the narrower type is meant")]
    pub(super) fn place_of(self, value: f64) -> i64 {
        match self {
            Self::Float64 => place_64(value.to_bits()),
            Self::Float32 => place_32((value as f32).to_bits()),
            Self::Bfloat16 => place_narrow(value, 7, -126),
            Self::Float16 => place_narrow(value, 10, -14),
            Self::Float8E4m3fn
            | Self::Float8E5m2
            | Self::Float8E4m3fnuz
            | Self::Float8E5m2fnuz
            | Self::Float8E8m0fnu => float8::place_of(self, value),
            Self::Int64
            | Self::Int32
            | Self::Int16
            | Self::Int8
            | Self::Uint64
            | Self::Uint32
            | Self::Uint16
            | Self::Uint8
            | Self::Bool => 0,
        }
    }
}

impl Narrow {
    /// Steps between two numbers of this type.
    #[inline(always)]
    pub(super) fn distances(self, actual: &[u8], expected: &[u8], out: &mut [u32]) {
        match self {
            Self::Float32 => steps(actual, expected, out, |b| signed(u32::from_le_bytes(b))),
            Self::Bfloat16 | Self::Float16 => {
                steps(actual, expected, out, |b| signed_16(u16::from_le_bytes(b)));
            }
        }
    }
}

#[inline(always)]
fn steps<const SIZE: usize>(
    actual: &[u8],
    expected: &[u8],
    out: &mut [u32],
    place: impl Fn([u8; SIZE]) -> i32,
) {
    let (actual, _) = actual.as_chunks::<SIZE>();
    let (expected, _) = expected.as_chunks::<SIZE>();
    for (out, (actual, expected)) in out.iter_mut().zip(actual.iter().zip(expected)) {
        *out = place(*actual).abs_diff(place(*expected));
    }
}

/// A sign and a magnitude as a number.
#[inline(always)]
fn signed(bits: u32) -> i32 {
    let magnitude = (bits & (u32::MAX >> 1)).cast_signed();
    if bits.cast_signed() < 0 { -magnitude } else { magnitude }
}

#[inline(always)]
fn signed_16(bits: u16) -> i32 {
    signed(u32::from(bits) << 16) >> 16
}

#[inline(always)]
fn place_64(bits: u64) -> i64 {
    let magnitude = (bits & (u64::MAX >> 1)).cast_signed();
    if bits.cast_signed() < 0 { -magnitude } else { magnitude }
}

#[inline(always)]
fn place_32(bits: u32) -> i64 {
    i64::from(signed(bits))
}

/// Rounds a finite number to a type with so many bits of mantissa and this smallest exponent, ties
/// to even, in one rounding: by way of `f32`, as the `half` crate goes, there would be two.
#[inline(always)]
fn place_narrow(value: f64, mantissa_bits: u32, smallest_exponent: i64) -> i64 {
    if !value.is_finite() {
        return 0;
    }
    let exponent = ((value.to_bits() >> 52) & 0x7ff).cast_signed() - 1023;
    let exponent = exponent.max(smallest_exponent);
    let shift = i64::from(mantissa_bits) - exponent;
    let steps_per_unit = f64::from_bits(((shift + 1023) << 52).cast_unsigned());
    #[expect(clippy::cast_possible_truncation, reason = "at most two to the bits of mantissa + 1")]
    let steps = (value.abs() * steps_per_unit).round_ties_even() as i64;
    let place = ((exponent - smallest_exponent) << mantissa_bits) + steps;
    if value < 0.0 { -place } else { place }
}

#[inline(always)]
fn place_8(bits: u8) -> i64 {
    let magnitude = i64::from(bits & 0x7f);
    if bits & 0x80 == 0 { magnitude } else { -magnitude }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;

    #[test]
    fn a_stored_number_and_its_widened_value_have_the_same_place() {
        for element in [
            Element::Bfloat16,
            Element::Float16,
            Element::Float8E4m3fn,
            Element::Float8E5m2,
            Element::Float8E4m3fnuz,
            Element::Float8E5m2fnuz,
        ] {
            let codes = 1u32 << (8 * element.size());
            for code in 0..codes {
                let bytes = &code.to_le_bytes()[..element.size()];
                let (mut value, mut place) = ([0.0], [0]);
                element.widen(bytes, &mut value);
                element.places(bytes, &mut place);
                if value[0].is_finite() {
                    assert_eq!(element.place_of(value[0]), place[0], "{element:?} {code:#x}");
                }
            }
        }
    }

    #[test]
    fn what_overflows_is_what_rounds_to_infinity() {
        for (element, infinity) in [
            (Element::Float32, i64::from(f32::INFINITY.to_bits())),
            (Element::Bfloat16, i64::from(bf16::INFINITY.to_bits())),
            (Element::Float16, i64::from(f16::INFINITY.to_bits())),
        ] {
            let from = element.overflows_from().unwrap();
            assert_eq!(element.place_of(from), infinity, "{element:?}");
            assert_eq!(element.place_of(from.next_down()), infinity - 1, "{element:?}");
        }
    }

    #[test]
    fn numbers_between_two_halves_round_to_the_nearest_and_ties_to_even() {
        for bits in [0x0000u16, 0x0001, 0x03ff, 0x0400, 0x3c00, 0x3c01, 0x7bfe] {
            let (low, high) = (f16::from_bits(bits).to_f64(), f16::from_bits(bits + 1).to_f64());
            let middle = f64::midpoint(low, high);
            let (place, even) = (i64::from(bits), i64::from(bits + bits % 2));
            assert_eq!(Element::Float16.place_of(middle), even);
            assert_eq!(Element::Float16.place_of(middle.next_down()), place);
            assert_eq!(Element::Float16.place_of(-middle.next_up()), -(place + 1));
        }
    }
}
