//! Makes the script of a failure small, executes it on its own, and says whether it fails alike.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use protocol::ingest_api::Attempt;
use protocol::{Direction, Outcome, Suite};
use serde::Deserialize;

use super::say;
use crate::Error;
use crate::args::ReproArgs;
use crate::device::Profile;
use crate::operator_key::operator_case;
use crate::python::PythonEnvironment;
use crate::run_dir::RunDir;
use crate::worker::process::signal_name;
use crate::worker_package::{unpack_package, unpack_sim_wrapper};

/// How long a script may take; importing the backend on a busy host is most of it.
const SCRIPT_LIMIT: Duration = Duration::from_secs(300);
/// How long the search may take beyond what it was given: importing, and a last candidate.
const SEARCH_GRACE: Duration = Duration::from_secs(300);
/// How often a process is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// What makes and proves one script.
pub(super) struct Prover<'a> {
    pub(super) args: &'a ReproArgs,
    pub(super) run_dir: &'a RunDir,
    pub(super) attempt: &'a Attempt,
    pub(super) python: &'a Path,
    /// Lines that set the device's environment.
    pub(super) environment: String,
}

/// A script that was executed on its own.
pub(super) struct Proof {
    pub(super) script: String,
    pub(super) path: PathBuf,
    /// How it ended, in words.
    pub(super) ended: String,
    /// Whether it failed as the case did.
    pub(super) holds: bool,
}

/// What the search for a smaller script answers.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Found {
    Script { script: String, kind: String, said: String, tried: u64, steps: u64 },
    None { problem: String },
}

/// How a failure shows itself outside.
#[derive(Debug, Clone, PartialEq, Eq)]
struct End {
    /// Class of the exception, or `SIGABRT`.
    kind: String,
    /// First line of what was said; empty when nothing is expected of it.
    said: String,
}

impl Proof {
    pub(super) fn verdict(&self) -> String {
        if self.holds {
            format!("executed on its own, it fails in the same way: {}", self.ended)
        } else {
            format!("executed on its own, it does not fail in the same way: {}", self.ended)
        }
    }
}

impl Prover<'_> {
    pub(super) fn prove(&self) -> Result<Proof, Error> {
        let (script, expected) = self.script()?;
        let script = format!("{}{script}", self.environment);
        let path = match &self.args.output {
            Some(path) => path.clone(),
            None => self.default_path()?,
        };
        std::fs::write(&path, &script).map_err(Error::file("write", &path))?;
        let (status, output) = self.execute(&path)?;
        let end = End::of(status, &output, &expected);
        let ended = match (&end, status) {
            (Some(end), _) if end.said.is_empty() => end.kind.clone(),
            (Some(end), _) => format!("{}: {}", end.kind, end.said),
            (None, None) => format!("no end within {} s", SCRIPT_LIMIT.as_secs()),
            (None, Some(status)) => status.to_string(),
        };
        let holds = end.is_some_and(|end| end.is_like(&expected));
        Ok(Proof { script, path, ended, holds })
    }

    /// A small script of the call where there is one, else the one kept with the run.
    fn script(&self) -> Result<(String, End), Error> {
        let kept = || {
            let said = self.attempt.message.clone();
            let end = End { kind: self.attempt.error_class.clone(), said };
            (self.attempt.evidence.repro.clone(), end)
        };
        if self.attempt.case.suite() != Suite::Operators || self.args.minimise == 0 {
            return Ok(kept());
        }
        match self.search()? {
            Found::Script { script, kind, said, tried, steps } => {
                say(&format!("{steps} steps made it smaller; {tried} were tried"));
                if !self.is_of_the_case(&kind) {
                    say(&format!(
                        "warning: the call alone ends as `{kind}`, the case as `{}`",
                        self.attempt.error_class
                    ));
                }
                Ok((script, End { kind, said }))
            }
            Found::None { problem } => {
                say(&format!("note: {problem}; it is left as it was kept"));
                Ok(kept())
            }
        }
    }

    /// Whether a script that ends so shows what the case showed.
    fn is_of_the_case(&self, kind: &str) -> bool {
        if matches!(self.attempt.outcome, Outcome::Mismatch | Outcome::Fallback) {
            return kind == "AssertionError";
        }
        kind == self.attempt.error_class
    }

    fn search(&self) -> Result<Found, Error> {
        let none = |problem: &str| Ok(Found::None { problem: problem.to_owned() });
        let Some(case) = operator_case(&self.attempt.case) else {
            return none("its key is of another version");
        };
        let settings = self.run_dir.plan()?.settings;
        let Ok(profile) = settings.profile.parse::<Profile>() else {
            return none("its device is unknown to this version");
        };
        let cache = self.args.python.setup.directory();
        let package = match &self.args.python.worker_package {
            Some(package) => package.clone(),
            None => unpack_package(&cache)?,
        };
        let environment = PythonEnvironment::ask(self.python)?;
        let wrapper = unpack_sim_wrapper(&cache)?;
        let mut variables: BTreeMap<String, String> =
            profile.environment(&environment, Some(&wrapper));
        variables.insert("PYTHONPATH".to_owned(), package.display().to_string());
        let comparisons = self.attempt.evidence.comparisons.iter();
        let tolerance = comparisons
            .flat_map(|comparison| &comparison.tensors)
            .find(|tensor| !tensor.held)
            .map(|tensor| tensor.tolerance);
        let variant = self.attempt.case.planned_variant();
        let request = serde_json::json!({
            "case": self.attempt.case,
            "entry": case.entry,
            "sample": case.sample,
            "error_input": case.error_input,
            "dtype": variant.dtype,
            "mode": variant.mode,
            "train": variant.direction == Direction::Train,
            "layout": case.layout,
            "rtol": tolerance.map_or(1e-5, |tolerance| tolerance.rtol),
            "atol": tolerance.map_or(1e-5, |tolerance| tolerance.atol),
            "refused": self.attempt.outcome == Outcome::Mismatch
                && self.attempt.message.starts_with("expected error"),
            "seconds": self.args.minimise,
        });
        let folder = tempfile::tempdir().map_err(Error::file("write", &std::env::temp_dir()))?;
        let (question, answer) = (folder.path().join("request"), folder.path().join("answer"));
        std::fs::write(&question, request.to_string()).map_err(Error::file("write", &question))?;
        let mut command = Command::new(self.python);
        command
            .args(["-m", "conformance_worker", "repro", "--device", &profile.to_string()])
            .arg("--request")
            .arg(&question)
            .arg("--answer")
            .arg(&answer)
            .envs(&variables);
        let limit = Duration::from_secs(self.args.minimise) + SEARCH_GRACE;
        say("looking for the smallest script that fails in the same way");
        let (status, output) = run_to_end(command, folder.path(), limit)?;
        let text = std::fs::read(&answer).unwrap_or_default();
        serde_json::from_slice(&text).or_else(|_| {
            let last = output.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("");
            let how = status.map_or_else(|| "took too long".to_owned(), |s| s.to_string());
            Ok(Found::None {
                problem: format!("the search for a small script ended ({how}): {last}"),
            })
        })
    }

    fn execute(&self, path: &Path) -> Result<(Option<ExitStatus>, String), Error> {
        let folder = tempfile::tempdir().map_err(Error::file("write", &std::env::temp_dir()))?;
        let mut command = Command::new(self.python);
        // On its own: nothing of ours is to be importable.
        command.arg(path).env_remove("PYTHONPATH");
        say("executing it on its own");
        run_to_end(command, folder.path(), SCRIPT_LIMIT)
    }

    fn default_path(&self) -> Result<PathBuf, Error> {
        let folder = self.run_dir.path().join("repro");
        std::fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
        let plain = |c: char| if c.is_ascii_alphanumeric() || ".-_".contains(c) { c } else { '_' };
        let name: String = self.attempt.case.as_str().chars().map(plain).take(200).collect();
        Ok(folder.join(format!("{name}.py")))
    }
}

impl End {
    /// How a script ended, looked for in what it wrote: an exception of the expected class, a
    /// signal, or an exit of its own.
    fn of(status: Option<ExitStatus>, output: &str, expected: &Self) -> Option<Self> {
        let status = status?;
        if let Some(signal) = status.signal() {
            let lines = output.lines().rev();
            let said = lines.map(str::trim).find(|line| like(line, &expected.said));
            return Some(Self {
                kind: signal_name(signal),
                said: said.unwrap_or_default().to_owned(),
            });
        }
        // Python writes `module.Class: first line` at the left margin after its traceback.
        output.lines().rev().find_map(|line| {
            let (class, said) = line.split_once(": ").unwrap_or((line, ""));
            let class = class.rsplit('.').next()?;
            (class == expected.kind).then(|| Self { kind: class.to_owned(), said: said.to_owned() })
        })
    }

    /// The same kind, and the same words but for numbers and what surrounds them.
    fn is_like(&self, expected: &Self) -> bool {
        self.kind == expected.kind && (expected.said.is_empty() || like(&self.said, &expected.said))
    }
}

/// Whether one text holds the words of the other, numbers aside; of the shorter one's length.
fn like(text: &str, other: &str) -> bool {
    let letters = |text: &str| -> String {
        text.chars().filter(char::is_ascii_alphabetic).take(200).collect()
    };
    let (text, other) = (letters(text), letters(other));
    !other.is_empty() && (text.contains(&other) || (!text.is_empty() && other.contains(&text)))
}

fn run_to_end(
    mut command: Command,
    folder: &Path,
    limit: Duration,
) -> Result<(Option<ExitStatus>, String), Error> {
    let log = folder.join("output");
    let file = std::fs::File::create(&log).map_err(Error::file("write", &log))?;
    let second = file.try_clone().map_err(Error::file("write", &log))?;
    let program = PathBuf::from(command.get_program());
    let failed = Error::file("execute", &program);
    command.stdin(Stdio::null()).stdout(file).stderr(second);
    let mut child = command.spawn().map_err(failed)?;
    let deadline = Instant::now() + limit;
    let status = loop {
        match child.try_wait().map_err(Error::file("execute", &program))? {
            Some(status) => break Some(status),
            None if Instant::now() >= deadline => {
                // It may have ended by itself meanwhile.
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            None => std::thread::sleep(LOOK_INTERVAL),
        }
    };
    let output = std::fs::read(&log).unwrap_or_default();
    Ok((status, String::from_utf8_lossy(&output).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(kind: &str, said: &str) -> End {
        End { kind: kind.to_owned(), said: said.to_owned() }
    }

    fn exited(code: i32) -> Option<ExitStatus> {
        Some(ExitStatus::from_raw(code << 8))
    }

    #[test]
    fn a_script_fails_alike_when_class_and_words_are_the_same() {
        let expected = end("RuntimeError", "operator 'aten::addbmm' is not implemented for TPU");
        let traceback = "Traceback (most recent call last):\n  File \"x.py\", line 9\n";
        let of = |text: &str| End::of(exited(1), &format!("{traceback}{text}"), &expected);
        let same = of("RuntimeError: operator 'aten::addbmm' is not implemented for TPU. Please");
        assert!(same.unwrap().is_like(&expected));
        let other = of("RuntimeError: operator 'aten::i0' is not implemented for TPU. Please");
        assert!(!other.unwrap().is_like(&expected));
        assert_eq!(of("ValueError: operator 'aten::addbmm' is not implemented for TPU"), None);
        assert_eq!(End::of(None, "", &expected), None, "one that never ends");
        assert_eq!(End::of(exited(0), "", &expected), None, "one that finds nothing wrong");
    }

    #[test]
    fn numbers_may_differ_and_a_signal_must_be_the_same() {
        let expected = end("SIGABRT", "F0000 1.5 scatter.cc:154] Check failed: a == b (2 vs. 1)");
        let aborted = Some(ExitStatus::from_raw(libc::SIGABRT));
        let text = "*** warning\nF0000 00:1.7 scatter.cc:154] Check failed: a == b (3 vs. 1)\n";
        assert!(End::of(aborted, text, &expected).unwrap().is_like(&expected));
        assert!(!End::of(aborted, "Check failed: other", &expected).unwrap().is_like(&expected));
        let segfault = Some(ExitStatus::from_raw(libc::SIGSEGV));
        assert!(!End::of(segfault, text, &expected).unwrap().is_like(&expected));
        let wordless = end("SIGSEGV", "");
        assert!(End::of(segfault, "", &wordless).unwrap().is_like(&wordless));
    }
}
