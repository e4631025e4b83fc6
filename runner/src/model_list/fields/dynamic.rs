//! How the dimensions of an entry that may vary are read.

use std::collections::BTreeMap;

use super::{DYNAMIC, Fields, Reader};
use crate::model_list::entry::Dynamic;
use crate::model_list::node::Node;

impl Reader {
    pub(super) fn dynamic(
        &mut self,
        field: &str,
        node: &Node,
    ) -> Option<BTreeMap<String, Dynamic>> {
        let table = self.table(field, node)?;
        let mut dimensions = BTreeMap::new();
        for (name, place, node) in table {
            let good = |c: char| c.is_ascii_lowercase() || c == '_';
            if name.is_empty() || name.len() > 32 || !name.chars().all(good) {
                let message = format!("`{name}` is not a name of a dimension");
                self.note(*place, message, "use small letters, such as `sequence` or `batch`");
                continue;
            }
            if let Some(dynamic) = self.dimension(&format!("{field}.{name}"), node) {
                dimensions.insert(name.clone(), dynamic);
            }
        }
        Some(dimensions)
    }

    fn dimension(&mut self, field: &str, node: &Node) -> Option<Dynamic> {
        let table = self.table(field, node)?;
        let mut fields = Fields { table, prefix: field, reader: self };
        fields.refuse_others(DYNAMIC);
        let min = fields.required("min", node.place, Self::size);
        let max = fields.required("max", node.place, Self::size);
        let inputs = fields.required("inputs", node.place, Self::inputs);
        let (min, max, inputs) = (min?, max?, inputs?);
        if min >= max {
            let message = format!("`{field}.min` must be below `max`: {min} is not below {max}");
            self.note(node.place, message, "a dimension of one size is not dynamic");
            return None;
        }
        Some(Dynamic { min, max, inputs })
    }

    fn inputs(&mut self, field: &str, node: &Node) -> Option<BTreeMap<String, u32>> {
        let table = self.table(field, node)?;
        if table.is_empty() {
            let hint = "name each input with its dimension, for example { input_ids = 1 }";
            self.note(node.place, format!("`{field}` names no input"), hint);
            return None;
        }
        let mut inputs = BTreeMap::new();
        for (name, _, node) in table {
            let dimension = self.whole(&format!("{field}.{name}"), node, 0, 15)?;
            inputs.insert(name.clone(), u32::try_from(dimension).ok()?);
        }
        Some(inputs)
    }
}
