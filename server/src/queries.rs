//! The query grammar of the runner over stored cases: read once for pages and API, and put into
//! the form in which the database compares it. What a term means is said in `protocol::query`; a
//! test holds the two against each other.

use protocol::query::{Manner, Query, Term};
use serde_json::{Value, json};

use crate::error::{Error, Result};

/// Reads `q`; what cannot be read is answered with the part that is wrong.
pub fn read(text: Option<&str>) -> Result<Query> {
    Query::parse(text.unwrap_or_default()).map_err(|error| {
        let wrong: String = error.query.chars().skip(error.position).take(error.length).collect();
        let place = error.position + 1;
        let at = if wrong.trim().is_empty() {
            format!("at character {place}")
        } else {
            format!("at `{wrong}`, character {place}")
        };
        Error::bad_request(
            format!("`q` cannot be read {at}: {}", error.problem),
            "terms are `field:value`, as in `op:aten.add dtype:bf16 outcome:!pass`",
        )
    })
}

/// The terms for `db::read_runs::select_cases`; nothing when there is none.
#[must_use]
pub fn patterns(query: &Query) -> Option<Value> {
    (!query.terms.is_empty()).then(|| query.terms.iter().map(term).collect())
}

/// Patterns of `LIKE`: `exact` for the value as it is, `folded` for it in small letters.
fn term(term: &Term) -> Value {
    let (mut exact, mut folded) = (Vec::new(), Vec::new());
    for pattern in &term.alternatives {
        let like = like(pattern);
        match term.field.manner(pattern) {
            Manner::Within => folded.push(format!("%{}%", like.to_lowercase())),
            Manner::Overloads => {
                exact.extend([format!("{like}.%"), format!("aten::{like}")]);
                exact.push(like);
            }
            Manner::Whole => exact.push(like),
        }
    }
    let field = term.field.as_str();
    json!({ "field": field, "negated": term.negated, "exact": exact, "folded": folded })
}

/// `*` and `?` become those of `LIKE`; its own are escaped.
fn like(pattern: &str) -> String {
    let mut like = String::with_capacity(pattern.len());
    for c in pattern.chars() {
        match c {
            '*' => like.push('%'),
            '?' => like.push('_'),
            '%' | '_' | '\\' => like.extend(['\\', c]),
            other => like.push(other),
        }
    }
    like
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_database_would_take_for_a_wildcard_is_escaped() {
        assert_eq!(like(r"a_b%c\*?"), r"a\_b\%c\\%_");
    }

    #[test]
    fn a_query_without_terms_asks_nothing() {
        assert_eq!(patterns(&Query::default()), None);
    }

    #[test]
    fn an_operator_means_its_overloads_too() {
        let query = read(Some("op:!aten.add")).unwrap();
        let expected = json!([{
            "field": "op", "negated": true, "folded": [],
            "exact": ["aten::add.%", "aten::aten::add", "aten::add"],
        }]);
        assert_eq!(patterns(&query), Some(expected));
    }
}
