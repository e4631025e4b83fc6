//! The tables `cases` and `manifest_entries`, and the verdict `missing` of every planned case.

use std::collections::HashMap;

use protocol::CaseKey;
use sqlx::{PgConnection, PgExecutor, PgPool};

use super::runs::LockedRun;

/// Cases sent in one statement: a connection keeps room for the longest that it ever sent.
const AT_ONCE: usize = 4096;

/// Makes sure that every case has a row. Runs outside a transaction, in key order, so that two
/// manifests with common cases never wait for each other in a circle.
pub async fn store_cases(db: &PgPool, cases: &[CaseKey]) -> sqlx::Result<()> {
    let mut sorted: Vec<&CaseKey> = cases.iter().collect();
    sorted.sort();
    for cases in sorted.chunks(AT_ONCE) {
        store_some_cases(db, cases).await?;
    }
    Ok(())
}

async fn store_some_cases(db: &PgPool, cases: &[&CaseKey]) -> sqlx::Result<()> {
    let mut columns: [Vec<String>; 4] = Default::default();
    let mut variants: [Vec<Option<String>>; 4] = Default::default();
    for case in cases {
        let suite = case.suite();
        let values = [case.as_str(), suite.as_str(), case.subject(), case.subject_base()];
        for (column, value) in columns.iter_mut().zip(values) {
            column.push(value.to_owned());
        }
        // An imported case has none.
        let parts = case.variant().map(|variant| {
            let words = [variant.dtype.as_str(), variant.mode.as_str(), variant.direction.as_str()];
            let [dtype, mode, direction] = words.map(|word| Some(word.to_owned()));
            [dtype, mode, direction, variant.layout]
        });
        for (column, value) in variants.iter_mut().zip(parts.unwrap_or_default()) {
            column.push(value);
        }
    }
    let [keys, suites, subjects, bases] = &columns;
    let [dtypes, modes, directions, layouts] = &variants;
    sqlx::query!(
        "INSERT INTO cases (key, suite, subject, subject_base, dtype, mode, direction, layout)
         SELECT new.* FROM UNNEST($1::text[], $2::text[], $3::text[], $4::text[], $5::text[],
                                  $6::text[], $7::text[], $8::text[])
                AS new (key, suite, subject, subject_base, dtype, mode, direction, layout)
         WHERE NOT EXISTS (SELECT FROM cases WHERE cases.key = new.key)
         ON CONFLICT (key) DO NOTHING",
        keys,
        suites,
        subjects,
        bases,
        dtypes as &[Option<String>],
        modes as &[Option<String>],
        directions as &[Option<String>],
        layouts as &[Option<String>]
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Ids of those keys that have a row.
pub async fn find_ids(
    db: impl PgExecutor<'_>,
    keys: &[String],
) -> sqlx::Result<HashMap<String, i64>> {
    let rows =
        sqlx::query!("SELECT key, id FROM cases WHERE key = ANY ($1)", keys).fetch_all(db).await?;
    Ok(rows.into_iter().map(|row| (row.key, row.id)).collect())
}

/// Stores the manifest of a run that has none, and the verdict `missing` for every case of it.
pub async fn store_entries(
    connection: &mut PgConnection,
    run: &LockedRun,
    cases: &[CaseKey],
) -> sqlx::Result<()> {
    for (place, cases) in cases.chunks(AT_ONCE).enumerate() {
        let keys: Vec<String> = cases.iter().map(|case| case.as_str().to_owned()).collect();
        let before = i64::try_from(place * AT_ONCE).unwrap_or(i64::MAX);
        sqlx::query!(
            "INSERT INTO manifest_entries (run_id, position, case_id)
             SELECT $1, ($3 + planned.position - 1)::integer, cases.id
             FROM UNNEST($2::text[]) WITH ORDINALITY AS planned (key, position)
             JOIN cases ON cases.key = planned.key",
            run.id,
            &keys,
            before
        )
        .execute(&mut *connection)
        .await?;
    }
    sqlx::query!(
        "INSERT INTO case_verdicts (run_id, case_id, position, verdict)
         SELECT run_id, case_id, position, 'missing' FROM manifest_entries WHERE run_id = $1",
        run.id
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!(
        "INSERT INTO run_tallies (run_id, suite, verdict, cases)
         SELECT $1, cases.suite, 'missing', count(*)
         FROM manifest_entries JOIN cases ON cases.id = case_id
         WHERE run_id = $1 GROUP BY cases.suite",
        run.id
    )
    .execute(connection)
    .await?;
    Ok(())
}
