//! The table `case_graphs`: which graph the model of a case had, and whose execution was used.

use serde::Deserialize;
use sqlx::{PgConnection, PgExecutor};

use super::attempts::NewAttempt;
use super::runs::LockedRun;

/// The longest name of a graph that is kept; the schema has the same limit.
const MAX_GRAPH_CHARS: usize = 100;

/// The part of the evidence that is looked at.
#[derive(Debug, Deserialize)]
struct Seen {
    graph_signature: Option<String>,
    executed_as: Option<String>,
}

/// Of an attempt that says it; most say nothing, and are not read.
fn seen(attempt: &NewAttempt<'_>) -> Option<(i64, String, Option<String>)> {
    if !attempt.observed.evidence.contains("\"graph_signature\"") {
        return None;
    }
    let seen: Seen = serde_json::from_str(&attempt.observed.evidence).ok()?;
    let graph = seen.graph_signature?;
    let fits = (1..=MAX_GRAPH_CHARS).contains(&graph.chars().count()) && !graph.contains('\0');
    fits.then_some((attempt.case_id, graph, seen.executed_as))
}

/// Notes the graphs of attempts that are being stored. The latest attempt at a case stands.
pub(super) async fn store(
    connection: &mut PgConnection,
    run: &LockedRun,
    attempts: &[NewAttempt<'_>],
) -> sqlx::Result<()> {
    let mut rows: Vec<_> = attempts.iter().filter_map(seen).collect();
    if rows.is_empty() {
        return Ok(());
    }
    // Sorted, so that two writers take rows in the same order; of one case, the last one stays.
    rows.sort_by_key(|(case_id, ..)| *case_id);
    rows.reverse();
    rows.dedup_by_key(|(case_id, ..)| *case_id);
    rows.reverse();
    let case_ids: Vec<i64> = rows.iter().map(|(case_id, ..)| *case_id).collect();
    let graphs: Vec<String> = rows.iter().map(|(_, graph, _)| graph.clone()).collect();
    let executed: Vec<Option<String>> = rows.into_iter().map(|(.., as_case)| as_case).collect();
    sqlx::query!(
        "INSERT INTO case_graphs (run_id, case_id, graph, executed_as)
         SELECT $1, new.* FROM UNNEST($2::bigint[], $3::text[], $4::text[])
                AS new (case_id, graph, executed_as)
         ON CONFLICT (run_id, case_id) DO UPDATE
         SET graph = EXCLUDED.graph, executed_as = EXCLUDED.executed_as",
        run.id,
        &case_ids,
        &graphs,
        &executed as &[Option<String>]
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// A graph that a model had.
#[derive(Debug, Clone)]
pub struct ModelGraph {
    /// The model, without size.
    pub model: String,
    /// Names the graph.
    pub graph: String,
    /// The model whose execution was used in some case; nothing where it was its own in all.
    pub executed_as: Option<String>,
}

/// Graphs of the models in these (run, suite) pairs, read in parallel, by model and graph.
pub async fn list_of_models(
    db: impl PgExecutor<'_>,
    run_ids: &[i64],
    suites: &[String],
) -> sqlx::Result<Vec<ModelGraph>> {
    sqlx::query_as!(
        ModelGraph,
        r#"SELECT c.subject_base AS model, g.graph, max(e.subject_base) AS executed_as
           FROM unnest($1::bigint[], $2::text[]) AS w (run_id, suite)
           JOIN case_graphs g ON g.run_id = w.run_id
           JOIN cases c ON c.id = g.case_id AND c.suite = w.suite
           LEFT JOIN cases e ON e.key = g.executed_as
           GROUP BY c.subject_base, g.graph
           ORDER BY c.subject_base, g.graph"#,
        run_ids,
        suites
    )
    .fetch_all(db)
    .await
}
