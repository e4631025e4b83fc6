//! What earlier runs say of cases: the last known pass and the last conclusive outcome.

use std::collections::HashMap;

use sqlx::PgConnection;

use super::runs::LockedRun;
use super::word;
use crate::judge::baseline::History;

/// The history of one case, and the run that last passed it.
#[derive(Debug, Clone, Copy)]
pub struct Baseline {
    /// For judgement.
    pub history: History,
    /// Last known pass.
    pub passed_in: Option<i64>,
}

/// Histories of cases before `run`, on its device profile, over sealed runs that were not
/// withdrawn. A case that is absent from the answer is new.
pub async fn find(
    connection: &mut PgConnection,
    run: &LockedRun,
    case_ids: &[i64],
) -> sqlx::Result<HashMap<i64, Baseline>> {
    let rows = sqlx::query!(
        r#"WITH earlier AS (
               SELECT v.case_id, v.run_id, v.outcome,
                      row_number() OVER (PARTITION BY v.case_id
                                         ORDER BY r.started_at DESC, r.id DESC) AS age,
                      row_number() OVER (PARTITION BY v.case_id, v.outcome = 'pass'
                                         ORDER BY r.started_at DESC, r.id DESC) AS age_of_kind
               FROM case_verdicts v JOIN runs r ON r.id = v.run_id
               WHERE v.case_id = ANY ($1)
                 AND v.outcome IN ('pass', 'mismatch', 'error', 'unsupported', 'fallback',
                                   'crash', 'timeout', 'oom')
                 AND r.device_profile = $2 AND r.state = 'sealed' AND r.completeness <> 'void'
                 AND (r.started_at, r.id) < ($3, $4)
           )
           SELECT case_id AS "case_id!",
                  max(outcome) FILTER (WHERE age = 1) AS "previous?",
                  max(run_id) FILTER (WHERE outcome = 'pass' AND age_of_kind = 1) AS "passed_in?"
           FROM earlier WHERE age = 1 OR (outcome = 'pass' AND age_of_kind = 1)
           GROUP BY case_id"#,
        case_ids,
        run.device_profile,
        run.started_at,
        run.id
    )
    .fetch_all(connection)
    .await?;
    rows.into_iter()
        .map(|row| {
            let previous = row.previous.as_deref().map(word).transpose()?;
            let history = History::new(row.passed_in.is_some(), previous);
            Ok((row.case_id, Baseline { history, passed_in: row.passed_in }))
        })
        .collect()
}
