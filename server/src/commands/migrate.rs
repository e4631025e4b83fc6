//! `server migrate`: the schema up to date, back to a version, or where it is.

use std::process::ExitCode;

use super::Opened;
use crate::args::MigrateArgs;
use crate::db::{self, Db};
use crate::embedded::Use;
use crate::trouble::{OrTrouble as _, Trouble};

pub(super) async fn run(args: MigrateArgs) -> anyhow::Result<ExitCode> {
    let opened = Opened::open_as_it_is(&args.database, Use::Command).await?;
    let done = migrate(&opened.db, &args).await;
    opened.close().await?;
    done.map(|()| ExitCode::SUCCESS)
}

async fn migrate(db: &Db, args: &MigrateArgs) -> anyhow::Result<()> {
    if let Some(version) = args.down_to {
        let known: Vec<i64> = crate::MIGRATOR.iter().map(|migration| migration.version).collect();
        if version != 0 && !known.contains(&version) {
            return Err(Trouble::error(
                format!("there is no migration {version}"),
                "`server migrate --status` lists them",
            ));
        }
        crate::MIGRATOR.undo(db.pool(), version).await.or_trouble(
            format!("the schema cannot be taken back to {version}"),
            "what stands in the way is said above; the database is as it was before that step",
        )?;
    } else if !args.status {
        db.migrate().await?;
    }
    print(db).await
}

#[expect(clippy::print_stdout, reason = "the list is the command's data")]
async fn print(db: &Db) -> anyhow::Result<()> {
    // Before the first migration there is no table of them.
    let applied = db::applied_migrations(db.pool()).await.unwrap_or_default();
    for migration in crate::MIGRATOR.iter().filter(|m| m.migration_type.is_up_migration()) {
        let state = if applied.contains(&migration.version) { "applied" } else { "pending" };
        println!("{}\t{state}\t{}", migration.version, migration.description);
    }
    Ok(())
}
