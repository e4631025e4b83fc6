//! What the inventory of a build says of the operators and overloads that pages list: their class,
//! their family, and which of them a definition of coverage counts.

use std::collections::HashMap;

use protocol::coverage::{Coverage, Definition};
use protocol::inventory::{Class, Inventory, operator_of};

use super::operators::choices;
use super::view::Choice;

/// What the operators and overloads of an inventory are.
pub(super) struct Classes {
    overloads: HashMap<String, Class>,
    operators: HashMap<String, Class>,
}

impl Classes {
    pub(super) fn new(inventory: Option<&Inventory>) -> Self {
        let mut classes = Self { overloads: HashMap::new(), operators: HashMap::new() };
        let Some(inventory) = inventory else { return classes };
        for overload in &inventory.overloads {
            let class = overload.class(&inventory.dispatch_key);
            classes.overloads.insert(overload.name.clone(), class);
            let best = classes.operators.entry(overload.operator().to_owned()).or_insert(class);
            *best = class.min(*best);
        }
        classes
    }

    /// Of an overload, or the best of the overloads where only an operator is named.
    pub(super) fn of(&self, name: &str) -> Option<Class> {
        self.overloads.get(name).or_else(|| self.operators.get(name)).copied()
    }

    /// Of the operator that has the name of an entry of the operator database: the best of its
    /// overloads. Families whose entries only share words with ATen have none.
    pub(super) fn of_entry(&self, entry: &str) -> Option<Class> {
        let last = entry.rsplit('.').next().unwrap_or(entry);
        let first = entry.split('.').next().unwrap_or(entry);
        let only_words = ["masked", "sparse", "signal", "_refs", "ops"].contains(&first);
        let names = [entry.replace('.', "_"), last.to_owned(), first.to_owned()];
        let most = if only_words { 1 } else { names.len() };
        names[..most].iter().find_map(|name| self.operators.get(&format!("aten::{name}"))).copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.overloads.is_empty()
    }
}

/// The classes to choose from.
pub(super) fn class_choices(chosen: Option<Class>) -> Vec<Choice> {
    Choice::words(Class::ALL.iter().map(|class| class.as_str()), chosen.map(Class::as_str))
}

/// The definitions to choose from.
pub(super) fn definition_choices(chosen: Option<&str>) -> Vec<Choice> {
    let definitions = std::iter::once(("", "every overload"))
        .chain(Definition::ALL.iter().map(|own| (own.as_str(), own.as_str())));
    choices(&definitions.collect::<Vec<_>>(), chosen)
}

/// What of ATen a page looks at: everything, or what a definition counts; of one class, or of all.
pub(super) struct Narrowing<'a> {
    classes: &'a Classes,
    class: Option<Class>,
    /// What the definition counts; nothing without a definition, and empty where these runs cannot
    /// be counted by it.
    items: Option<HashMap<&'a str, Option<Class>>>,
    is_of_operators: bool,
}

impl<'a> Narrowing<'a> {
    /// `counted` is what the definition that was asked for counts.
    pub(super) fn new(
        classes: &'a Classes,
        class: Option<Class>,
        definition: Option<Definition>,
        counted: Option<&'a Coverage>,
    ) -> Self {
        let items = counted.map(|coverage| coverage.items.as_slice()).unwrap_or_default();
        Self {
            classes,
            class,
            items: definition
                .map(|_| items.iter().map(|item| (item.name.as_str(), item.class)).collect()),
            is_of_operators: counted.is_some_and(|coverage| coverage.unit == "operators"),
        }
    }

    /// Whether an overload is left. Where operators are counted, all overloads of one are, with the
    /// class of the operator.
    pub(super) fn keeps(&self, overload: &str) -> bool {
        let (is_counted, own) = match &self.items {
            None => (true, self.classes.of(overload)),
            Some(items) => {
                let name = if self.is_of_operators { operator_of(overload) } else { overload };
                let item = items.get(name);
                (item.is_some(), item.copied().flatten())
            }
        };
        is_counted && (self.class.is_none() || own == self.class)
    }

    /// The class by which an operator is counted, where a definition counts operators.
    pub(super) fn of_operator(&self, operator: &str) -> Option<Class> {
        let items = self.items.as_ref().filter(|_| self.is_of_operators)?;
        items.get(operator).copied().flatten()
    }
}

/// Families of ATen, by what operators are called.
const FAMILIES: [(&str, &[&str]); 9] = [
    ("fft", &["fft_", "_fft_"]),
    ("foreach and fused", &["_foreach_", "_fused_", "_amp_foreach"]),
    ("linalg", &["linalg_", "_linalg_"]),
    ("nested", &["nested_", "_nested_"]),
    ("quantized", &["quantize", "_quantize", "fake_quantize", "_fake_quantize", "dequantize"]),
    ("sparse", &["sparse_", "_sparse_", "to_sparse", "_to_sparse"]),
    ("special", &["special_"]),
    ("vendor libraries", &["cudnn_", "_cudnn_", "miopen_", "mkldnn_", "_mkldnn_", "_mps_"]),
    ("internal", &["_"]),
];

/// The family of an operator or overload; another name space is a family of its own.
pub(super) fn family(name: &str) -> &str {
    let Some((space, rest)) = name.split_once("::") else { return "no name space" };
    if space != "aten" {
        return space;
    }
    let is_of = |(_, starts): &&(&str, &[&str])| starts.iter().any(|start| rest.starts_with(start));
    FAMILIES.iter().find(is_of).map_or("general", |(family, _)| family)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_belongs_to_the_family_of_its_name() {
        for (name, expected) in [
            ("aten::add.Tensor", "general"),
            ("aten::_fft_r2c", "fft"),
            ("aten::linalg_svd.U", "linalg"),
            ("aten::_foreach_add.List", "foreach and fused"),
            ("aten::_log_softmax", "internal"),
            ("tpu::own", "tpu"),
            ("odd", "no name space"),
        ] {
            assert_eq!(family(name), expected, "{name}");
        }
    }
}
