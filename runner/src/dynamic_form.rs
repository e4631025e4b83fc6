//! What a case of the dynamism suite is given: plain inputs, or what is known to go wrong.

use std::collections::BTreeMap;

use protocol::worker_link::{DynamicDimension, ModelSpec};

use crate::sweep::{plan_decoding, plan_sweep};

/// Name of the dimension that decoding makes longer.
pub const LENGTH: &str = "sequence";

protocol::words! {
    /// What a dynamism case is given.
    DynamicForm as "form of a dynamism case" {
        /// Inputs of every size, and nothing hidden.
        Plain = "plain",
        /// A mask that hides the first tokens of each row, another number in each.
        PaddedLeft = "padded_left",
        /// A mask that hides the last tokens of each row.
        PaddedRight = "padded_right",
        /// The last positions that the model has.
        PositionsAtLimit = "positions_at_limit",
        /// A prefill, then token after token, into a cache that grows.
        DynamicCache = "dynamic_cache",
        /// The same into a cache that has the bound's size from the start.
        StaticCache = "static_cache",
    }
}

impl DynamicForm {
    /// That of a case, by the last part of its key.
    #[must_use]
    pub fn of(layout: Option<&str>) -> Self {
        layout.and_then(|layout| layout.parse().ok()).unwrap_or(Self::Plain)
    }

    /// The last part of a case's key; nothing for plain inputs.
    #[must_use]
    pub fn layout(self) -> Option<String> {
        (self != Self::Plain).then(|| self.to_string())
    }

    /// Graphs that are due inside the bounds: a prefill is one, and a step another.
    #[must_use]
    pub const fn graphs(self) -> u64 {
        match self {
            Self::Plain | Self::PaddedLeft | Self::PaddedRight | Self::PositionsAtLimit => 1,
            Self::DynamicCache | Self::StaticCache => 2,
        }
    }

    /// Sizes in the order of execution; nothing for a model that has no such dimension.
    #[must_use]
    pub fn sweep(
        self,
        model: &ModelSpec,
        dimensions: &[DynamicDimension],
    ) -> Option<Vec<BTreeMap<String, u64>>> {
        match self {
            Self::Plain | Self::PaddedLeft | Self::PaddedRight | Self::PositionsAtLimit => {
                Some(plan_sweep(model, dimensions))
            }
            Self::DynamicCache | Self::StaticCache => {
                let length = dimensions.iter().find(|dimension| dimension.name == LENGTH)?;
                Some(plan_decoding(length))
            }
        }
    }
}
