//! `server retention`: deletes what is older than its class is kept, or says what would go.

use std::collections::HashSet;
use std::process::ExitCode;

use chrono::Utc;

use super::Opened;
use crate::args::RetentionArgs;
use crate::db::Db;
use crate::embedded::Use;
use crate::gates::Gates;
use crate::retention::{self, Days, Fate};

pub(super) async fn run(args: RetentionArgs) -> anyhow::Result<ExitCode> {
    let gates = Gates::load(args.gates.as_deref())?;
    let pinned = gates
        .iter()
        .flat_map(|gate| &gate.rules)
        .filter_map(|rule| rule.baseline.clone())
        .collect();
    let opened = Opened::open(&args.database, Use::Command).await?;
    let done = work(&opened.db, &args, &pinned).await;
    opened.close().await?;
    done.map(|()| ExitCode::SUCCESS)
}

#[expect(clippy::print_stdout, reason = "the list is the command's data")]
async fn work(db: &Db, args: &RetentionArgs, pinned: &HashSet<String>) -> anyhow::Result<()> {
    let days = Days {
        evidence: args.evidence_days,
        nightly: args.nightly_days,
        void: args.void_days,
        other: args.other_days,
    };
    let now = Utc::now();
    for planned in retention::plan(db, days, pinned, now).await? {
        let fate = match planned.fate {
            Fate::Keep => "keep",
            Fate::DropEvidence => "drop evidence",
            Fate::Delete => "delete",
        };
        let rows = if args.dry_run {
            format!("{} attempts", planned.run.attempts)
        } else {
            format!("{} rows", retention::carry_out(db, &planned, i64::from(args.batch)).await?)
        };
        let because = planned.kept_because.unwrap_or("");
        println!(
            "{fate}\t{}\t{}\t{}\t{rows}\t{because}",
            planned.run.key,
            planned.class,
            planned.run.started_at.format("%F")
        );
    }
    if args.dry_run {
        let before = now - retention::ARTIFACT_GRACE;
        let (files, bytes) = crate::db::artifacts::count_unnamed(db.pool(), before).await?;
        println!("{files} files that no attempt names, of {bytes} bytes");
        println!("nothing was deleted: --dry-run");
    } else {
        let parts = crate::db::retention::drop_empty_parts(db.pool(), now.date_naive()).await?;
        let files = retention::delete_artifacts(db, i64::from(args.batch), now).await?;
        println!("{files} files that no attempt names were deleted");
        println!("{parts} empty parts of the attempts were dropped");
    }
    Ok(())
}
