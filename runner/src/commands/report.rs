//! `runner report`: makes the reports of a kept run again, from its journal.

use std::collections::HashMap;
use std::sync::Arc;

use super::print;
use crate::Error;
use crate::args::ReportArgs;
use crate::event::{AttemptFinished, Ending, Event, RunEnded, RunStarted};
use crate::exit::Exit;
use crate::journal::{self, Record};
use crate::report::Consumer as _;
use crate::report::console::{Console, Form};
use crate::report::file::Reports;
use crate::run_dir::RunDir;

pub(super) fn execute(args: &ReportArgs) -> Result<Exit, Error> {
    let runs_dir = args.runs.directory();
    if args.list {
        return list(&runs_dir, args.json);
    }
    let run_dir = RunDir::find(&runs_dir, &args.run)?;
    let mut reports = Reports::all(Console::new(Form::of(args.json)));
    for event in events(&run_dir)? {
        reports.event(&event);
    }
    reports.finish().map_err(Error::file("write", run_dir.path()))?;
    Ok(Exit::Success)
}

fn list(runs_dir: &std::path::Path, json: bool) -> Result<Exit, Error> {
    let mut text = String::new();
    for run_dir in RunDir::list(runs_dir)? {
        let run = run_dir.run()?;
        let delivered = match crate::upload::progress(&run_dir) {
            Some(progress) if progress.sealed => "delivered",
            Some(_) => "partly delivered",
            None => "local",
        };
        if json {
            let line = serde_json::json!({
                "run": run_dir.name(), "run_key": run.run_key, "device_profile": run.device_profile,
                "started_at": run.started_at, "delivered": delivered, "path": run_dir.path(),
            });
            text.push_str(&format!("{line}\n"));
            continue;
        }
        let started = run.started_at.format("%Y-%m-%d %H:%M");
        text.push_str(&format!(
            "{started}  {:<8} {delivered:<16} {}\n",
            run.device_profile,
            run_dir.name()
        ));
    }
    print(&text)?;
    Ok(Exit::Success)
}

/// The events of a kept run, as they were.
fn events(run_dir: &RunDir) -> Result<Vec<Event>, Error> {
    let run = run_dir.run()?;
    let plan = run_dir.plan()?;
    let keys = plan.cases.iter().map(|case| case.key.clone());
    let planned: Vec<_> = keys.filter(|key| plan.holds(key)).collect();
    let records = journal::read(&run_dir.journal())?.records;
    let mut last: HashMap<protocol::CaseKey, u32> = HashMap::new();
    let mut ended = None;
    for record in &records {
        match record {
            Record::Attempt(attempt) => {
                last.insert(attempt.case.clone(), attempt.attempt);
            }
            Record::Ended { at, ending, peak_memory } => {
                ended = Some((*at, ending.clone(), *peak_memory));
            }
            Record::Started { .. } => ended = None,
            Record::Finding { .. } => {}
        }
    }
    let not_run = planned.iter().filter(|key| !last.contains_key(*key)).count() as u64;
    let mut events = vec![Event::RunStarted(Arc::new(RunStarted {
        run: run.clone(),
        manifest: Arc::new(run_dir.manifest()?),
        planned: Arc::new(planned),
        already_done: 0,
        run_dir: run_dir.path().to_owned(),
        device_reason: plan.settings.device_reason,
        repro_command: format!("runner repro {}", run_dir.name()),
        waivers: Arc::new(run_dir.waivers()?),
    }))];
    for record in records {
        match record {
            Record::Attempt(attempt) => {
                let retrying = last.get(&attempt.case) != Some(&attempt.attempt);
                let attempt = Arc::new(*attempt);
                events.push(Event::AttemptFinished(AttemptFinished { attempt, retrying }));
            }
            Record::Finding { text } => events.push(Event::Finding { text }),
            Record::Started { .. } | Record::Ended { .. } => {}
        }
    }
    let killed = || (run.started_at, "the runner was killed".to_owned(), None);
    let (finished_at, ending, peak_memory) = ended.unwrap_or_else(killed);
    let ending = match ending {
        text if text == Ending::Finished.describe() => Ending::Finished,
        reason => Ending::Aborted { reason },
    };
    events.push(Event::RunEnded(RunEnded { finished_at, ending, not_run, peak_memory }));
    Ok(events)
}
