//! One pass over two slices of finite numbers that lie in the first-level cache, in independent
//! lanes so that the compiler makes vector code of it.
//!
//! Lanes are added up in a fixed order: the same slices give the same figures on every machine.

use protocol::Tolerance;

/// What one pass finds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pass {
    /// Pairs further apart than allowed.
    pub(super) over: u64,
    /// Largest `|a − e| − allowed`; positive exactly when `over` is.
    pub(super) max_excess: f64,
    /// Largest `|a − e|`.
    pub(super) max_abs: f64,
    /// Largest `|a − e| / |e|` where `e ≠ 0`; −1 when there is none.
    pub(super) max_rel: f64,
    /// Sum of `(a − e)²`.
    pub(super) squared: f64,
    /// Pairs of zeros of different signs.
    pub(super) zero_signs: u64,
    /// Pairs of a zero and a subnormal `e`.
    pub(super) flushed: u64,
    /// Mean, centred sums of squares and products, and ranges.
    pub(super) mean_a: f64,
    pub(super) mean_e: f64,
    pub(super) saa: f64,
    pub(super) see: f64,
    pub(super) sae: f64,
    pub(super) min_a: f64,
    pub(super) max_a: f64,
    pub(super) min_e: f64,
    pub(super) max_e: f64,
}

const LANES: usize = 8;

/// Whether all are finite, without stopping early.
#[inline(always)]
pub(super) fn all_finite(values: &[f64]) -> bool {
    let (groups, rest) = values.as_chunks::<LANES>();
    let mut lanes = [0.0f64; LANES];
    for group in groups {
        for (lane, value) in lanes.iter_mut().zip(group) {
            // 0·x is NaN for every non-finite x and ±0 for all others.
            *lane += value * 0.0;
        }
    }
    lanes.iter().chain(rest).all(|value| (value * 0.0) == 0.0)
}

/// Looks at all pairs. The slices are of one length, not empty, and finite. Magnitudes below
/// `smallest_normal` are subnormal.
#[inline(always)]
pub(super) fn pass(a: &[f64], e: &[f64], tolerance: Tolerance, smallest_normal: f64) -> Pass {
    let mut errors = Errors::new(tolerance, smallest_normal);
    errors.scan(a, e);
    let count = a.len() as f64;
    let mut pass = errors.total();
    pass.mean_a /= count;
    pass.mean_e /= count;
    centre(a, e, &mut pass);
    pass
}

/// Lanes of everything that needs no mean.
struct Errors {
    tolerance: Tolerance,
    smallest_normal: f64,
    flushed: [u64; LANES],
    over: [u64; LANES],
    zero_signs: [u64; LANES],
    max_excess: [f64; LANES],
    max_abs: [f64; LANES],
    max_rel: [f64; LANES],
    squared: [f64; LANES],
    sum_a: [f64; LANES],
    sum_e: [f64; LANES],
    min_a: [f64; LANES],
    max_a: [f64; LANES],
    min_e: [f64; LANES],
    max_e: [f64; LANES],
}

impl Errors {
    #[inline(always)]
    fn new(tolerance: Tolerance, smallest_normal: f64) -> Self {
        Self {
            tolerance,
            smallest_normal,
            flushed: [0; LANES],
            over: [0; LANES],
            zero_signs: [0; LANES],
            max_excess: [f64::NEG_INFINITY; LANES],
            max_abs: [0.0; LANES],
            max_rel: [-1.0; LANES],
            squared: [0.0; LANES],
            sum_a: [0.0; LANES],
            sum_e: [0.0; LANES],
            min_a: [f64::INFINITY; LANES],
            max_a: [f64::NEG_INFINITY; LANES],
            min_e: [f64::INFINITY; LANES],
            max_e: [f64::NEG_INFINITY; LANES],
        }
    }

    #[inline(always)]
    fn scan(&mut self, a: &[f64], e: &[f64]) {
        let (groups_a, rest_a) = a.as_chunks::<LANES>();
        let (groups_e, rest_e) = e.as_chunks::<LANES>();
        for (group_a, group_e) in groups_a.iter().zip(groups_e) {
            for lane in 0..LANES {
                self.one(lane, group_a[lane], group_e[lane]);
            }
        }
        for (lane, (a, e)) in rest_a.iter().zip(rest_e).enumerate() {
            self.one(lane, *a, *e);
        }
    }

    #[inline(always)]
    fn one(&mut self, lane: usize, a: f64, e: f64) {
        let distance = (a - e).abs();
        let excess = distance - self.tolerance.allowed(e);
        self.over[lane] += u64::from(excess > 0.0);
        self.max_excess[lane] = larger(self.max_excess[lane], excess);
        self.max_abs[lane] = larger(self.max_abs[lane], distance);
        let ratio = if e == 0.0 { -1.0 } else { distance / e.abs() };
        self.max_rel[lane] = larger(self.max_rel[lane], ratio);
        self.squared[lane] += distance * distance;
        self.sum_a[lane] += a;
        self.sum_e[lane] += e;
        self.min_a[lane] = smaller(self.min_a[lane], a);
        self.max_a[lane] = larger(self.max_a[lane], a);
        self.min_e[lane] = smaller(self.min_e[lane], e);
        self.max_e[lane] = larger(self.max_e[lane], e);
        // Zeros of different signs differ in the sign bit and in nothing else.
        let subnormal = (e != 0.0) & (e.abs() < self.smallest_normal);
        self.flushed[lane] += u64::from(subnormal & (a == 0.0));
        let opposite = a.to_bits() ^ e.to_bits() == 1 << 63;
        self.zero_signs[lane] += u64::from(opposite & (a == 0.0));
    }

    #[inline(always)]
    fn total(&self) -> Pass {
        Pass {
            over: self.over.iter().sum(),
            zero_signs: self.zero_signs.iter().sum(),
            flushed: self.flushed.iter().sum(),
            max_excess: self.max_excess.iter().copied().fold(f64::NEG_INFINITY, larger),
            max_abs: self.max_abs.iter().copied().fold(0.0, larger),
            max_rel: self.max_rel.iter().copied().fold(-1.0, larger),
            squared: self.squared.iter().sum(),
            mean_a: self.sum_a.iter().sum(),
            mean_e: self.sum_e.iter().sum(),
            saa: 0.0,
            see: 0.0,
            sae: 0.0,
            min_a: self.min_a.iter().copied().fold(f64::INFINITY, smaller),
            max_a: self.max_a.iter().copied().fold(f64::NEG_INFINITY, larger),
            min_e: self.min_e.iter().copied().fold(f64::INFINITY, smaller),
            max_e: self.max_e.iter().copied().fold(f64::NEG_INFINITY, larger),
        }
    }
}

/// Centred sums: a second pass over slices that are still in the cache, in exchange for correlation
/// that is right for values far from zero.
#[inline(always)]
fn centre(a: &[f64], e: &[f64], pass: &mut Pass) {
    let (mut saa, mut see, mut sae) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
    let (groups_a, rest_a) = a.as_chunks::<LANES>();
    let (groups_e, rest_e) = e.as_chunks::<LANES>();
    let mut one = |lane: usize, a: f64, e: f64| {
        let (a, e) = (a - pass.mean_a, e - pass.mean_e);
        saa[lane] += a * a;
        see[lane] += e * e;
        sae[lane] += a * e;
    };
    for (group_a, group_e) in groups_a.iter().zip(groups_e) {
        for lane in 0..LANES {
            one(lane, group_a[lane], group_e[lane]);
        }
    }
    for (lane, (a, e)) in rest_a.iter().zip(rest_e).enumerate() {
        one(lane, *a, *e);
    }
    pass.saa = saa.iter().sum();
    pass.see = see.iter().sum();
    pass.sae = sae.iter().sum();
}

/// One instruction, unlike `f64::max`, whose treatment of NaN is not needed here.
#[inline(always)]
fn larger(left: f64, right: f64) -> f64 {
    if right > left { right } else { left }
}

#[inline(always)]
fn smaller(left: f64, right: f64) -> f64 {
    if right < left { right } else { left }
}
