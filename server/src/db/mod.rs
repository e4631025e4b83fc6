//! All SQL of the service, one file per table family; only checked macros.
//!
//! Functions are free, take `impl PgExecutor` (or a connection when they need several statements
//! in one transaction) and return domain types, so that neither handlers nor judgement see SQL.
//! To add or change a query: edit it, then `scripts/sqlx write`, and commit `.sqlx/` with it.

use std::path::Path;
use std::str::FromStr as _;
use std::time::Duration;

use chrono::NaiveDate;
use sqlx::Connection as _;
use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};

use self::memo::Memo;
use crate::trouble::{OrTrouble as _, Trouble};

pub mod artifacts;
pub mod attempts;
pub mod audit;
pub mod baselines;
pub mod cases;
pub mod compare;
mod copy;
pub mod gates;
pub mod graphs;
pub mod inventories;
pub mod manifests;
pub mod memo;
pub mod operators;
pub mod read_blockers;
pub mod read_cases;
pub mod read_errors;
pub mod read_fleet;
pub mod read_home;
pub mod read_live;
pub mod read_operators;
pub mod read_runs;
pub mod read_search;
pub mod read_timeline;
pub mod read_trend;
pub mod read_variants;
pub mod read_waived;
pub mod read_words;
pub mod rejudge;
pub mod retention;
mod run_lock;
pub mod runs;
pub mod sessions;
pub mod sources;
pub mod summaries;
pub mod tokens;
pub mod transfer;
pub mod verdicts;
pub mod waivers;
pub mod webhooks;

/// Longest wait for a connection, new or from the pool.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The pool of connections, and what is kept of what was read through it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Db {
    pool: PgPool,
    memo: Memo,
}

impl Db {
    /// Wraps a pool.
    #[must_use]
    pub fn new(pool: PgPool) -> Self {
        Self { pool, memo: Memo::default() }
    }

    /// Connects, failing soon and with a hint when that cannot work.
    pub async fn connect(url: &str, connections: u32) -> anyhow::Result<Self> {
        const NOT_AN_ADDRESS: &str = "`DATABASE_URL` is not a PostgreSQL address";
        const WHAT_ONE_IS: &str = "it looks like `postgres://user:password@host:5432/database`; \
                                   without it the server uses a private database of its own";
        // The driver takes any scheme.
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(Trouble::error(NOT_AN_ADDRESS, WHAT_ONE_IS));
        }
        let options = PgConnectOptions::from_str(url).or_trouble(NOT_AN_ADDRESS, WHAT_ONE_IS)?;
        let place = format!("{}:{}", options.get_host(), options.get_port());
        // A plan for whatever run may come is far worse than one for the run that is asked about;
        // compiling a query takes longer than any of these takes; and the disks that a page here
        // and a page there were dear on are gone, while a look at all of a run is dear.
        let options = options.application_name("torchtpu-conformance").options([
            ("plan_cache_mode", "force_custom_plan"),
            ("jit", "off"),
            ("random_page_cost", "1.1"),
        ]);
        let unreachable = format!("the database at `{place}` cannot be reached");
        let hint = "check that it runs and that the user, password and database in \
                    `DATABASE_URL` are right";
        // One connection by itself first: the pool would try again until its time is over, and
        // then say only that.
        let first = tokio::time::timeout(CONNECT_TIMEOUT, PgConnection::connect_with(&options));
        match first.await {
            Ok(connected) => connected.or_trouble(&unreachable, hint)?.close().await?,
            Err(_) => return Err(Trouble::error(format!("{unreachable}: no answer"), hint)),
        }
        let pool = PgPoolOptions::new()
            .max_connections(connections)
            .acquire_timeout(CONNECT_TIMEOUT)
            .connect_with(options)
            .await
            .or_trouble(&unreachable, hint)?;
        Ok(Self::new(pool))
    }

    /// Brings the schema up to date. Safe when several servers start at once.
    pub async fn migrate(&self) -> anyhow::Result<()> {
        self.apply(&crate::MIGRATOR).await
    }

    /// Brings the schema to what a directory says.
    pub async fn migrate_from(&self, folder: &Path) -> anyhow::Result<()> {
        let migrator = Migrator::new(folder).await.or_trouble(
            format!("the migrations in `{}` cannot be read", folder.display()),
            "a directory of migrations has files like `20261130050100_create_tokens.up.sql`",
        )?;
        self.apply(&migrator).await
    }

    async fn apply(&self, migrator: &Migrator) -> anyhow::Result<()> {
        migrator.run(&self.pool).await.or_trouble(
            "the migrations cannot be applied",
            "a newer server may have used this database, or a released migration was edited",
        )
    }

    /// The pool.
    #[must_use]
    pub const fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// What is kept of what was read.
    #[must_use]
    pub const fn memo(&self) -> &Memo {
        &self.memo
    }
}

/// Tells the planner what the tables hold now, of `attempts` in the part of that day; takes parts
/// of a second.
pub async fn refresh_statistics(pool: &PgPool, day: NaiveDate) -> sqlx::Result<()> {
    sqlx::query!(
        "ANALYZE cases, manifest_entries, case_verdicts, operators, operator_cases, signatures,
                 run_tallies, run_subjects, run_overloads,
                 run_overload_variants"
    )
    .execute(pool)
    .await?;
    sqlx::query!("SELECT analyze_attempts_part($1)", day).execute(pool).await?;
    Ok(())
}

/// Versions of the migrations that are applied.
pub async fn applied_migrations(pool: &PgPool) -> sqlx::Result<Vec<i64>> {
    sqlx::query_scalar!("SELECT version FROM _sqlx_migrations WHERE success").fetch_all(pool).await
}

/// Reads a word that a CHECK has let in.
pub(crate) fn word<T>(text: &str) -> sqlx::Result<T>
where
    T: std::str::FromStr<Err = protocol::UnknownWord>,
{
    text.parse().map_err(|error: protocol::UnknownWord| sqlx::Error::Decode(Box::new(error)))
}

/// Reads a count that is stored signed because PostgreSQL has no other.
pub(crate) fn count(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
