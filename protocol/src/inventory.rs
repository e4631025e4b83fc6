//! What the dispatcher of a build knows of every overload: the ground on which coverage stands.
//!
//! Taken in a worker, before and after the backend is loaded; see `docs/coverage.md` for what the
//! classes mean. Comparing two inventories is [`diff`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Every overload of ATen, and those of the backend's own namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Inventory {
    /// The backend's own dispatch key: `PrivateUse1`, `CUDA`, `CPU`.
    pub dispatch_key: String,
    /// Sorted by name.
    pub overloads: Vec<Overload>,
}

/// One overload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Overload {
    /// `aten::add.Tensor`; an unnamed overload has no dot.
    pub name: String,
    /// Arguments and results, without the name; empty where the dispatcher has none.
    pub schema: String,
    /// PyTorch's tags, sorted: `core`, `nondeterministic_seeded`, … .
    pub tags: Vec<String>,
    /// Whether its result is a view of an input, by its schema.
    pub view: bool,
    /// The structured overload that computes it, in PyTorch's own table; empty without.
    pub structured_delegate: String,
    /// Dispatch keys with a kernel of its own, of those asked for, sorted.
    pub kernels: Vec<String>,
    /// Those of `kernels` that were not there before the backend was loaded.
    pub added: Vec<String>,
}

words! {
    /// How a backend gets at an overload.
    Class as "class" {
        /// By a kernel of its own.
        Native = "native",
        /// Through operators that it is written in, gradients included.
        CompositeImplicit = "composite-implicit",
        /// Through operators that it is written in, below the gradient.
        CompositeExplicit = "composite-explicit",
        /// Not at all.
        Missing = "missing",
    }
}

impl Overload {
    /// Its class for the backend of this dispatch key.
    #[must_use]
    pub fn class(&self, dispatch_key: &str) -> Class {
        let has = |key: &str| self.kernels.iter().any(|kernel| kernel == key);
        if has(dispatch_key) {
            Class::Native
        } else if has("CompositeImplicitAutograd") {
            Class::CompositeImplicit
        } else if has("CompositeExplicitAutograd") || has("CompositeExplicitAutogradNonFunctional")
        {
            Class::CompositeExplicit
        } else {
            Class::Missing
        }
    }

    /// Whether it is written in other operators, whether or not the backend uses that.
    #[must_use]
    pub fn is_composite(&self) -> bool {
        self.kernels.iter().any(|kernel| kernel.starts_with("Composite"))
    }

    /// The operator without the overload: `aten::add`.
    #[must_use]
    pub fn operator(&self) -> &str {
        operator_of(&self.name)
    }
}

/// `aten::add` of `aten::add.Tensor`.
#[must_use]
pub fn operator_of(overload: &str) -> &str {
    overload.split_once('.').map_or(overload, |(operator, _)| operator)
}

/// One difference between two inventories.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "change", rename_all = "kebab-case")]
pub enum Change {
    /// Only the later one has it.
    New {
        /// The overload.
        overload: String,
        /// Its class.
        class: Class,
    },
    /// Only the earlier one has it.
    Lost {
        /// The overload.
        overload: String,
        /// Its class.
        class: Class,
    },
    /// Another schema.
    Schema {
        /// The overload.
        overload: String,
        /// Before.
        before: String,
        /// After.
        after: String,
    },
    /// Another class.
    Class {
        /// The overload.
        overload: String,
        /// Before.
        before: Class,
        /// After.
        after: Class,
    },
}

/// What is new, lost or changed from one inventory to a later one, by name.
#[must_use]
pub fn diff(before: &Inventory, after: &Inventory) -> Vec<Change> {
    let index = |inventory: &Inventory| -> BTreeMap<String, Overload> {
        inventory.overloads.iter().map(|o| (o.name.clone(), o.clone())).collect()
    };
    let (old, new) = (index(before), index(after));
    let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let mut changes = Vec::new();
    for name in names {
        let overload = name.clone();
        match (old.get(name), new.get(name)) {
            (None, Some(is)) => {
                changes.push(Change::New { overload, class: is.class(&after.dispatch_key) });
            }
            (Some(was), None) => {
                changes.push(Change::Lost { overload, class: was.class(&before.dispatch_key) });
            }
            (Some(was), Some(is)) => {
                if was.schema != is.schema {
                    let (before, after) = (was.schema.clone(), is.schema.clone());
                    changes.push(Change::Schema { overload: overload.clone(), before, after });
                }
                let before = was.class(&before.dispatch_key);
                let after = is.class(&after.dispatch_key);
                if before != after {
                    changes.push(Change::Class { overload, before, after });
                }
            }
            (None, None) => {}
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn overload(name: &str, kernels: &[&str]) -> Overload {
        Overload {
            name: name.to_owned(),
            schema: "(Tensor self) -> Tensor".to_owned(),
            tags: vec![],
            view: false,
            structured_delegate: String::new(),
            kernels: kernels.iter().map(|&key| key.to_owned()).collect(),
            added: vec![],
        }
    }

    #[test]
    fn a_kernel_of_its_own_comes_before_every_composite() {
        for (kernels, class) in [
            (&["CompositeImplicitAutograd", "PrivateUse1"][..], Class::Native),
            (&["CPU", "CompositeImplicitAutograd"], Class::CompositeImplicit),
            (&["CompositeExplicitAutograd"], Class::CompositeExplicit),
            (&["CompositeExplicitAutogradNonFunctional", "CPU"], Class::CompositeExplicit),
            (&["AutogradPrivateUse1", "CPU", "Meta"], Class::Missing),
            (&[], Class::Missing),
        ] {
            assert_eq!(overload("aten::x", kernels).class("PrivateUse1"), class, "{kernels:?}");
        }
    }

    #[test]
    fn a_difference_names_what_is_new_lost_or_changed() {
        let inventory = |overloads| Inventory { dispatch_key: "PrivateUse1".to_owned(), overloads };
        let before = inventory(vec![
            overload("aten::a", &["PrivateUse1"]),
            overload("aten::b", &["CPU"]),
            overload("aten::c", &[]),
        ]);
        let other = Overload { schema: "() -> ()".to_owned(), ..overload("aten::c", &[]) };
        let after = inventory(vec![
            overload("aten::b", &["CPU", "PrivateUse1"]),
            other,
            overload("aten::d", &["PrivateUse1"]),
        ]);
        assert_eq!(
            diff(&before, &after),
            [
                Change::Lost { overload: "aten::a".to_owned(), class: Class::Native },
                Change::Class {
                    overload: "aten::b".to_owned(),
                    before: Class::Missing,
                    after: Class::Native
                },
                Change::Schema {
                    overload: "aten::c".to_owned(),
                    before: "(Tensor self) -> Tensor".to_owned(),
                    after: "() -> ()".to_owned()
                },
                Change::New { overload: "aten::d".to_owned(), class: Class::Native },
            ]
        );
        assert!(diff(&after, &after).is_empty());
    }
}
