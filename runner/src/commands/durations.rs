//! How long cases took before: from a kept run, a journal, or a run on a server.

use std::collections::HashMap;
use std::path::Path;

use protocol::CaseKey;

use super::say;
use crate::Error;
use crate::args::ServerArgs;
use crate::balance::{Balance, balance};
use crate::client::Client;
use crate::journal::{self, Record};
use crate::plan::{PlannedCase, Shard};
use crate::rerun::parse_address;
use crate::run_dir::RunDir;

/// Cases without a duration that are named; the rest are counted.
const NAMED: usize = 5;

/// Durations of cases, and where they are from.
#[derive(Debug)]
pub(super) struct Durations {
    source: String,
    seconds: HashMap<CaseKey, f64>,
}

impl Durations {
    /// Reads those of a run: its key, `latest`, the path of its folder or of a journal, or its
    /// address on a server.
    pub(super) async fn read(
        source: &str,
        runs_dir: &Path,
        server: &ServerArgs,
    ) -> Result<Self, Error> {
        let seconds = match parse_address(source)? {
            Some((base, key)) => {
                let client = Client::new(&base, server.token()?)?;
                let cases = client.cases(&key).await.map_err(|error| error.into_error(&base))?;
                let known = cases.into_iter().filter(|case| case.outcome.is_some());
                known.filter_map(|case| Some((case.case, case.seconds?))).collect()
            }
            None if Path::new(source).is_file() => of_journal(Path::new(source))?,
            None => of_journal(&RunDir::find_or_open(runs_dir, source)?.journal())?,
        };
        Ok(Self { source: source.to_owned(), seconds })
    }

    /// Deals the cases out to the shards, and says what people should know of that.
    pub(super) fn balance(&self, cases: &[PlannedCase], shard: Shard) -> Balance {
        let balanced = balance(cases, &self.seconds, shard.total);
        let (known, unknown) = (cases.len() - balanced.by_hash.len(), &balanced.by_hash);
        let seconds: Vec<String> = balanced.seconds.iter().map(|s| format!("{s:.0}")).collect();
        say(&format!(
            "balanced {known} of {} cases by `{}`: shards of {} s",
            cases.len(),
            self.source,
            seconds.join(", ")
        ));
        if !unknown.is_empty() {
            let named: Vec<&str> = unknown.iter().take(NAMED).map(CaseKey::as_str).collect();
            let more = unknown.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            say(&format!(
                "note: {} cases have no duration there and go by their hash: {}{more}",
                unknown.len(),
                named.join(", ")
            ));
        }
        balanced.balance
    }
}

/// Seconds of the last attempt of each case: a retry in a fresh process is what the next run will
/// not have.
fn of_journal(path: &Path) -> Result<HashMap<CaseKey, f64>, Error> {
    let mut seconds = HashMap::new();
    journal::scan(path, |record| match record {
        Record::Attempt(attempt) => {
            seconds.insert(attempt.case, attempt.seconds);
        }
        Record::Started { .. } | Record::Finding { .. } | Record::Ended { .. } => {}
    })?;
    Ok(seconds)
}
