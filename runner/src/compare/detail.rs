//! What the figures of a comparison leave out: how the errors are distributed, which elements are
//! worst, and what tolerance they would take. For a person to read; it decides nothing.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use protocol::{Number, Tolerance};
use serde::Serialize;

use super::elements::Kind;
use super::error::CompareError;
use super::figures::multi_index;
use super::file::OutputFile;
use super::leaf::Leaf;
use super::rules::is_close;
use super::tensors::Pair;

/// One tensor of a comparison, element by element.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Detail {
    /// Place in the output tree.
    pub path: String,
    /// Elements on each side.
    pub elements: u64,
    /// Elements that are not close.
    pub mismatched: u64,
    /// Of those, the ones that are NaN or infinite on one side only, or of another sign.
    pub nonfinite: u64,
    /// Elements with no error at all.
    pub equal: u64,
    /// How many errors lie in `10^k ≤ error < 10^(k+1)`, by `k`.
    pub decades: BTreeMap<i32, u64>,
    /// The worst elements, the worst first.
    pub worst: Vec<Element>,
    /// Least `atol` with which every finite element is close, `rtol` as it is.
    pub needed_atol: Number,
    /// Least `rtol` with which every finite element is close, `atol` as it is; infinite where an
    /// expected zero is too far off.
    pub needed_rtol: Number,
}

/// One element.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Element {
    /// Its place.
    pub index: Vec<u64>,
    /// The device's value; of a complex number, the real part.
    pub actual: Number,
    /// The expected value, as the comparison took it.
    pub expected: Number,
    /// The value in float64, where it was stored so.
    pub float64: Option<Number>,
    /// |actual − expected|.
    pub error: Number,
    /// What the tolerance allows there.
    pub allowed: Number,
    /// Representable numbers between the two; nothing for integers, complex and non-finite ones.
    pub ulps: Option<u64>,
    /// What it is ranked by: the error as a multiple of what is allowed.
    #[serde(skip)]
    excess: f64,
}

/// Looks at every tensor that both files have with one shape. `tolerances` is by path; a tensor
/// without one is left out. At most `most` elements are kept of each. `wide` is the file of the same
/// outputs in float64, where there is one.
pub fn details(
    actual: &Path,
    expected: &Path,
    wide: Option<&Path>,
    tolerances: &HashMap<String, Tolerance>,
    most: usize,
) -> Result<Vec<Detail>, CompareError> {
    let (actual, expected) = (OutputFile::open(actual)?, OutputFile::open(expected)?);
    let wide = wide.map(OutputFile::open).transpose()?;
    let others: HashMap<&str, &Leaf> =
        expected.leaves().iter().map(|leaf| (leaf.path.as_str(), leaf)).collect();
    let mut details = Vec::new();
    for leaf in actual.leaves().iter().filter(|leaf| leaf.is_tensor()) {
        let other = others.get(leaf.path.as_str()).filter(|other| other.is_tensor());
        let (Some(other), Some(tolerance)) = (other, tolerances.get(&leaf.path)) else { continue };
        let (Some(data_type), Some(other_type)) = (leaf.data_type(), other.data_type()) else {
            continue;
        };
        if leaf.shape != other.shape || data_type.complex != other_type.complex {
            continue;
        }
        let pair = Pair {
            actual: actual.side(leaf)?,
            expected: expected.side(other)?,
            complex: data_type.complex,
            tolerance: *tolerance,
            flushes: false,
        };
        let mut found = detail(&leaf.path, &pair, &leaf.shape, most);
        if let Some(wide) = &wide {
            add_float64(&mut found, leaf, wide)?;
        }
        details.push(found);
    }
    Ok(details)
}

/// Fills in what the worst elements are in float64, where that file has a tensor of the same shape.
fn add_float64(found: &mut Detail, leaf: &Leaf, wide: &OutputFile) -> Result<(), CompareError> {
    let same = |other: &&Leaf| other.path == leaf.path && other.shape == leaf.shape;
    let Some(other) = wide.leaves().iter().find(same).filter(|other| other.is_tensor()) else {
        return Ok(());
    };
    let Some(data_type) = other.data_type() else { return Ok(()) };
    let side = wide.side(other)?;
    let parts = 1 + usize::from(data_type.complex);
    for element in &mut found.worst {
        let at = flat_index(&element.index, &leaf.shape);
        element.float64 = Some(Number(side.number(at * parts)));
    }
    Ok(())
}

/// The inverse of [`multi_index`].
fn flat_index(index: &[u64], shape: &[u64]) -> usize {
    let flat = index.iter().zip(shape).fold(0, |flat, (at, size)| flat * size + at);
    usize::try_from(flat).expect("it is in memory")
}

fn detail(path: &str, pair: &Pair<'_>, shape: &[u64], most: usize) -> Detail {
    let elements = pair.numbers() / pair.parts();
    let mut detail = Detail {
        path: path.to_owned(),
        elements: elements as u64,
        mismatched: 0,
        nonfinite: 0,
        equal: 0,
        decades: BTreeMap::new(),
        worst: Vec::new(),
        needed_atol: Number(0.0),
        needed_rtol: Number(0.0),
    };
    for at in 0..elements {
        let element = element(pair, at);
        let Tolerance { rtol, atol } = pair.tolerance;
        let (error, scale) = (element.error.0, magnitude(pair, at));
        if error == 0.0 {
            detail.equal += 1;
            continue;
        }
        if error.is_finite() {
            *detail.decades.entry(decade(error)).or_default() += 1;
            let needed = (error - rtol * scale).max(detail.needed_atol.0);
            detail.needed_atol = Number(needed);
            // Zero over zero is no number, and `max` passes over it.
            let needed = ((error - atol).max(0.0) / scale).max(detail.needed_rtol.0);
            detail.needed_rtol = Number(needed);
        } else {
            detail.nonfinite += 1;
        }
        detail.mismatched += u64::from(element.excess > 1.0);
        keep_worst(&mut detail.worst, element, at, shape, most);
    }
    detail
}

/// Keeps `worst` in order and no longer than `most`; of equals, the first stays first.
fn keep_worst(worst: &mut Vec<Element>, element: Element, at: usize, shape: &[u64], most: usize) {
    let place = worst.partition_point(|other| other.excess >= element.excess);
    if place < most {
        worst.insert(place, Element { index: multi_index(at as u64, shape), ..element });
        worst.truncate(most);
    }
}

/// |expected|, of a complex number its absolute value.
fn magnitude(pair: &Pair<'_>, at: usize) -> f64 {
    if pair.complex {
        return pair.number(2 * at).1.hypot(pair.number(2 * at + 1).1);
    }
    pair.number(at).1.abs()
}

fn element(pair: &Pair<'_>, at: usize) -> Element {
    let (actual, expected) = pair.number(at * pair.parts());
    let (error, close) = if pair.complex {
        let (imaginary, other) = pair.number(2 * at + 1);
        let allowed = pair.tolerance.allowed(magnitude(pair, at));
        let error = error_of(actual, expected).hypot(error_of(imaginary, other));
        (error, error <= allowed)
    } else if let Some(error) = integer_error(pair, at) {
        (error, error == 0.0)
    } else {
        (error_of(actual, expected), is_close(actual, expected, pair.tolerance))
    };
    let allowed = pair.tolerance.allowed(magnitude(pair, at));
    let excess = if error.is_nan() { f64::INFINITY } else { error / allowed };
    // The border itself is close, whatever rounding makes of the quotient.
    let excess = if close { excess.min(1.0) } else { excess.max(1.0 + f64::EPSILON) };
    let wide = pair.expected.element.name() == "float64";
    Element {
        index: Vec::new(),
        actual: Number(actual),
        expected: Number(expected),
        float64: wide.then(|| Number(pair.expected.number(at * pair.parts()))),
        error: Number(error),
        allowed: Number(allowed),
        ulps: ulps(pair, at, error),
        excess,
    }
}

/// Zero for what counts as equal, NaN for what no number can tell.
fn error_of(actual: f64, expected: f64) -> f64 {
    if actual == expected || (actual.is_nan() && expected.is_nan()) {
        return 0.0;
    }
    if actual.is_finite() && expected.is_finite() { (actual - expected).abs() } else { f64::NAN }
}

#[expect(clippy::cast_precision_loss, reason = "a figure")]
fn integer_error(pair: &Pair<'_>, at: usize) -> Option<f64> {
    let actual = pair.actual.element.integer(pair.actual.part(at, 1))?;
    let expected = pair.expected.element.integer(pair.expected.part(at, 1))?;
    Some(actual.abs_diff(expected) as f64)
}

fn ulps(pair: &Pair<'_>, at: usize, error: f64) -> Option<u64> {
    let element = pair.actual.element;
    if pair.complex || element.kind() != Kind::Float || !error.is_finite() {
        return None;
    }
    let mut place = [0];
    element.places(pair.actual.part(at, 1), &mut place);
    Some(place[0].abs_diff(element.place_of(pair.number(at).1)))
}

#[expect(clippy::cast_possible_truncation, reason = "at most some hundreds")]
fn decade(error: f64) -> i32 {
    error.log10().floor() as i32
}

#[cfg(test)]
mod tests {
    use super::super::elements::Element as Type;
    use super::super::tensors::Side;
    use super::*;

    fn float32(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn pair<'a>(actual: &'a [u8], expected: &'a [u8]) -> Pair<'a> {
        Pair {
            actual: Side { element: Type::Float32, bytes: actual, map: None },
            expected: Side { element: Type::Float32, bytes: expected, map: None },
            complex: false,
            tolerance: Tolerance { rtol: 0.1, atol: 0.01 },
            flushes: false,
        }
    }

    #[test]
    fn the_worst_elements_come_first_with_what_they_would_need() {
        let actual = float32(&[1.0, 2.5, f32::NAN, 0.5, 4.0, 0.0]);
        let expected = float32(&[1.0, 2.0, 1.0, 0.0, 4.000_000_5, -0.0]);
        let detail = detail("x", &pair(&actual, &expected), &[2, 3], 3);
        assert_eq!((detail.elements, detail.mismatched, detail.nonfinite), (6, 3, 1));
        assert_eq!(detail.equal, 2, "both zeros are one number");
        let worst: Vec<_> = detail.worst.iter().map(|e| (e.index.clone(), e.ulps)).collect();
        let half = u64::from(0.5f32.to_bits());
        assert_eq!(worst[0], (vec![0, 2], None));
        assert_eq!(worst[1], (vec![1, 0], Some(half)));
        assert_eq!(worst[2].0, vec![0, 1]);
        assert_eq!(detail.decades, BTreeMap::from([(-7, 1), (-1, 2)]));
        assert_eq!(detail.needed_atol, Number(0.5));
        assert_eq!(detail.needed_rtol, Number(f64::INFINITY), "no part of zero is enough");
    }

    #[test]
    fn the_needed_tolerance_is_enough_and_less_is_not() {
        let (actual, expected) = (float32(&[1.25, -3.0]), float32(&[1.0, -2.0]));
        let asked = detail("x", &pair(&actual, &expected), &[2], 1);
        for (factor, close) in [(1.0, 0), (0.999, 1)] {
            let tolerance = Tolerance { atol: asked.needed_atol.0 * factor, rtol: 0.1 };
            let again = Pair { tolerance, ..pair(&actual, &expected) };
            assert_eq!(detail("x", &again, &[2], 1).mismatched, close);
            let tolerance = Tolerance { rtol: asked.needed_rtol.0 * factor, atol: 0.01 };
            let again = Pair { tolerance, ..pair(&actual, &expected) };
            assert_eq!(detail("x", &again, &[2], 1).mismatched, close);
        }
    }
}
