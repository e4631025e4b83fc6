//! The tables `inventories`, `inventory_overloads` and `run_inventories`: which overloads a build
//! has. Builds with the same inventory share one.

use chrono::{DateTime, Utc};
use protocol::inventory::{Inventory, Overload};
use sqlx::types::Json;
use sqlx::{PgConnection, PgExecutor};

use super::runs::LockedRun;

/// Stores an inventory that is not there yet, and gives its id.
pub async fn store(
    connection: &mut PgConnection,
    sha256: &[u8],
    inventory: &Inventory,
    now: DateTime<Utc>,
) -> sqlx::Result<i64> {
    let created = sqlx::query_scalar!(
        "INSERT INTO inventories (sha256, dispatch_key, created_at) VALUES ($1, $2, $3)
         ON CONFLICT (sha256) DO NOTHING RETURNING id",
        sha256,
        inventory.dispatch_key,
        now
    )
    .fetch_optional(&mut *connection)
    .await?;
    let Some(id) = created else {
        return sqlx::query_scalar!("SELECT id FROM inventories WHERE sha256 = $1", sha256)
            .fetch_one(connection)
            .await;
    };
    let names: Vec<String> = inventory.overloads.iter().map(|o| o.name.clone()).collect();
    let operators: Vec<String> =
        inventory.overloads.iter().map(|o| o.operator().to_owned()).collect();
    let about: Vec<serde_json::Value> =
        inventory.overloads.iter().map(|o| serde_json::json!(o)).collect();
    sqlx::query!(
        "INSERT INTO inventory_overloads (inventory_id, name, operator, about)
         SELECT $1, name, operator, about
         FROM unnest($2::text[], $3::text[], $4::jsonb[]) AS new (name, operator, about)",
        id,
        &names,
        &operators,
        &about
    )
    .execute(connection)
    .await?;
    Ok(id)
}

/// The hash of the inventory that a run has, if it has one.
pub async fn hash_of_run(db: impl PgExecutor<'_>, run_id: i64) -> sqlx::Result<Option<Vec<u8>>> {
    sqlx::query_scalar!(
        "SELECT i.sha256 FROM run_inventories r JOIN inventories i ON i.id = r.inventory_id
         WHERE r.run_id = $1",
        run_id
    )
    .fetch_optional(db)
    .await
}

/// Gives a run its inventory.
pub async fn give(
    connection: &mut PgConnection,
    run: &LockedRun,
    inventory_id: i64,
) -> sqlx::Result<()> {
    sqlx::query!(
        "INSERT INTO run_inventories (run_id, inventory_id) VALUES ($1, $2)",
        run.id,
        inventory_id
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// The inventory of the newest of these runs that has one.
pub async fn find(db: impl PgExecutor<'_>, run_ids: &[i64]) -> sqlx::Result<Option<Inventory>> {
    select(db, run_ids, None).await
}

/// The same, of these overloads, and all overloads of these operators, only.
pub async fn describe(
    db: impl PgExecutor<'_>,
    run_ids: &[i64],
    names: &[String],
) -> sqlx::Result<Option<Inventory>> {
    select(db, run_ids, Some(names)).await
}

async fn select(
    db: impl PgExecutor<'_>,
    run_ids: &[i64],
    names: Option<&[String]>,
) -> sqlx::Result<Option<Inventory>> {
    let rows = sqlx::query!(
        r#"SELECT i.dispatch_key, o.about AS "about: Json<Overload>"
           FROM run_inventories r
           JOIN inventories i ON i.id = r.inventory_id
           JOIN inventory_overloads o ON o.inventory_id = i.id
           WHERE r.run_id = (SELECT max(run_id) FROM run_inventories WHERE run_id = ANY($1))
             AND ($2::text[] IS NULL OR o.name = ANY($2) OR o.operator = ANY($2))
           ORDER BY o.name COLLATE "C""#,
        run_ids,
        names
    )
    .fetch_all(db)
    .await?;
    let Some(first) = rows.first() else { return Ok(None) };
    let dispatch_key = first.dispatch_key.clone();
    let overloads = rows.into_iter().map(|row| row.about.0).collect();
    Ok(Some(Inventory { dispatch_key, overloads }))
}
