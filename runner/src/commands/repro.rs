//! `runner repro`: stand-alone Python for one case of a kept run.

use std::path::PathBuf;

use protocol::ingest_api::Attempt;

use super::repro_proof::Prover;
use super::{print, say};
use crate::Error;
use crate::args::ReproArgs;
use crate::device::Profile;
use crate::exit::Exit;
use crate::journal::{self, Record};
use crate::python::PythonEnvironment;
use crate::run_dir::RunDir;
use crate::worker_package::unpack_sim_wrapper;

pub(super) fn execute(args: &ReproArgs) -> Result<Exit, Error> {
    let run_dir = RunDir::find(&args.runs.directory(), args.of.run())?;
    let chosen = attempts_of(&run_dir, args.of.case())?;
    let first = &chosen[0];
    let Some(attempt) = chosen.iter().find(|attempt| !attempt.evidence.repro.is_empty()) else {
        return Err(Error::Usage {
            message: format!("`{}` has no repro: its worker ended before it wrote one", first.case),
            hint: format!("execute it alone: `runner --filter '{}' …`", first.case),
        });
    };
    let environment = environment(&run_dir, args)?;
    let python = python_of(&run_dir, args)?;
    let mut object = serde_json::json!({
        "case": attempt.case, "attempt": attempt.attempt, "outcome": attempt.outcome,
        "message": attempt.message, "python": python,
    });
    say(&format!("# {}: {} {}", attempt.case, attempt.outcome, attempt.message));
    if args.kept {
        let script = environment + &attempt.evidence.repro;
        object["script"] = serde_json::json!(script);
        print(&if args.json { format!("{object}\n") } else { script })?;
        return Ok(Exit::Success);
    }
    let proof =
        Prover { args, run_dir: &run_dir, attempt, python: &python, environment }.prove()?;
    object["script"] = serde_json::json!(proof.script);
    object["path"] = serde_json::json!(proof.path);
    object["ended"] = serde_json::json!(proof.ended);
    object["proved"] = serde_json::json!(proof.holds);
    say(&format!("written to {}", proof.path.display()));
    say(&proof.verdict());
    print(&if args.json { format!("{object}\n") } else { proof.script })?;
    Ok(if proof.holds { Exit::Success } else { Exit::SomeFailed })
}

/// The attempts of the one case that a word names: a whole key, or a part that no other case has.
/// At least one.
pub(super) fn attempts_of(run_dir: &RunDir, word: &str) -> Result<Vec<Attempt>, Error> {
    let records = journal::read(&run_dir.journal())?.records;
    let mut attempts: Vec<Attempt> = records
        .into_iter()
        .filter_map(|record| match record {
            Record::Attempt(attempt) => Some(*attempt),
            Record::Started { .. } | Record::Finding { .. } | Record::Ended { .. } => None,
        })
        .filter(|attempt| attempt.case.as_str().contains(word))
        .collect();
    if attempts.iter().any(|attempt| attempt.case.as_str() == word) {
        attempts.retain(|attempt| attempt.case.as_str() == word);
    }
    let Some(first) = attempts.first() else {
        return Err(Error::Usage {
            message: format!("run `{}` has no result for a case like `{word}`", run_dir.name()),
            hint: "name the case as the summary and the reports do".to_owned(),
        });
    };
    if let Some(other) = attempts.iter().find(|attempt| attempt.case != first.case) {
        return Err(Error::Usage {
            message: format!(
                "`{word}` names several cases, among them `{}` and `{}`",
                first.case, other.case
            ),
            hint: "name the whole case".to_owned(),
        });
    }
    Ok(attempts)
}

/// The Python that is asked for, else that of the run.
fn python_of(run_dir: &RunDir, args: &ReproArgs) -> Result<PathBuf, Error> {
    let asked = args.python.python.clone().filter(|path| !path.as_os_str().is_empty());
    asked.map_or_else(|| run_dir.plan().map(|plan| plan.settings.python), Ok)
}

/// Python that sets what the device needs before anything is imported.
fn environment(run_dir: &RunDir, args: &ReproArgs) -> Result<String, Error> {
    let settings = run_dir.plan()?.settings;
    let Ok(profile) = settings.profile.parse::<Profile>() else { return Ok(String::new()) };
    // The environment of then may be gone; the script itself is still worth having.
    let Ok(python) = PythonEnvironment::ask(&python_of(run_dir, args)?) else {
        return Ok(String::new());
    };
    let wrapper = unpack_sim_wrapper(&args.python.setup.directory())?;
    let mut variables = profile.environment(&python, Some(&wrapper));
    if variables.is_empty() {
        return Ok(String::new());
    }
    variables.insert("TORCH_DEVICE_BACKEND_AUTOLOAD".to_owned(), "0".to_owned());
    let json = serde_json::to_string(&variables).expect("texts only");
    let python = python.executable.display();
    Ok(format!("# execute with {python}\nimport os\nos.environ.update({json})\n"))
}
