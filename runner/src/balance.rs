//! Shards of about the same length, by how long cases took before. A case without a duration goes
//! where its hash says, as all cases do without `--balance`.
//!
//! Pure. Every shard of a run plans for itself, so the answer is decided by the plan and the
//! durations alone, and has a hash by which shards that were planned from different durations are
//! told apart before one case is executed twice and another never.

use std::collections::{BTreeMap, HashMap};

use protocol::CaseKey;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::plan::{PlannedCase, Shard};

/// Name of the label under which a run keeps the hash of its balance.
pub const LABEL: &str = "balance";

/// Which shard holds which case, where that was decided by durations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balance {
    /// How many shards there are.
    total: u32,
    /// The shard of each case with a duration, from 1.
    shards: BTreeMap<CaseKey, u32>,
}

/// A balance, and what people should know of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Balanced {
    /// Which shard holds which case.
    pub balance: Balance,
    /// Cases that go by their hash, because no duration is known of them.
    pub by_hash: Vec<CaseKey>,
    /// Known seconds of each shard.
    pub seconds: Vec<f64>,
}

impl Balance {
    /// Whether the shard holds the case.
    #[must_use]
    pub fn holds(&self, shard: Shard, case: &CaseKey) -> bool {
        match self.shards.get(case) {
            Some(index) => *index == shard.index,
            None => shard.holds(case),
        }
    }

    /// What shards of one run must agree in.
    #[must_use]
    pub fn hash(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(format!("{}\n", self.total));
        for (case, shard) in &self.shards {
            hash.update(format!("{shard} {case}\n"));
        }
        let mut text = hex::encode(hash.finalize());
        text.truncate(16);
        text
    }
}

/// Deals out the cases, the longest first, each to the shard that has the least to do so far.
#[must_use]
pub fn balance(cases: &[PlannedCase], seconds: &HashMap<CaseKey, f64>, total: u32) -> Balanced {
    let mut known: Vec<(f64, &CaseKey)> = Vec::new();
    let mut by_hash = Vec::new();
    for case in cases {
        match seconds.get(&case.key).filter(|seconds| seconds.is_finite() && **seconds >= 0.0) {
            Some(seconds) => known.push((*seconds, &case.key)),
            None => by_hash.push(case.key.clone()),
        }
    }
    known.sort_by(|one, two| two.0.total_cmp(&one.0).then_with(|| one.1.cmp(two.1)));
    let mut load = vec![(0.0_f64, 0_u64); total.max(1) as usize];
    let mut shards = BTreeMap::new();
    for (seconds, case) in known {
        // Of two with as much to do, the one with fewer cases: cases may take no time at all.
        let least = (0..load.len())
            .min_by(|a, b| load[*a].0.total_cmp(&load[*b].0).then(load[*a].1.cmp(&load[*b].1)))
            .unwrap_or(0);
        load[least].0 += seconds;
        load[least].1 += 1;
        shards.insert(case.clone(), u32::try_from(least + 1).unwrap_or(u32::MAX));
    }
    let seconds = load.into_iter().map(|(seconds, _)| seconds).collect();
    Balanced { balance: Balance { total, shards }, by_hash, seconds }
}

#[cfg(test)]
mod tests {
    use protocol::worker_link::Task;

    use super::*;

    fn cases(count: usize) -> Vec<PlannedCase> {
        let case = |n: usize| {
            let key = format!("operators/opinfo:op{n}#0/float32.eager.forward").parse().unwrap();
            let entry = format!("op{n}");
            PlannedCase::new(key, Task::Operator { entry, sample: 0, error_input: false })
        };
        (0..count).map(case).collect()
    }

    fn shards(total: u32) -> impl Iterator<Item = Shard> {
        (1..=total).map(move |index| Shard { index, total })
    }

    #[test]
    fn every_case_is_in_one_shard_and_shards_take_as_long() {
        let cases = cases(200);
        // One takes as long as all the others; the rest differ by far.
        let seconds: HashMap<CaseKey, f64> = cases
            .iter()
            .enumerate()
            .map(|(n, case)| (case.key.clone(), if n == 7 { 100.0 } else { (n % 10) as f64 }))
            .collect();
        let balanced = balance(&cases, &seconds, 4);
        assert!(balanced.by_hash.is_empty());
        for case in &cases {
            let holders = shards(4).filter(|s| balanced.balance.holds(*s, &case.key)).count();
            assert_eq!(holders, 1, "{}", case.key);
        }
        let total: f64 = seconds.values().sum();
        let longest = balanced.seconds.iter().copied().fold(0.0, f64::max);
        assert!(longest <= total / 4.0 + 9.0, "{:?} of {total}", balanced.seconds);
        let mut by_hash = [0.0; 4];
        for (case, seconds) in &seconds {
            let shard = shards(4).position(|shard| shard.holds(case)).unwrap();
            by_hash[shard] += seconds;
        }
        assert!(longest < by_hash.iter().copied().fold(0.0, f64::max), "better than by hash");
    }

    #[test]
    fn a_case_without_a_duration_goes_by_its_hash_and_is_named() {
        let cases = cases(40);
        let seconds = cases[..30].iter().map(|case| (case.key.clone(), 1.0)).collect();
        let balanced = balance(&cases, &seconds, 3);
        assert_eq!(balanced.by_hash, cases[30..].iter().map(|c| c.key.clone()).collect::<Vec<_>>());
        for case in &cases[30..] {
            for shard in shards(3) {
                assert_eq!(balanced.balance.holds(shard, &case.key), shard.holds(&case.key));
            }
        }
        assert_eq!(balanced.seconds, [10.0, 10.0, 10.0]);
    }

    #[test]
    fn the_order_of_the_plan_changes_nothing_and_other_durations_are_told_apart() {
        let mut cases = cases(50);
        let seconds = |scale: f64| -> HashMap<CaseKey, f64> {
            let of = |(n, case): (usize, &PlannedCase)| (case.key.clone(), n as f64 * scale % 7.0);
            self::cases(50).iter().enumerate().map(of).collect()
        };
        let first = balance(&cases, &seconds(1.0), 4).balance;
        cases.reverse();
        assert_eq!(balance(&cases, &seconds(1.0), 4).balance.hash(), first.hash());
        assert_ne!(balance(&cases, &seconds(1.7), 4).balance.hash(), first.hash());
        assert_ne!(balance(&cases, &seconds(1.0), 5).balance.hash(), first.hash());
    }
}
