//! `runner coverage`: how much of ATen a build covers, by definitions that have a name.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use protocol::coverage::{Coverage, Definition, Usage};
use protocol::ingest_api::Attempt;
use protocol::inventory::{Change, Inventory, diff};
use protocol::{CaseKey, Outcome, Suite};

use super::session::{Tools, Wanted, open_device};
use super::{print, say};
use crate::Error;
use crate::args::{CoverageArgs, CoverageCommand, CoverageDiffArgs};
use crate::exit::Exit;
use crate::journal::{self, Record};
use crate::run_dir::RunDir;
use crate::worker::LogFolder;

pub(super) async fn execute(args: &CoverageArgs) -> Result<Exit, Error> {
    if let Some(CoverageCommand::Diff(args)) = &args.command {
        return print_diff(args);
    }
    let source = Source::find(args).await?;
    let mut usage = Usage::default();
    for run in &source.runs {
        add_run(&mut usage, &source.inventory, run)?;
    }
    let wanted: Vec<Definition> = Definition::ALL
        .iter()
        .filter(|word| args.definition.is_empty() || args.definition.contains(word))
        .copied()
        .collect();
    let counted: Vec<(Definition, Option<Coverage>)> =
        wanted.iter().map(|word| (*word, word.count(&source.inventory, &usage))).collect();
    let text = if args.json {
        as_json(&source, &counted, args.list)
    } else {
        as_text(&source, &counted, args.list)
    };
    print(&text)?;
    Ok(Exit::Success)
}

/// An inventory, and the kept runs that tell what of it was used.
struct Source {
    device: String,
    inventory: Inventory,
    runs: Vec<RunDir>,
}

impl Source {
    async fn find(args: &CoverageArgs) -> Result<Self, Error> {
        let runs_dir = args.runs.directory();
        if args.run.is_empty() {
            let (device, inventory) = ask_device(args).await?;
            let runs = newest_of_each_suite(&runs_dir, &device)?;
            return Ok(Self { device, inventory, runs });
        }
        let find = |run: &String| RunDir::find_or_open(&runs_dir, run);
        let runs: Vec<RunDir> = args.run.iter().map(find).collect::<Result<_, _>>()?;
        for run in &runs {
            if let Some(inventory) = run.inventory()? {
                return Ok(Self { device: run.run()?.device_profile, inventory, runs });
            }
        }
        Err(Error::Input {
            message: format!("run `{}` has no inventory of operators", args.run[0]),
            hint: "leave out `--run` to ask the build that is installed now".to_owned(),
        })
    }
}

async fn ask_device(args: &CoverageArgs) -> Result<(String, Inventory), Error> {
    let tools = Tools::prepare(&args.python)?;
    let logs = tempfile::tempdir().map_err(Error::file("write", &std::env::temp_dir()))?;
    let logs = LogFolder::new(logs.path().to_owned());
    let mut ready = open_device(&tools, args.device, &Wanted::one(), &logs).await?;
    let inventory = ready.worker.inventory().await;
    ready.worker.leave().await;
    ready.backend.stop().await;
    let inventory = inventory.map_err(|message| Error::Backend {
        device: ready.profile.to_string(),
        message: format!("the inventory of operators cannot be taken: {message}"),
        hint: "`runner doctor` checks the environment".to_owned(),
    })?;
    Ok((ready.profile.to_string(), inventory))
}

/// The newest kept run of the operator suite on this device, and of Tier 1 there.
fn newest_of_each_suite(runs_dir: &Path, device: &str) -> Result<Vec<RunDir>, Error> {
    let mut found: Vec<RunDir> = Vec::new();
    for suite in [Suite::Operators, Suite::Tier1] {
        let mut kept = Vec::new();
        for run in RunDir::list(runs_dir)? {
            // A folder that cannot be read holds no result to count.
            let Ok(about) = run.run() else { continue };
            if about.device_profile == device && about.suites.contains(&suite) {
                kept.push((about.started_at, run));
            }
        }
        let newest = kept.into_iter().max_by_key(|(started_at, _)| *started_at);
        if let Some((_, run)) = newest
            && found.iter().all(|other| other.path() != run.path())
        {
            say(&format!("counting what run `{}` executed", run.name()));
            found.push(run);
        }
    }
    Ok(found)
}

/// Adds what the cases of a kept run dispatched, by the last attempt of each.
fn add_run(usage: &mut Usage, inventory: &Inventory, run: &RunDir) -> Result<(), Error> {
    let mut last: BTreeMap<CaseKey, Attempt> = BTreeMap::new();
    journal::scan(&run.journal(), |record| {
        if let Record::Attempt(attempt) = record {
            last.insert(attempt.case.clone(), *attempt);
        }
    })?;
    for (case, attempt) in &last {
        let operators = attempt.evidence.operators.clone().unwrap_or_default();
        match case.suite() {
            Suite::Operators => usage.add_operator_case(
                operators.keys(),
                attempt.operator.as_deref(),
                attempt.outcome == Outcome::Pass,
                inventory,
            ),
            Suite::Tier1 => usage.add_model(&operators),
            Suite::Tier2 | Suite::Dynamism | Suite::Imported(_) => {}
        }
    }
    Ok(())
}

fn as_text(source: &Source, counted: &[(Definition, Option<Coverage>)], list: bool) -> String {
    let mut text = format!(
        "{} overloads known to the dispatcher of `{}`, kernels under {}\n",
        source.inventory.overloads.len(),
        source.device,
        source.inventory.dispatch_key
    );
    for (definition, coverage) in counted {
        let name = definition.as_str();
        let what = definition.describe();
        let Some(coverage) = coverage else {
            let _ = writeln!(text, "{name:<21} no run was kept that tells it  ({what})");
            continue;
        };
        let (part, whole) = (coverage.numerator, coverage.denominator);
        let unit = coverage.unit;
        let _ = writeln!(
            text,
            "{name:<21} {part:>7} of {whole:>7} {unit:<9} {:>7}  {what}",
            percentage(part, whole)
        );
        for item in coverage.items.iter().filter(|_| list) {
            let mark = if item.covered { '+' } else { '-' };
            let class = item.class.map_or("unknown", protocol::inventory::Class::as_str);
            let _ = writeln!(text, "  {mark} {}  {class}  {}", item.name, item.weight);
        }
    }
    text
}

/// Of nothing it is "none", and not all of it.
#[expect(clippy::cast_precision_loss, reason = "shown with one digit after the point")]
fn percentage(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "none".to_owned();
    }
    format!("{:.1} %", part as f64 * 100.0 / whole as f64)
}

fn as_json(source: &Source, counted: &[(Definition, Option<Coverage>)], list: bool) -> String {
    let numbers: Vec<_> = counted
        .iter()
        .map(|(definition, coverage)| {
            let mut line = serde_json::json!({
                "definition": definition,
                "counts": definition.describe(),
                "unit": coverage.as_ref().map(|c| c.unit),
                "numerator": coverage.as_ref().map(|c| c.numerator),
                "denominator": coverage.as_ref().map(|c| c.denominator),
            });
            if list {
                line["items"] = serde_json::json!(coverage.as_ref().map(|c| &c.items));
            }
            line
        })
        .collect();
    let runs: Vec<String> = source.runs.iter().map(RunDir::name).collect();
    let whole = serde_json::json!({
        "device": source.device,
        "dispatch_key": source.inventory.dispatch_key,
        "overloads": source.inventory.overloads.len(),
        "runs": runs,
        "coverage": numbers,
    });
    format!("{whole}\n")
}

fn print_diff(args: &CoverageDiffArgs) -> Result<Exit, Error> {
    let before = read_inventory(args, &args.before)?;
    let after = read_inventory(args, &args.after)?;
    let changes = diff(&before, &after);
    let mut text = String::new();
    for change in &changes {
        if args.json {
            let line = serde_json::to_string(change).expect("texts only");
            let _ = writeln!(text, "{line}");
            continue;
        }
        let _ = match change {
            Change::New { overload, class } => writeln!(text, "new     {overload}  {class}"),
            Change::Lost { overload, class } => writeln!(text, "lost    {overload}  {class}"),
            Change::Class { overload, before, after } => {
                writeln!(text, "class   {overload}  {before} → {after}")
            }
            Change::Schema { overload, before, after } => {
                writeln!(text, "schema  {overload}\n  - {before}\n  + {after}")
            }
        };
    }
    if !args.json {
        let _ = writeln!(text, "{} differences", changes.len());
    }
    print(&text)?;
    Ok(Exit::Success)
}

fn read_inventory(args: &CoverageDiffArgs, name: &str) -> Result<Inventory, Error> {
    let file = Path::new(name);
    if file.is_file() {
        let text = std::fs::read(file).map_err(Error::file("read", file))?;
        return serde_json::from_slice(&text).map_err(|error| Error::Input {
            message: format!("`{name}` is no inventory: {error}"),
            hint: "an inventory is the `inventory.json` in the directory of a run".to_owned(),
        });
    }
    let run = RunDir::find_or_open(&args.runs.directory(), name)?;
    run.inventory()?.ok_or_else(|| Error::Input {
        message: format!("run `{}` has no inventory of operators", run.name()),
        hint: "runs keep one since this version; execute a small run of that build again"
            .to_owned(),
    })
}
