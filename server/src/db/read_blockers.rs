//! What the evidence says of the operators in the way of each model.

use protocol::Outcome;
use sqlx::PgExecutor;

use super::read_words::Word;

/// A case of Tier 1 that did not run to its end.
#[derive(Debug, Clone)]
pub struct StoppedCase {
    /// Its key.
    pub case: String,
    /// The worst outcome.
    pub outcome: Word<Outcome>,
    /// `Vec<protocol::evidence::Blocker>` as JSON text, of the attempt that the verdict rests on;
    /// nothing where they were not looked for or not all found.
    pub blockers: Option<String>,
}

/// Cases of Tier 1 in a run that neither passed nor were left out.
pub async fn list_stopped(db: impl PgExecutor<'_>, run_id: i64) -> sqlx::Result<Vec<StoppedCase>> {
    sqlx::query_as!(
        StoppedCase,
        r#"SELECT c.key AS case, v.outcome AS "outcome!: Word<Outcome>",
                  (a.evidence -> 'blockers')::text AS blockers
           FROM case_verdicts v
           JOIN cases c ON c.id = v.case_id AND c.suite = 'tier1'
           LEFT JOIN attempts a ON a.run_id = v.run_id AND a.case_id = v.case_id
                                AND a.attempt = v.decisive_attempt
           WHERE v.run_id = $1 AND v.outcome NOT IN ('pass', 'skipped', 'infra')
           ORDER BY c.key"#,
        run_id
    )
    .fetch_all(db)
    .await
}
