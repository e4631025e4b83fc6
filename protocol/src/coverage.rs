//! Coverage under named definitions, computed from an inventory and from what runs have used.
//!
//! A number without its definition, numerator and denominator says nothing, so they travel
//! together, with every overload or operator that was counted. `docs/coverage.md` words each one.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::inventory::{Class, Inventory, Overload, operator_of};

words! {
    /// A way to count.
    Definition as "definition" {
        /// Overloads with a kernel of the backend, of all overloads.
        Registered = "registered",
        /// Operators with at least one such overload, of all operators.
        RegisteredOperators = "registered-operators",
        /// Overloads with a kernel of the backend or written in other operators, of all overloads.
        Reachable = "reachable",
        /// Overloads with a kernel of the backend, of those that have neither a structured delegate
        /// nor a composite kernel: nothing else can give them.
        OwnKernels = "own-kernels",
        /// Operators, views and implicit composites left out.
        Computing = "computing",
        /// The same, allocations and copies left out too.
        ComputingStrict = "computing-strict",
        /// Core ATen overloads that are reachable.
        CoreAten = "core-aten",
        /// Core ATen overloads with a kernel of the backend.
        CoreAtenNative = "core-aten-native",
        /// Overloads that a passing case of the operator suite dispatched, of those that some case
        /// dispatched or was stopped by.
        OpinfoExecuted = "opinfo-executed",
        /// Calls of Tier 1 models that go to reachable overloads, of all their calls.
        Tier1Calls = "tier1-calls",
    }
}

/// Operators that only make or move memory.
const ALLOCATIONS_AND_COPIES: &[&str] = &[
    "aten::_copy_from",
    "aten::_copy_from_and_resize",
    "aten::_to_copy",
    "aten::copy_",
    "aten::clone",
    "aten::empty",
    "aten::empty_like",
    "aten::empty_strided",
    "aten::full",
    "aten::full_like",
    "aten::new_empty",
    "aten::new_empty_strided",
    "aten::new_full",
    "aten::new_ones",
    "aten::new_zeros",
    "aten::ones",
    "aten::ones_like",
    "aten::resize_",
    "aten::set_",
    "aten::zeros",
    "aten::zeros_like",
];

/// What runs have used, as far as the definitions need it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// Overloads that cases of the operator suite dispatched or were stopped by, and whether a
    /// passing one was among them. Absent where no run was looked at.
    pub operator_suite: Option<BTreeMap<String, bool>>,
    /// Calls of Tier 1 models by overload. Absent where no run was looked at.
    pub tier1: Option<BTreeMap<String, u64>>,
}

/// One number with all that it is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// How it was counted.
    pub definition: Definition,
    /// `overloads`, `operators` or `calls`.
    pub unit: &'static str,
    /// What is covered.
    pub numerator: u64,
    /// Of how many.
    pub denominator: u64,
    /// Everything in the denominator, by name.
    pub items: Vec<Item>,
}

/// One overload or operator of a denominator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Item {
    /// `aten::add.Tensor`, or `aten::add` where operators are counted.
    pub name: String,
    /// Whether it is in the numerator.
    pub covered: bool,
    /// How much it counts: 1, or its calls.
    pub weight: u64,
    /// How the backend gets at it; absent for what the inventory does not know.
    pub class: Option<Class>,
}

impl Definition {
    /// What the definition counts, in one line.
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Registered => "overloads with a kernel of the backend, of all of ATen",
            Self::RegisteredOperators => "operators with such an overload, of all of ATen",
            Self::Reachable => "overloads with a kernel of the backend or a composite, of all",
            Self::OwnKernels => {
                "kernels of the backend, of overloads without structured delegate and composite"
            }
            Self::Computing => "operators with a kernel, views and implicit composites left out",
            Self::ComputingStrict => {
                "operators with a kernel, views, implicit composites, allocations and copies left out"
            }
            Self::CoreAten => "core ATen overloads with a kernel of the backend or a composite",
            Self::CoreAtenNative => "core ATen overloads with a kernel of the backend",
            Self::OpinfoExecuted => {
                "overloads dispatched by a passing operator case, of those any case reached"
            }
            Self::Tier1Calls => "calls of Tier 1 models to reachable overloads, of all calls",
        }
    }

    /// Counts; nothing where no run was looked at that the definition needs.
    #[must_use]
    pub fn count(self, inventory: &Inventory, usage: &Usage) -> Option<Coverage> {
        let key = inventory.dispatch_key.as_str();
        let native = |o: &Overload| o.class(key) == Class::Native;
        let reachable = |o: &Overload| o.class(key) != Class::Missing;
        let core = |o: &Overload| o.tags.iter().any(|tag| tag == "core");
        let implicit = |o: &Overload| o.kernels.iter().any(|k| k == "CompositeImplicitAutograd");
        let computes = |o: &Overload| !o.view && !implicit(o);
        let moves = |o: &Overload| ALLOCATIONS_AND_COPIES.contains(&o.operator());
        let all = |_: &Overload| true;
        let coverage = match self {
            Self::Registered => self.overloads(inventory, all, native),
            Self::Reachable => self.overloads(inventory, all, reachable),
            Self::OwnKernels => self.overloads(
                inventory,
                |o| o.structured_delegate.is_empty() && !o.is_composite(),
                native,
            ),
            Self::CoreAten => self.overloads(inventory, core, reachable),
            Self::CoreAtenNative => self.overloads(inventory, core, native),
            Self::RegisteredOperators => self.operators(inventory, all, native),
            Self::Computing => self.operators(inventory, computes, native),
            Self::ComputingStrict => {
                self.operators(inventory, |o| computes(o) && !moves(o), native)
            }
            Self::OpinfoExecuted => {
                let reached = usage.operator_suite.as_ref()?;
                self.used(inventory, reached.iter().map(|(name, passed)| (name, 1, *passed)))
            }
            Self::Tier1Calls => {
                let classes = classes(inventory);
                let is_reachable =
                    |name: &str| classes.get(name).is_some_and(|class| *class != Class::Missing);
                let calls = usage.tier1.as_ref()?;
                self.used(inventory, calls.iter().map(|(n, calls)| (n, *calls, is_reachable(n))))
            }
        };
        Some(coverage)
    }

    fn overloads(
        self,
        inventory: &Inventory,
        counts: impl Fn(&Overload) -> bool,
        covered: impl Fn(&Overload) -> bool,
    ) -> Coverage {
        let items = aten(inventory).filter(|o| counts(o)).map(|o| Item {
            name: o.name.clone(),
            covered: covered(o),
            weight: 1,
            class: Some(o.class(&inventory.dispatch_key)),
        });
        self.sum("overloads", items.collect())
    }

    /// An operator is counted when one of its overloads is, and covered when one of those is.
    fn operators(
        self,
        inventory: &Inventory,
        counts: impl Fn(&Overload) -> bool,
        covered: impl Fn(&Overload) -> bool,
    ) -> Coverage {
        let mut operators: BTreeMap<&str, (bool, Class)> = BTreeMap::new();
        for overload in aten(inventory).filter(|o| counts(o)) {
            let class = overload.class(&inventory.dispatch_key);
            let operator = operators.entry(overload.operator()).or_insert((false, class));
            operator.0 |= covered(overload);
            operator.1 = operator.1.min(class);
        }
        let items = operators.into_iter().map(|(name, (covered, class))| Item {
            name: name.to_owned(),
            covered,
            weight: 1,
            class: Some(class),
        });
        self.sum("operators", items.collect())
    }

    fn used<'a>(
        self,
        inventory: &Inventory,
        used: impl Iterator<Item = (&'a String, u64, bool)>,
    ) -> Coverage {
        let classes = classes(inventory);
        let items = used.map(|(name, weight, covered)| Item {
            name: name.clone(),
            covered,
            weight,
            class: classes.get(name.as_str()).copied(),
        });
        let unit = if self == Self::Tier1Calls { "calls" } else { "overloads" };
        self.sum(unit, items.collect())
    }

    fn sum(self, unit: &'static str, items: Vec<Item>) -> Coverage {
        let weight = |all: bool| items.iter().filter(|i| all || i.covered).map(|i| i.weight).sum();
        let (numerator, denominator) = (weight(false), weight(true));
        Coverage { definition: self, unit, numerator, denominator, items }
    }
}

fn aten(inventory: &Inventory) -> impl Iterator<Item = &Overload> {
    inventory.overloads.iter().filter(|overload| overload.name.starts_with("aten::"))
}

fn classes(inventory: &Inventory) -> BTreeMap<&str, Class> {
    let class = |o: &Overload| o.class(&inventory.dispatch_key);
    inventory.overloads.iter().map(|o| (o.name.as_str(), class(o))).collect()
}

impl Usage {
    /// Adds one attempt of the operator suite.
    pub fn add_operator_case<'a>(
        &mut self,
        dispatched: impl IntoIterator<Item = &'a String>,
        blamed: Option<&str>,
        passed: bool,
        inventory: &Inventory,
    ) {
        let reached = self.operator_suite.get_or_insert_default();
        for name in dispatched {
            *reached.entry(name.clone()).or_default() |= passed;
        }
        let Some(blamed) = blamed else { return };
        // Backends name an operator, and not always its overload: then each of its overloads that
        // they lack may be meant, and the unnamed one stands for it.
        let known: BTreeSet<&str> =
            inventory.overloads.iter().map(|overload| overload.name.as_str()).collect();
        let name = if known.contains(blamed) { blamed } else { operator_of(blamed) };
        reached.entry(name.to_owned()).or_default();
    }

    /// Adds the calls of one Tier 1 model.
    pub fn add_model<'a>(&mut self, calls: impl IntoIterator<Item = (&'a String, &'a u64)>) {
        let sums = self.tier1.get_or_insert_default();
        for (name, calls) in calls {
            *sums.entry(name.clone()).or_default() += calls;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overload(name: &str, kernels: &[&str]) -> Overload {
        Overload {
            name: name.to_owned(),
            schema: String::new(),
            tags: vec![],
            view: false,
            structured_delegate: String::new(),
            kernels: kernels.iter().map(|&key| key.to_owned()).collect(),
            added: vec![],
        }
    }

    fn inventory() -> Inventory {
        let core = vec!["core".to_owned()];
        let delegate = "aten::add.out".to_owned();
        Inventory {
            dispatch_key: "PrivateUse1".to_owned(),
            overloads: vec![
                Overload {
                    tags: core.clone(),
                    structured_delegate: delegate,
                    ..overload("aten::add.Tensor", &["PrivateUse1", "CPU"])
                },
                overload("aten::add.out", &["PrivateUse1", "CPU"]),
                Overload { tags: core, ..overload("aten::relu", &["CompositeExplicitAutograd"]) },
                overload("aten::addmv", &["CPU"]),
                overload("aten::copy_", &["PrivateUse1"]),
                Overload { view: true, ..overload("aten::view", &["PrivateUse1"]) },
                overload("aten::matmul", &["CompositeImplicitAutograd", "PrivateUse1"]),
                overload("tpu::own", &["PrivateUse1"]),
            ],
        }
    }

    fn usage() -> Usage {
        let mut usage = Usage::default();
        let (add, relu) = ("aten::add.Tensor".to_owned(), "aten::relu".to_owned());
        usage.add_operator_case([&add], None, true, &inventory());
        usage.add_operator_case([&add, &relu], Some("aten::addmv"), false, &inventory());
        usage.add_model([(&add, &7), (&relu, &2)]);
        usage.add_model([(&add, &1), (&"aten::addmv".to_owned(), &5)]);
        usage
    }

    #[test]
    fn every_definition_counts_what_it_says() {
        for (definition, numerator, denominator, unit) in [
            (Definition::Registered, 5, 7, "overloads"),
            (Definition::RegisteredOperators, 4, 6, "operators"),
            (Definition::Reachable, 6, 7, "overloads"),
            // Without `add.Tensor` (delegate), `relu` and `matmul` (composite).
            (Definition::OwnKernels, 3, 4, "overloads"),
            // Without `view` and `matmul`: add and copy_ of add, relu, addmv, copy_.
            (Definition::Computing, 2, 4, "operators"),
            (Definition::ComputingStrict, 1, 3, "operators"),
            (Definition::CoreAten, 2, 2, "overloads"),
            (Definition::CoreAtenNative, 1, 2, "overloads"),
            (Definition::OpinfoExecuted, 1, 3, "overloads"),
            (Definition::Tier1Calls, 10, 15, "calls"),
        ] {
            let coverage = definition.count(&inventory(), &usage()).unwrap();
            let numbers = (coverage.numerator, coverage.denominator, coverage.unit);
            assert_eq!(numbers, (numerator, denominator, unit), "{definition}");
            let covered: u64 = coverage.items.iter().filter(|i| i.covered).map(|i| i.weight).sum();
            assert_eq!(covered, numerator, "{definition} can be listed");
        }
    }

    #[test]
    fn what_no_run_has_told_is_not_a_number() {
        let none = Usage::default();
        assert_eq!(Definition::OpinfoExecuted.count(&inventory(), &none), None);
        assert_eq!(Definition::Tier1Calls.count(&inventory(), &none), None);
        assert!(Definition::Registered.count(&inventory(), &none).is_some());
    }
}
