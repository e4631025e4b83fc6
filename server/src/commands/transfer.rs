//! `server export` and `server import`: runs to and from a file, for another server or a drawer.

use std::process::ExitCode;

use tokio::io::{AsyncBufRead, BufReader, BufWriter};

use super::Opened;
use crate::args::{ExportArgs, ImportArgs};
use crate::embedded::Use;
use crate::transfer::{self, Counts};
use crate::trouble::OrTrouble as _;

pub(super) async fn export(args: ExportArgs) -> anyhow::Result<ExitCode> {
    let opened = Opened::open(&args.database, Use::Command).await?;
    let mut out = BufWriter::new(tokio::io::stdout());
    let done = transfer::export(&opened.db, &args.runs, &mut out).await;
    opened.close().await?;
    Ok(tell("written", &done?))
}

pub(super) async fn import(args: ImportArgs) -> anyhow::Result<ExitCode> {
    let mut lines: Box<dyn AsyncBufRead + Unpin + Send> = if args.file.as_os_str() == "-" {
        Box::new(BufReader::new(tokio::io::stdin()))
    } else {
        let file = tokio::fs::File::open(&args.file).await.or_trouble(
            format!("`{}` cannot be read", args.file.display()),
            "name a file that `server export` wrote",
        )?;
        Box::new(BufReader::new(file))
    };
    let opened = Opened::open(&args.database, Use::Command).await?;
    let done = transfer::import(&opened.db, &mut lines).await;
    opened.close().await?;
    Ok(tell("taken in", &done?))
}

#[expect(clippy::print_stderr, reason = "the data goes to standard output")]
fn tell(what: &str, counts: &Counts) -> ExitCode {
    eprintln!(
        "{} runs and {} attempts were {what}; {} attempts were there already",
        counts.runs, counts.attempts, counts.replayed
    );
    for (run, why) in &counts.left_out {
        eprintln!("left out: run `{run}`: {why}");
    }
    if counts.left_out.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
