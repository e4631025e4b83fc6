//! Where results are kept and sent.

use std::path::PathBuf;

use clap::Args;
use protocol::RunKey;

use super::environment::{base_directory, variable};
use super::words::parse_label;
use crate::report::console::Form;
use crate::waivers::{self, Waivers};

/// Where results go.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Results")]
pub struct ResultArgs {
    #[command(flatten)]
    pub runs: RunsDirArgs,
    /// Name of the run; shards of one run share it. Without it a name is made from the time.
    #[arg(long, value_name = "KEY")]
    pub run_key: Option<RunKey>,
    /// Label kept with the run, as `name=value`; may be repeated.
    #[arg(long, value_name = "K=V", value_parser = parse_label)]
    pub label: Vec<(String, String)>,
    /// Send results to this server while running.
    #[arg(long, value_name = "URL", env = "CONFORMANCE_SERVER", hide_env_values = true)]
    pub push: Option<String>,
    #[command(flatten)]
    pub judgement: JudgementArgs,
    /// Print the summary as JSON.
    #[arg(long)]
    pub json: bool,
}

/// What is forgiven.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Results")]
pub struct JudgementArgs {
    /// Waivers, a TOML file: cases that may fail, with reason, owner, issue and the day it ends.
    #[arg(long, value_name = "FILE")]
    pub waivers: Option<PathBuf>,
}

/// Where runs are kept.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Results")]
pub struct RunsDirArgs {
    /// Where runs are kept.
    #[arg(long, value_name = "DIR", env = "CONFORMANCE_RUNS_DIR", hide_env_values = true)]
    pub runs_dir: Option<PathBuf>,
}

/// How to prove to a server who writes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Results")]
pub struct ServerArgs {
    /// File holding the server token; else the variable `CONFORMANCE_TOKEN`.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

impl ResultArgs {
    /// How the end of the run is told.
    #[must_use]
    pub fn form(&self) -> Form {
        Form::of(self.json)
    }

    /// The waivers of `--waivers`; none without.
    pub fn waivers(&self) -> Result<Waivers, crate::Error> {
        let empty = || Ok(Waivers::default());
        self.judgement.read().unwrap_or_else(empty)
    }
}

impl JudgementArgs {
    /// The waivers of the file, when there is one.
    #[must_use]
    pub fn read(&self) -> Option<Result<Waivers, crate::Error>> {
        let today = chrono::Utc::now().date_naive();
        self.waivers.as_ref().map(|path| waivers::load(path, today))
    }
}

impl RunsDirArgs {
    /// `--runs-dir`, else `torchtpu-conformance/runs` in the user's state directory.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        let default = || base_directory("XDG_STATE_HOME", ".local/state").join("runs");
        self.runs_dir.clone().unwrap_or_else(default)
    }
}

impl ServerArgs {
    /// The token: of `--token-file`, else of `CONFORMANCE_TOKEN`. It is no flag, because flags
    /// show in process lists.
    pub fn token(&self) -> Result<Option<String>, crate::Error> {
        let Some(path) = &self.token_file else {
            return Ok(variable("CONFORMANCE_TOKEN").map(|token| token.trim().to_owned()));
        };
        let text = std::fs::read_to_string(path).map_err(|error| crate::Error::Input {
            message: format!("cannot read the token file `{}`: {error}", path.display()),
            hint: "`server token create --name NAME --scope ingest` prints a token".to_owned(),
        })?;
        Ok(Some(text.trim().to_owned()))
    }
}
