//! `runner record`: executes models on a device and keeps what it gives as goldens.

use std::collections::BTreeMap;
use std::path::Path;

use protocol::{Mode, Suite};

use super::{run, say};
use crate::Error;
use crate::args::RecordArgs;
use crate::exit::Exit;
use crate::golden::GoldenUse;
use crate::golden::entry::{Made, key_of, versions_that_count};
use crate::golden::store::Store;
use crate::plan::PlannedCase;

/// Records. It is a run like any other, with its journal and reports; how close the device comes to
/// the host's float64 is its outcome.
pub(super) async fn execute(args: &RecordArgs) -> Result<Exit, Error> {
    let mut run = args.run.clone();
    let refused = |message: &str, hint: &str| {
        Err(Error::Usage { message: message.to_owned(), hint: hint.to_owned() })
    };
    if run.plan.suites().iter().any(|suite| *suite != Suite::Tier2) {
        return refused("only Tier 2 is recorded", "leave `--suite` and `--tier` out");
    }
    if run.plan.mode != [Mode::Eager] {
        let hint = "leave `--mode` out: every mode is compared with what eager mode gave";
        return refused("goldens are recorded in eager mode", hint);
    }
    if run.golden.golden.is_some() {
        return refused("`record` makes goldens and compares with none", "leave `--golden` out");
    }
    run.plan.suite = vec![Suite::Tier2];
    // What one model gives is no golden of another one, though their graphs are the same.
    run.plan.no_dedupe = true;
    let folder = Store::create(&args.out)?.into_root();
    let exit = run::execute_with(&run, Some(GoldenUse::Record { folder })).await?;
    say(&format!("goldens {}", args.out.display()));
    Ok(exit)
}

/// The cases without a golden in the folder that is whole and made from the same.
pub(super) fn still_to_record(
    cases: Vec<PlannedCase>,
    folder: &Path,
    seed: u64,
    versions: &BTreeMap<String, String>,
) -> Result<Vec<PlannedCase>, Error> {
    let store = Store::create(folder)?;
    let versions = versions_that_count(versions);
    let is_recorded = |case: &PlannedCase| {
        let made = Made::of(case, seed, &versions);
        made.is_some_and(|made| store.find(&key_of(&case.key), &made).is_ok())
    };
    let all = cases.len();
    let left: Vec<_> = cases.into_iter().filter(|case| !is_recorded(case)).collect();
    if left.len() < all {
        say(&format!("{} of {all} cases are recorded already", all - left.len()));
    }
    Ok(left)
}
