//! `runner blockers`: which operators to fix first, so that most models of a kept run get on.

use std::collections::BTreeMap;

use protocol::blockers::{Hindered, Step, rank};
use protocol::ingest_api::Attempt;
use protocol::{CaseKey, Outcome, Suite};
use serde::Serialize;

use super::print;
use crate::Error;
use crate::args::{BlockersArgs, Weight};
use crate::exit::Exit;
use crate::journal::{self, Record};
use crate::run_dir::RunDir;

/// What is printed.
#[derive(Debug, Serialize)]
struct Ranking {
    /// Run key.
    run: String,
    /// Cases of Tier 1 that were executed or share an execution.
    models: usize,
    /// Of those, the ones that an operator of the backend ended.
    hindered: usize,
    /// Of those, the ones of which not every such operator is known; they are in no step.
    not_known: Vec<CaseKey>,
    /// Held up by this host alone, which cannot execute what a TPU could; they are in no step.
    host_limited: Vec<CaseKey>,
    /// What `weight` counts.
    weight: &'static str,
    steps: Vec<Step>,
}

pub(super) fn execute(args: &BlockersArgs) -> Result<Exit, Error> {
    let run_dir = RunDir::find_or_open(&args.runs.directory(), &args.run)?;
    let ranking = ranking(&run_dir, args.weight)?;
    if args.json {
        let text = serde_json::to_string_pretty(&ranking).expect("a ranking has text keys only");
        print(&format!("{text}\n"))?;
    } else {
        print(&describe(&ranking, args.top))?;
    }
    Ok(Exit::Success)
}

fn ranking(run_dir: &RunDir, weight: Weight) -> Result<Ranking, Error> {
    let mut last: BTreeMap<CaseKey, Attempt> = BTreeMap::new();
    journal::scan(&run_dir.journal(), |record| {
        if let Record::Attempt(attempt) = record
            && attempt.case.suite() == Suite::Tier1
        {
            last.insert(attempt.case.clone(), *attempt);
        }
    })?;
    if last.is_empty() {
        return Err(Error::NothingSelected {
            message: format!("the run `{}` has no result of Tier 1", run_dir.name()),
            hint: "`runner --tier 1 --model-list FILE` makes one".to_owned(),
        });
    }
    let popularity: BTreeMap<_, _> =
        run_dir.plan()?.cases.into_iter().map(|case| (case.key, case.popularity)).collect();
    let mut ranking = Ranking {
        run: run_dir.run()?.run_key.to_string(),
        models: last.len(),
        hindered: 0,
        not_known: Vec::new(),
        host_limited: Vec::new(),
        weight: weight.describe(),
        steps: Vec::new(),
    };
    let mut hindered = Vec::new();
    for (case, attempt) in last {
        let counts = match weight {
            Weight::Models => 1,
            Weight::Popularity => popularity.get(&case).copied().flatten().unwrap_or(0),
        };
        match (&attempt.evidence.blockers, attempt.outcome) {
            (Some(blockers), _) if !blockers.is_empty() => {
                match Hindered::of(case.to_string(), counts, blockers) {
                    Some(one) => hindered.push(one),
                    None => ranking.host_limited.push(case),
                }
            }
            (_, Outcome::HostLimit) => ranking.host_limited.push(case),
            (_, Outcome::Error | Outcome::Unsupported | Outcome::Crash) => {
                ranking.not_known.push(case);
            }
            _ => {}
        }
    }
    ranking.hindered = hindered.len() + ranking.not_known.len();
    ranking.steps = rank(&hindered);
    Ok(ranking)
}

fn describe(ranking: &Ranking, top: usize) -> String {
    let mut text = format!(
        "run {}: {} model cases, {} ended by an operator of the backend; counted are {}\n",
        ranking.run, ranking.models, ranking.hindered, ranking.weight
    );
    if !ranking.steps.is_empty() {
        text.push_str(&format!(
            "\n{:>12} {:>12}  fix these, in this order\n",
            "then run", "so far"
        ));
    }
    for step in ranking.steps.iter().take(top) {
        let operators: Vec<&str> = step.operators.iter().map(String::as_str).collect();
        let more = format!("+{}", step.weight);
        text.push_str(&format!(
            "{more:>12} {:>12}  {}\n",
            step.weight_so_far,
            operators.join(" + ")
        ));
    }
    if ranking.steps.len() > top {
        text.push_str(&format!("  … and {} more steps\n", ranking.steps.len() - top));
    }
    for (what, cases) in [
        ("are held up by this host alone, which simulates the backend", &ranking.host_limited),
        ("need more operators than are known", &ranking.not_known),
    ] {
        if let Some(first) = cases.first() {
            text.push_str(&format!("\n{} {what}, for example {first}\n", cases.len()));
        }
    }
    text
}
