//! What pages count of runs, kept in memory for as long as none of the runs changes.
//!
//! Every run has a number of changes, raised by whatever changes its verdicts or what its cases
//! touched, in the same transaction. It is read before what is counted, and is part of the name
//! under which that is kept: a count can be newer than its name says, never older.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use sqlx::PgExecutor;

use super::Db;

/// Most memory that what is kept may take, in bytes, by a rough measure.
const MOST_BYTES: u64 = 32 << 20;
/// What a row holds elsewhere than in itself, in bytes, roughly.
const TEXT_BYTES: usize = 150;

/// Rows that were counted, whatever they are.
#[derive(Clone)]
struct Kept {
    rows: Arc<dyn Any + Send + Sync>,
    bytes: u32,
}

/// What is kept. Cheap to clone.
#[derive(Clone)]
pub struct Memo(moka::sync::Cache<String, Kept>);

impl Debug for Memo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memo").field("entries", &self.0.entry_count()).finish()
    }
}

impl Default for Memo {
    fn default() -> Self {
        let cache = moka::sync::Cache::builder()
            .max_capacity(MOST_BYTES)
            .weigher(|name: &String, kept: &Kept| {
                kept.bytes.saturating_add(u32::try_from(name.len()).unwrap_or(u32::MAX))
            })
            .build();
        Self(cache)
    }
}

impl Memo {
    /// The rows under that name, or those that `count` gives, which are kept then. It must name
    /// what is counted, the runs with their changes, and everything else that was asked.
    pub async fn rows<T: Send + Sync + 'static>(
        &self,
        name: String,
        count: impl Future<Output = sqlx::Result<Vec<T>>>,
    ) -> sqlx::Result<Arc<Vec<T>>> {
        if let Some(kept) = self.0.get(&name)
            && let Ok(rows) = kept.rows.downcast()
        {
            return Ok(rows);
        }
        let rows = Arc::new(count.await?);
        let bytes = rows.len().saturating_mul(size_of::<T>() + TEXT_BYTES);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.0.insert(name, Kept { rows: rows.clone(), bytes });
        Ok(rows)
    }
}

impl Db {
    /// What `count` gives of these runs, from memory where none of them has changed since. `asked`
    /// is everything else that it depends on.
    pub async fn kept<T: Send + Sync + 'static>(
        &self,
        what: &str,
        run_ids: &[i64],
        asked: impl Debug,
        count: impl Future<Output = sqlx::Result<Vec<T>>>,
    ) -> sqlx::Result<Arc<Vec<T>>> {
        let changes = list_changes(self.pool(), run_ids).await?;
        self.memo().rows(name(what, run_ids, &changes, asked), count).await
    }
}

/// Under which something is kept.
#[must_use]
pub fn name(what: &str, run_ids: &[i64], changes: &[(i64, i64)], asked: impl Debug) -> String {
    format!("{what} {run_ids:?} {changes:?} {asked:?}")
}

/// How often each of the runs has changed.
pub async fn list_changes(
    db: impl PgExecutor<'_>,
    run_ids: &[i64],
) -> sqlx::Result<Vec<(i64, i64)>> {
    let rows =
        sqlx::query!("SELECT id, changes FROM runs WHERE id = ANY ($1) ORDER BY id", run_ids)
            .fetch_all(db)
            .await?;
    Ok(rows.into_iter().map(|row| (row.id, row.changes)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_kept_is_counted_once_for_each_change() {
        let memo = Memo::default();
        let counted = std::cell::Cell::new(0);
        let count = async |changes: i64, asked: &str| {
            let rows = async {
                counted.set(counted.get() + 1);
                Ok(vec![format!("{changes} {asked}")])
            };
            let name = name("rows", &[7], &[(7, changes)], asked);
            memo.rows(name, rows).await.unwrap().concat()
        };
        assert_eq!(count(1, "a").await, "1 a");
        assert_eq!(count(1, "a").await, "1 a");
        assert_eq!(counted.get(), 1);
        assert_eq!(count(1, "b").await, "1 b");
        assert_eq!(count(2, "a").await, "2 a");
        assert_eq!(counted.get(), 3);
    }

    #[tokio::test]
    async fn a_failure_is_not_kept() {
        let memo = Memo::default();
        let fail = async { Err::<Vec<u8>, _>(sqlx::Error::PoolTimedOut) };
        assert!(memo.rows("rows".to_owned(), fail).await.is_err());
        let rows = memo.rows("rows".to_owned(), async { Ok(vec![1_u8]) }).await.unwrap();
        assert_eq!(*rows, [1]);
    }
}
