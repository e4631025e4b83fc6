//! Which sizes a dynamism case is executed at, from the declared bounds.
//!
//! Under-sampled bounds hide missing resizes and padding leaks: those show below the maximum, at
//! sizes around a tile, and when a large size is followed by a small one.

use std::collections::{BTreeMap, BTreeSet};

use protocol::worker_link::{DynamicDimension, ModelSpec};

/// Most sizes tried for one dimension inside its bounds.
const MAX_SIZES_INSIDE: usize = 16;

/// Sizes in the order of execution; the first is the one that is traced.
///
/// Each named dimension is varied alone while the others stay at their traced size; then all are
/// at their minimum and maximum together; then each is just outside its bounds.
#[must_use]
pub fn plan_sweep(
    model: &ModelSpec,
    dimensions: &[DynamicDimension],
) -> Vec<BTreeMap<String, u64>> {
    let traced: BTreeMap<String, u64> = dimensions
        .iter()
        .map(|dimension| (dimension.name.clone(), traced_size(model, dimension)))
        .collect();
    let mut sweep = vec![traced.clone()];
    let mut push = |sizes: BTreeMap<String, u64>| {
        if sweep.last() != Some(&sizes) {
            sweep.push(sizes);
        }
    };
    let with = |name: &str, size: u64| {
        let mut sizes = traced.clone();
        sizes.insert(name.to_owned(), size);
        sizes
    };
    for dimension in dimensions {
        for size in sizes_inside(dimension) {
            push(with(&dimension.name, size));
        }
        // Back to small: what a larger size left behind must not show.
        push(with(&dimension.name, dimension.min));
    }
    if dimensions.len() > 1 {
        let all = |size: fn(&DynamicDimension) -> u64| {
            dimensions.iter().map(|d| (d.name.clone(), size(d))).collect::<BTreeMap<_, _>>()
        };
        push(all(|d| d.max));
        push(all(|d| d.min));
        if let Some(size) = common_size(dimensions) {
            // Two equal sizes invite a compiler to take them for one.
            push(dimensions.iter().map(|d| (d.name.clone(), size)).collect());
        }
    }
    for dimension in dimensions {
        push(with(&dimension.name, dimension.max + 1));
        if dimension.min > 1 {
            push(with(&dimension.name, dimension.min - 1));
        }
    }
    sweep
}

/// Lengths of a prefill and of every step of one token after it up to the bound, and one beyond.
#[must_use]
pub fn plan_decoding(length: &DynamicDimension) -> Vec<BTreeMap<String, u64>> {
    let lengths = length.min..=length.max + 1;
    lengths.map(|size| BTreeMap::from([(length.name.clone(), size)])).collect()
}

/// The model's own size where it lies inside, else the middle. Tracing at the minimum specialises
/// needlessly in some models.
fn traced_size(model: &ModelSpec, dimension: &DynamicDimension) -> u64 {
    let own = match dimension.name.as_str() {
        "batch" => model.batch,
        "sequence" => model.sequence,
        _ => 0,
    };
    if (dimension.min..=dimension.max).contains(&own) { own } else { middle(dimension) }
}

/// A size that every dimension may have: the largest, which is seldom one that they start with.
fn common_size(dimensions: &[DynamicDimension]) -> Option<u64> {
    let min = dimensions.iter().map(|dimension| dimension.min).max()?;
    let max = dimensions.iter().map(|dimension| dimension.max).min()?;
    (min <= max).then_some(max)
}

fn middle(dimension: &DynamicDimension) -> u64 {
    dimension.min + (dimension.max - dimension.min) / 2
}

/// Minimum, minimum + 1, an odd one, powers of two and their neighbours, middle, maximum.
fn sizes_inside(dimension: &DynamicDimension) -> Vec<u64> {
    let (min, max) = (dimension.min, dimension.max);
    let mut sizes = BTreeSet::from([min, min + 1, middle(dimension) | 1, middle(dimension)]);
    let powers = (1..63).map(|exponent| 1_u64 << exponent).take_while(|power| *power <= max + 1);
    // The largest powers first: tiles are there, and the list is cut below.
    for power in powers.collect::<Vec<_>>().into_iter().rev() {
        if sizes.len() >= MAX_SIZES_INSIDE {
            break;
        }
        sizes.extend([power - 1, power, power + 1]);
    }
    sizes.insert(max);
    sizes.retain(|size| (min..=max).contains(size));
    sizes.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> ModelSpec {
        ModelSpec {
            source: "transformers".to_owned(),
            id: "LlamaForCausalLM".to_owned(),
            revision: None,
            checkpoint: None,
            size: "tiny".to_owned(),
            overrides: serde_json::Map::new(),
            batch: 2,
            sequence: 16,
        }
    }

    fn dimension(name: &str, min: u64, max: u64) -> DynamicDimension {
        DynamicDimension { name: name.to_owned(), min, max, inputs: BTreeMap::new() }
    }

    fn column(sweep: &[BTreeMap<String, u64>], name: &str) -> Vec<u64> {
        sweep.iter().map(|sizes| sizes[name]).collect()
    }

    #[test]
    fn one_dimension_is_tried_at_its_edges_around_powers_and_outside() {
        let sweep = plan_sweep(&model(), &[dimension("sequence", 2, 64)]);
        let sizes = column(&sweep, "sequence");
        assert_eq!(sizes[0], 16, "the model's own size is traced");
        for needed in [2, 3, 7, 8, 9, 15, 17, 31, 32, 33, 63, 64] {
            assert!(sizes.contains(&needed), "{needed} is not in {sizes:?}");
        }
        let largest = sizes.iter().position(|size| *size == 64).unwrap();
        assert_eq!(sizes[largest + 1], 2, "small again after the largest");
        assert_eq!(sizes[sizes.len() - 2..], [65, 1], "just outside, last");
        assert!(sizes.len() < 24, "{}", sizes.len());
    }

    #[test]
    fn a_narrow_or_single_bound_never_leaves_itself_but_at_the_end() {
        for (min, max) in [(1, 1), (1, 2), (7, 8), (4, 4)] {
            let sweep = plan_sweep(&model(), &[dimension("length", min, max)]);
            let sizes = column(&sweep, "length");
            let outside = if min > 1 { 2 } else { 1 };
            let inside = &sizes[..sizes.len() - outside];
            assert!(inside.iter().all(|s| (min..=max).contains(s)), "{sizes:?}");
            assert!(sizes[sizes.len() - outside..].iter().all(|s| !(min..=max).contains(s)));
        }
    }

    #[test]
    fn decoding_goes_token_by_token_to_the_bound_and_one_beyond() {
        let sweep = plan_decoding(&dimension("sequence", 3, 6));
        assert_eq!(column(&sweep, "sequence"), [3, 4, 5, 6, 7]);
    }

    #[test]
    fn two_dimensions_vary_alone_and_then_together() {
        let sweep = plan_sweep(&model(), &[dimension("batch", 1, 4), dimension("sequence", 2, 64)]);
        let pairs: Vec<_> = sweep.iter().map(|s| (s["batch"], s["sequence"])).collect();
        for needed in
            [(2, 16), (1, 16), (4, 16), (2, 64), (4, 64), (1, 2), (4, 4), (5, 16), (2, 65)]
        {
            assert!(pairs.contains(&needed), "{needed:?} is not in {pairs:?}");
        }
    }
}
