//! `server gate`: asks a gate on the server's own machine, or tries a changed gate file on past
//! runs, as of the moment at which each was sealed.

use std::num::NonZeroU32;
use std::path::Path;
use std::process::ExitCode;

use super::Opened;
use crate::app::{AppState, Settings};
use crate::args::{GateArgs, Reads};
use crate::clock::Clock;
use crate::db::Db;
use crate::embedded::Use;
use crate::gates::{self, Gates};
use crate::judge::gate::{Answer, GateAnswer, GateFile};
use crate::trouble::{OrTrouble as _, Trouble};

/// The exit code of a gate that is closed; an incomplete one is 5, as with `runner gate`.
const CLOSED: u8 = 1;
const INCOMPLETE: u8 = 5;

pub(super) async fn run(args: GateArgs) -> anyhow::Result<ExitCode> {
    let loaded = Gates::load(args.gates.as_deref())?;
    let changed = args.rules.as_deref().map(|path| read_rules(&args.name, path)).transpose()?;
    let opened = Opened::open(&args.database, Use::Command).await?;
    let done = match changed {
        None => ask(&opened.db, loaded, &args).await,
        Some(changed) => try_on_past_runs(&opened.db, loaded, &changed, &args).await,
    };
    opened.close().await?;
    done
}

fn read_rules(name: &str, path: &Path) -> anyhow::Result<GateFile> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .or_trouble(format!("`{shown}` cannot be read"), "name a gate file with `--rules`")?;
    GateFile::parse(name, &shown, &text)
        .map_err(|error| Trouble::error(error.to_string(), "docs/gates.md describes every field"))
}

/// What a command needs of the state that handlers share.
fn state(db: &Db, gates: Gates) -> AppState {
    let settings = Settings {
        public_url: String::new(),
        reads: Reads::Public,
        ingest_limit: 1,
        token_requests_per_minute: NonZeroU32::MAX,
        unknown_tokens_per_minute: NonZeroU32::MAX,
        client_address_header: None,
    };
    AppState::new(db.clone(), Clock::system(), gates, settings)
}

#[expect(clippy::print_stdout, reason = "the answer is the command's data")]
async fn ask(db: &Db, loaded: Gates, args: &GateArgs) -> anyhow::Result<ExitCode> {
    let state = state(db, loaded);
    let answer = gates::ask(&state, &args.name, &args.candidate, args.device.as_deref())
        .await
        .map_err(said)?;
    println!("gate `{}`: {}", answer.gate, answer.answer);
    for (rule, check) in checks(&answer) {
        println!("  {rule}\t{}\t{}\t{}", check.check, check.answer, check.text);
    }
    Ok(match answer.answer {
        Answer::Open => ExitCode::SUCCESS,
        Answer::Closed => ExitCode::from(CLOSED),
        Answer::Incomplete => ExitCode::from(INCOMPLETE),
    })
}

fn checks(answer: &GateAnswer) -> impl Iterator<Item = (&str, &crate::judge::gate::CheckAnswer)> {
    answer
        .rules
        .iter()
        .flat_map(|rule| rule.checks.iter().map(move |check| (rule.name.as_str(), check)))
}

#[expect(clippy::print_stdout, reason = "the list is the command's data")]
async fn try_on_past_runs(
    db: &Db,
    loaded: Gates,
    changed: &GateFile,
    args: &GateArgs,
) -> anyhow::Result<ExitCode> {
    let state = state(db, loaded);
    let device = args.device.as_deref();
    let past =
        gates::past_runs(&state, changed, device, i64::from(args.last)).await.map_err(said)?;
    println!("run\tsealed\tpresent rules\tchanged rules\twhy");
    for run in past {
        let Some(at) = run.sealed_at else { continue };
        let present = match state.gates.find(&args.name) {
            Ok(gate) => {
                let (answer, _) =
                    gates::evaluate_once(&state, gate, &run.key, device, at).await.map_err(said)?;
                answer.answer.as_str()
            }
            Err(_) => "no such gate",
        };
        let (answer, _) =
            gates::evaluate_once(&state, changed, &run.key, device, at).await.map_err(said)?;
        let why: Vec<String> = checks(&answer)
            .filter(|(_, check)| check.answer != Answer::Open)
            .map(|(rule, check)| format!("{rule}: {}", check.text))
            .collect();
        let mark = if present == answer.answer.as_str() { "" } else { " (differs)" };
        println!(
            "{}\t{}\t{present}\t{}{mark}\t{}",
            run.key,
            at.format("%F %R"),
            answer.answer,
            why.join("; ")
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// An error of a request, on the command line.
fn said(error: crate::error::Error) -> anyhow::Error {
    let hint = error.hint();
    anyhow::Error::new(error).context(Trouble::new("the gate cannot be asked", hint))
}
