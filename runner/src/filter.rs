//! Choosing cases of a plan by `--filter`, in the query grammar of [`protocol::query`].

use protocol::CaseKey;
use protocol::query::Query;

use crate::Error;

/// Cases that match one of several queries; without any, every case.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    texts: Vec<String>,
    queries: Vec<Query>,
}

impl Filter {
    /// Reads the queries; the first that cannot be read is an error that points into it.
    pub fn parse(texts: &[String]) -> Result<Self, Error> {
        let read = |text: &String| {
            Query::parse_for_plan(text).map_err(|error| Error::Usage {
                message: format!("the filter cannot be read: {error}"),
                hint: "a filter is a text to look for in case keys, or reads like `op:aten.add \
                       dtype:bf16 mode:!compile`"
                    .to_owned(),
            })
        };
        let queries = texts.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Self { texts: texts.to_vec(), queries })
    }

    /// Whether the case is chosen.
    #[must_use]
    pub fn chooses(&self, case: &CaseKey) -> bool {
        self.queries.is_empty() || self.queries.iter().any(|query| query.matches(case))
    }

    /// The queries, of which one is enough; none means every case.
    #[must_use]
    pub fn queries(&self) -> &[Query] {
        &self.queries
    }

    /// As it was typed, for messages.
    #[must_use]
    pub fn describe(&self) -> String {
        self.texts.iter().map(|text| format!("`{text}`")).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(texts: &[&str]) -> Result<Filter, Error> {
        Filter::parse(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn one_of_several_queries_is_enough() {
        let key = "operators/opinfo:nn.functional.relu#3/float32.eager.forward";
        let case = key.parse().unwrap();
        for (texts, chosen) in [
            (vec![], true),
            (vec!["relu"], true),
            (vec![key], true),
            (vec!["gelu"], false),
            (vec!["gelu", "relu#3"], true),
            (vec!["*relu*"], true),
            (vec!["op:nn.functional.relu mode:eager"], true),
            (vec!["op:nn.functional.relu mode:compile"], false),
        ] {
            assert_eq!(filter(&texts).unwrap().chooses(&case), chosen, "{texts:?}");
        }
    }

    #[test]
    fn what_is_known_only_afterwards_is_refused_at_its_place() {
        let error = filter(&["relu", "outcome:pass"]).unwrap_err();
        assert_eq!(error.exit(), crate::exit::Exit::Usage);
        assert!(error.to_string().contains("^^^^^^^"), "{error}");
    }
}
