//! `runner golden verify`: whether goldens are whole.

use super::{blocking, print};
use crate::Error;
use crate::args::{GoldenCommand, GoldenCommandArgs, GoldenVerifyArgs};
use crate::exit::Exit;
use crate::golden::store::{Store, Verified};

pub(super) async fn execute(args: &GoldenCommandArgs) -> Result<Exit, Error> {
    match &args.command {
        GoldenCommand::Verify(args) => {
            let store = Store::open(&args.location, &args.cache())?;
            let found = blocking(move || store.verify()).await?;
            tell(args, &found)
        }
    }
}

/// Prints each problem; bad when there is one, and without anything to verify.
fn tell(args: &GoldenVerifyArgs, found: &Verified) -> Result<Exit, Error> {
    if found.entries == 0 {
        return Err(Error::NothingSelected {
            message: format!("`{}` holds no golden", args.location),
            hint: "`runner record --model-list FILE --out DIR` records some".to_owned(),
        });
    }
    let exit = if found.problems.is_empty() { Exit::Success } else { Exit::SomeFailed };
    let mut text = String::new();
    if args.json {
        let problem = |(name, problem): &(String, String)| serde_json::json!({ "name": name, "problem": problem });
        let problems: Vec<_> = found.problems.iter().map(problem).collect();
        let value = serde_json::json!({
            "goldens": found.entries, "not_close": found.not_close, "bytes": found.bytes,
            "problems": problems,
        });
        text = format!("{value}\n");
    } else {
        for (name, problem) in &found.problems {
            text.push_str(&format!("{name}: {problem}\n"));
        }
        text.push_str(&format!(
            "{} goldens, {} MiB, {} problems\n",
            found.entries,
            found.bytes >> 20,
            found.problems.len()
        ));
        if found.not_close > 0 {
            text.push_str(&format!(
                "note: {} were not close to the host's float64 when they were recorded\n",
                found.not_close
            ));
        }
    }
    print(&text)?;
    Ok(exit)
}
