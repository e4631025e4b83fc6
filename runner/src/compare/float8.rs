//! The 8-bit floating-point types: what their codes mean, and the code nearest to a number.

use std::sync::LazyLock;

use super::elements::Element;

/// The value of every code. Of the types with 8 bits only; `float8_e4m3fn` stands for all others.
pub(super) fn values(element: Element) -> &'static [f64; 256] {
    static E4M3FN: LazyLock<[f64; 256]> = LazyLock::new(|| byte_table(3, 7, Special::NanOnly));
    static E5M2: LazyLock<[f64; 256]> = LazyLock::new(|| byte_table(2, 15, Special::Ieee));
    static E4M3FNUZ: LazyLock<[f64; 256]> = LazyLock::new(|| byte_table(3, 8, Special::Fnuz));
    static E5M2FNUZ: LazyLock<[f64; 256]> = LazyLock::new(|| byte_table(2, 16, Special::Fnuz));
    static E8M0FNU: LazyLock<[f64; 256]> = LazyLock::new(scale_table);
    if element == Element::Float8E5m2 {
        &E5M2
    } else if element == Element::Float8E4m3fnuz {
        &E4M3FNUZ
    } else if element == Element::Float8E5m2fnuz {
        &E5M2FNUZ
    } else if element == Element::Float8E8m0fnu {
        &E8M0FNU
    } else {
        &E4M3FN
    }
}

/// The place, counted from zero, of the finite number nearest to `value`, ties to the even code.
pub(super) fn place_of(element: Element, value: f64) -> i64 {
    let table = values(element);
    let magnitude = value.abs();
    let codes = if element == Element::Float8E8m0fnu { 255 } else { 128 };
    let finite = table[..codes].iter().take_while(|value| value.is_finite()).count();
    let above = table[..finite].partition_point(|value| *value < magnitude);
    let code = if above == 0 {
        0
    } else if above == finite {
        finite - 1
    } else {
        let (low, high) = (magnitude - table[above - 1], table[above] - magnitude);
        if low < high || (low == high && above % 2 == 1) { above - 1 } else { above }
    };
    let place = i64::try_from(code).expect("a code fits a byte");
    if value < 0.0 { -place } else { place }
}

/// What the codes at the end of an 8-bit float's range mean.
#[derive(Clone, Copy, PartialEq)]
enum Special {
    /// The top exponent holds infinity and NaN.
    Ieee,
    /// Only the very last code of each sign is NaN; there is no infinity.
    NanOnly,
    /// Only the code of the negative zero is NaN; there is no infinity and no negative zero.
    Fnuz,
}

fn byte_table(mantissa_bits: u32, bias: i32, special: Special) -> [f64; 256] {
    std::array::from_fn(|code| {
        let code = u32::try_from(code).expect("below 256");
        let mantissa = code & ((1 << mantissa_bits) - 1);
        let exponent = (code & 0x7f) >> mantissa_bits;
        let top = 0x7f >> mantissa_bits;
        if (special == Special::Fnuz && code == 0x80)
            || (special == Special::NanOnly && code & 0x7f == 0x7f)
            || (special == Special::Ieee && exponent == top && mantissa != 0)
        {
            return f64::NAN;
        }
        let (lead, power) = if exponent == 0 { (0, 1) } else { (1 << mantissa_bits, exponent) };
        let power = i32::try_from(power).expect("below 128") - bias;
        let scale = 2f64.powi(power - i32::try_from(mantissa_bits).expect("at most 3"));
        let magnitude = if special == Special::Ieee && exponent == top {
            f64::INFINITY
        } else {
            f64::from(lead + mantissa) * scale
        };
        if code & 0x80 == 0 { magnitude } else { -magnitude }
    })
}

fn scale_table() -> [f64; 256] {
    std::array::from_fn(|code| {
        if code == 255 { f64::NAN } else { 2f64.powi(i32::try_from(code).expect("small") - 127) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn float8_codes_widen_to_the_published_values() {
        for (element, code, value) in [
            (Element::Float8E4m3fn, 0x7e, 448.0),
            (Element::Float8E4m3fn, 0x01, 2f64.powi(-9)),
            (Element::Float8E4m3fn, 0x38, 1.0),
            (Element::Float8E4m3fn, 0x1d, 0.101_562_5),
            (Element::Float8E5m2, 0x7b, 57_344.0),
            (Element::Float8E5m2, 0x7c, f64::INFINITY),
            (Element::Float8E5m2, 0xfc, f64::NEG_INFINITY),
            (Element::Float8E5m2, 0x01, 2f64.powi(-16)),
            (Element::Float8E4m3fnuz, 0x7f, 240.0),
            (Element::Float8E5m2fnuz, 0x7f, 57_344.0),
            (Element::Float8E8m0fnu, 0x7f, 1.0),
        ] {
            let mut out = [0.0];
            element.widen(&[code], &mut out);
            assert_eq!(out[0], value, "{element:?} {code:#x}");
        }
        for (element, code) in [
            (Element::Float8E4m3fn, 0x7f),
            (Element::Float8E4m3fn, 0xff),
            (Element::Float8E5m2, 0x7d),
            (Element::Float8E4m3fnuz, 0x80),
            (Element::Float8E8m0fnu, 0xff),
        ] {
            let mut out = [0.0];
            element.widen(&[code], &mut out);
            assert!(out[0].is_nan(), "{element:?} {code:#x}");
        }
    }
}
