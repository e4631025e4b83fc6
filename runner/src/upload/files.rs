//! Files of failing attempts that a server keeps with them: the script, the log, the script of the
//! operator that a mismatch begins in, and both sides of what did not hold, within limits.
//!
//! They are extras: what is too large, gone, or not taken costs the delivery nothing and is told of.

use std::collections::HashSet;
use std::path::Path;

use protocol::ingest_api::Attempt;
use protocol::{CaseKey, Outcome, RunKey};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::client::{Client, SendError};
use crate::run_dir::RunDir;
use crate::slot::kept::tensor_names;

/// Largest file that is sent.
const MOST_FILE_BYTES: u64 = 4 << 20;
/// Most bytes that are sent of one run by one delivery.
const MOST_RUN_BYTES: u64 = 256 << 20;
/// Most names in one request.
const MOST_LINKS: usize = 1_000;

/// A file of an attempt, as the server is told of it.
#[derive(Debug, Serialize)]
struct Link {
    case: CaseKey,
    attempt: u32,
    name: String,
    sha256: String,
}

/// What a delivery has sent of files.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// Hashes that the server has.
    sent: HashSet<String>,
    bytes: u64,
    /// Files that were not sent because they or all of them are too large.
    left_out: u64,
    /// Why the server takes none, when it takes none.
    refused: Option<String>,
}

impl Files {
    /// Sends the files of these attempts, which the server has taken.
    pub(super) async fn send(
        &mut self,
        client: &Client,
        run_dir: &RunDir,
        run: &RunKey,
        journal: &str,
        attempts: &[Attempt],
    ) -> Result<(), SendError> {
        let mut links = Vec::new();
        for attempt in attempts.iter().filter(|attempt| leaves_files(attempt.outcome)) {
            for (name, contents) in self.collect(run_dir, attempt) {
                if self.refused.is_some() {
                    return Ok(());
                }
                let sha256 = hex::encode(Sha256::digest(&contents));
                if !self.sent.contains(&sha256) {
                    if self.bytes + contents.len() as u64 > MOST_RUN_BYTES {
                        self.left_out += 1;
                        continue;
                    }
                    self.bytes += contents.len() as u64;
                    let put = client.put_artifact(&sha256, contents).await;
                    self.note(put)?;
                    self.sent.insert(sha256.clone());
                }
                links.push(Link {
                    case: attempt.case.clone(),
                    attempt: attempt.attempt,
                    name,
                    sha256,
                });
            }
        }
        for links in links.chunks(MOST_LINKS) {
            if self.refused.is_none() {
                let linked = client.link_artifacts(run, journal, links).await;
                self.note(linked)?;
            }
        }
        Ok(())
    }

    /// What a person should hear at the end; nothing when all went well.
    pub(super) fn tell(&self, folder: &Path) -> Option<String> {
        let here = format!("they are in `{}`", folder.display());
        match (&self.refused, self.left_out) {
            (Some(why), _) => {
                Some(format!("the server takes no files of attempts ({why}); {here}"))
            }
            (None, 0) => None,
            (None, count) => {
                Some(format!("{count} files of attempts are too large to send; {here}"))
            }
        }
    }

    /// A refusal is the server's last word on files, and none on results.
    fn note(&mut self, answer: Result<(), SendError>) -> Result<(), SendError> {
        match answer {
            Err(refusal @ SendError::Refused { .. }) => self.refused = Some(refusal.describe()),
            Err(transient @ SendError::Transient { .. }) => return Err(transient),
            Ok(()) => {}
        }
        Ok(())
    }

    /// Names and contents of the files of an attempt.
    fn collect(&mut self, run_dir: &RunDir, attempt: &Attempt) -> Vec<(String, Vec<u8>)> {
        let evidence = &attempt.evidence;
        let mut files = Vec::new();
        if !evidence.repro.is_empty() {
            files.push(("repro.py".to_owned(), evidence.repro.clone().into_bytes()));
        }
        let log = &evidence.log;
        let cut = match log.dropped_bytes {
            0 => String::new(),
            bytes => format!("\n[{bytes} bytes were not kept]\n"),
        };
        let log = format!("{}{cut}{}", log.head, log.tail);
        if !log.trim().is_empty() {
            files.push(("log.txt".to_owned(), log.into_bytes()));
        }
        let operator = evidence.first_divergence.as_ref().and_then(|found| found.operator.as_ref());
        let script = operator.map_or("", |operator| operator.repro_file.as_str());
        if let Some(stem) = script.strip_suffix(".py").filter(|stem| is_plain(stem)) {
            for name in [script.to_owned(), format!("{stem}.safetensors")] {
                let contents = self.read(&run_dir.repros().join(&name));
                files.extend(contents.map(|contents| (name, contents)));
            }
        }
        let executed = evidence.executed_as.as_ref().unwrap_or(&attempt.case);
        let kept = tensor_names(executed, attempt.attempt);
        for (side, name) in ["actual", "expected", "wide"].into_iter().zip(kept) {
            let contents = self.read(&run_dir.tensors().join(name));
            files.extend(contents.map(|contents| (format!("{side}.safetensors"), contents)));
        }
        files
    }

    /// A file that is there and small enough.
    fn read(&mut self, path: &Path) -> Option<Vec<u8>> {
        let size = path.metadata().ok()?.len();
        if size > MOST_FILE_BYTES {
            self.left_out += 1;
            return None;
        }
        std::fs::read(path).ok()
    }
}

/// The word of a worker: a name in a folder, and nothing that leads out of it.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('.')
        && name.len() <= 80
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

const fn leaves_files(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Pass | Outcome::Skipped => false,
        Outcome::Mismatch
        | Outcome::Error
        | Outcome::Unsupported
        | Outcome::Fallback
        | Outcome::Crash
        | Outcome::Timeout
        | Outcome::Oom
        | Outcome::Infra
        | Outcome::HostLimit => true,
    }
}
