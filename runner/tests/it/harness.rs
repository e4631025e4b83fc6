//! Starts the `runner` program in a world of its own: folders, scripted worker, no settings from
//! outside. Owns redaction too, so that a snapshot holds nothing that changes.

#![expect(clippy::unwrap_used, reason = "a test stops where its world is not as it must be")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use protocol::Outcome;
use protocol::ingest_api::Attempt;
use runner::journal::{Record, read};

/// Folders of one test.
pub(crate) struct World {
    folder: tempfile::TempDir,
}

/// What a program left.
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["runs", "cache", "state", "home"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file of the test and gives its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The program with nothing of the tester's environment but `PATH`.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_runner"));
        let fake = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/fake_worker");
        command
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.path("home"))
            .env("CONFORMANCE_PYTHON", "python3")
            .env("CONFORMANCE_WORKER_PACKAGE", fake)
            .env("CONFORMANCE_RUNS_DIR", self.path("runs"))
            .env("CONFORMANCE_CACHE", self.path("cache"))
            .env("FAKE_STATE", self.path("state"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs the program to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        Ended::of(self.command(args).output().unwrap())
    }

    /// Arguments that execute these operator entries, one sample each, as run `r`.
    pub(crate) fn cases(&self, entries: &[&str]) -> Vec<String> {
        let selection = self.file("selection.txt", &entries.join("\n"));
        let selection = selection.display().to_string();
        let fixed = ["--suite=operators", "--device=cpu", "--samples=1", "--run-key=r"];
        let mut args: Vec<String> = fixed.iter().map(|arg| (*arg).to_owned()).collect();
        args.push(format!("--selection={selection}"));
        args
    }

    /// Executes operator entries to the end.
    pub(crate) fn execute(&self, entries: &[&str], more: &[&str]) -> Ended {
        Ended::of(self.start(entries, more).output().unwrap())
    }

    /// The command that executes operator entries.
    pub(crate) fn start(&self, entries: &[&str], more: &[&str]) -> Command {
        let args = self.cases(entries);
        let args: Vec<&str> = args.iter().map(String::as_str).chain(more.iter().copied()).collect();
        self.command(&args)
    }

    /// Attempts in the journal of run `r`.
    pub(crate) fn attempts(&self) -> Vec<Attempt> {
        self.records().into_iter().filter_map(attempt_of).collect()
    }

    /// The journal of run `r`.
    pub(crate) fn records(&self) -> Vec<Record> {
        read(&self.path("runs/r/journal.jsonl")).unwrap().records
    }

    /// Outcomes per attempt of one entry.
    pub(crate) fn outcomes(&self, entry: &str) -> Vec<Outcome> {
        let part = format!("opinfo:{entry}#");
        let attempts = self.attempts().into_iter();
        attempts.filter(|a| a.case.as_str().contains(&part)).map(|a| a.outcome).collect()
    }

    /// The only attempt of an entry, or its first.
    pub(crate) fn attempt(&self, entry: &str) -> Attempt {
        let part = format!("opinfo:{entry}#");
        let mut attempts = self.attempts().into_iter();
        attempts.find(|a| a.case.as_str().contains(&part)).expect("the case has an attempt")
    }

    /// The only attempt of the only model.
    pub(crate) fn attempt_of_model(&self) -> Attempt {
        let mut attempts = self.attempts();
        assert_eq!(attempts.len(), 1, "{attempts:?}");
        attempts.remove(0)
    }

    /// Case keys that the scripted worker was given, in order, reruns too.
    pub(crate) fn executed(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("state/executed")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// A text without what differs from test to test.
    pub(crate) fn redact(&self, text: &str) -> String {
        let mut text = text.replace(&self.folder.path().display().to_string(), "[WORLD]");
        for line in text.clone().lines().filter(|line| line.contains("GiB free")) {
            let free: String = line
                .split(", ")
                .find(|part| part.ends_with("GiB free"))
                .unwrap_or_default()
                .to_owned();
            text = text.replace(&free, "[N] GiB free");
        }
        for line in text.clone().lines().filter(|line| line.starts_with("memory: at most")) {
            text = text.replace(line, "memory: at most [N] MiB here and [N] MiB in one worker");
        }
        text
    }

    /// Exit code and both streams, for a snapshot.
    pub(crate) fn snapshot(&self, ended: &Ended) -> String {
        let (out, err) = (self.redact(&ended.stdout), self.redact(&ended.stderr));
        format!("exit code {}\n--- stdout\n{out}--- stderr\n{err}", ended.code)
    }
}

pub(crate) fn attempt_of(record: Record) -> Option<Attempt> {
    match record {
        Record::Attempt(attempt) => Some(*attempt),
        Record::Started { .. } | Record::Finding { .. } | Record::Ended { .. } => None,
    }
}

impl Ended {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    pub(crate) fn wait(child: Child) -> Self {
        Self::of(child.wait_with_output().unwrap())
    }
}

/// Waits until something holds. The limit only bounds a test that has failed already.
pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !holds() {
        assert!(begun.elapsed().as_secs() < 120, "waited in vain for {what}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// The fork server among the descendants of a runner: its only child.
pub(crate) fn fork_server_of(program: &Child) -> u32 {
    runner::worker::process::children(program.id())[0]
}

/// The process that the entry `hidden`, or `hiddenclean`, has left in a session of its own.
pub(crate) fn hidden_pid(world: &World, entry: &str) -> u32 {
    let path = world.path(&format!("state/{entry}.pid"));
    wait_for("the hidden process", || path.exists());
    std::fs::read_to_string(path).unwrap().trim().parse().unwrap()
}
