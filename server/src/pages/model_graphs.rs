//! Which models have one graph, and whose execution was used for the others; how popular they are.

use std::collections::BTreeMap;

use super::view;
use crate::db::graphs::ModelGraph;
use crate::filters;
use crate::popularity::{Place, Popularity};

/// Graphs by model, with the size of the group that each belongs to.
#[derive(Debug, Default)]
pub(super) struct Graphs {
    of_model: BTreeMap<String, Vec<GraphCell>>,
}

/// A graph of a model, as one line of a cell.
#[derive(Debug, Clone)]
pub(super) struct GraphCell {
    /// Names it.
    pub(super) graph: String,
    /// Every model that has it.
    pub(super) href: String,
    /// How many these are.
    pub(super) models: usize,
    /// The model whose execution was used, with its page; nothing where this one was executed.
    pub(super) executed_as: Option<(String, String)>,
}

impl Graphs {
    pub(super) fn new(rows: Vec<ModelGraph>, pin: &str) -> Self {
        let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
        for row in &rows {
            *sizes.entry(row.graph.clone()).or_default() += 1;
        }
        let mut of_model: BTreeMap<String, Vec<GraphCell>> = BTreeMap::new();
        for row in rows {
            let mut parameters: Vec<(&str, &str)> = pin.split_once('=').into_iter().collect();
            parameters.push(("graph", &row.graph));
            let cell = GraphCell {
                href: view::link("/models", &parameters),
                models: sizes[&row.graph],
                executed_as: row.executed_as.map(|model| {
                    let href = view::model_href(&model, pin);
                    (model, href)
                }),
                graph: row.graph,
            };
            of_model.entry(row.model).or_default().push(cell);
        }
        Self { of_model }
    }

    pub(super) fn of(&self, model: &str) -> Vec<GraphCell> {
        self.of_model.get(model).cloned().unwrap_or_default()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.of_model.is_empty()
    }

    /// Models with a graph, graphs, and models whose execution was another's.
    pub(super) fn summary(&self) -> (usize, usize, usize) {
        let graphs: std::collections::BTreeSet<&str> =
            self.of_model.values().flatten().map(|cell| cell.graph.as_str()).collect();
        let is_shared = |cells: &&Vec<GraphCell>| cells.iter().any(|c| c.executed_as.is_some());
        (self.of_model.len(), graphs.len(), self.of_model.values().filter(is_shared).count())
    }
}

/// A place in a ranking, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PopularityCell {
    /// From 1, in the ranking of its source.
    pub(super) rank: u64,
    /// The number ranked by, with its digits grouped; empty where it is not known.
    pub(super) count: String,
    pub(super) snapshot: String,
    pub(super) source: String,
}

impl PopularityCell {
    pub(super) fn of(popularity: &Popularity, model: &str) -> Option<Self> {
        popularity.of(model).map(Self::new)
    }

    fn new(place: &Place) -> Self {
        Self {
            rank: place.rank,
            count: place.count.map_or(String::new(), |n| filters::group_digits(&n.to_string())),
            snapshot: place.snapshot.clone(),
            source: place.source.clone(),
        }
    }

    /// The latest ranking first, each in its order: they are not one ranking.
    pub(super) fn order(&self) -> (std::cmp::Reverse<&str>, &str, u64) {
        (std::cmp::Reverse(self.snapshot.as_str()), &self.source, self.rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(model: &str, graph: &str, executed_as: Option<&str>) -> ModelGraph {
        let executed_as = executed_as.map(str::to_owned);
        ModelGraph { model: model.to_owned(), graph: graph.to_owned(), executed_as }
    }

    #[test]
    fn a_group_is_every_model_with_the_graph() {
        let rows = vec![row("a", "g1", None), row("a", "g2", None), row("b", "g1", Some("a"))];
        let graphs = Graphs::new(rows, "device=tpu-sim");
        assert_eq!(graphs.summary(), (2, 2, 1));
        let b = graphs.of("b");
        assert_eq!((b[0].models, b[0].href.as_str()), (2, "/models?device=tpu-sim&graph=g1"));
        assert_eq!(b[0].executed_as.as_ref().unwrap().0, "a");
        assert_eq!(graphs.of("a").iter().map(|cell| cell.models).collect::<Vec<_>>(), [2, 1]);
        assert!(graphs.of("c").is_empty());
    }
}
