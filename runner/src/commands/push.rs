//! `runner push`: delivers kept runs.

use serde_json::json;
use tokio::sync::watch;

use super::{print, say};
use crate::Error;
use crate::args::PushArgs;
use crate::client::Client;
use crate::exit::Exit;
use crate::run_dir::RunDir;
use crate::upload::{self, Delivery, RunState};

pub(super) async fn execute(args: &PushArgs) -> Result<Exit, Error> {
    let runs_dir = args.runs.directory();
    let runs = match &args.run {
        Some(run) => vec![RunDir::find(&runs_dir, run)?],
        None => RunDir::list(&runs_dir)?.into_iter().filter(|run| !is_delivered(run)).collect(),
    };
    if runs.is_empty() {
        if !args.json {
            say("every kept run is delivered");
        }
        return Ok(Exit::Success);
    }
    let mut first_error = None;
    for run in &runs {
        match push(run, args).await {
            Ok(page) if args.json => {
                let line = json!({"run": run.name(), "delivered": true, "page": page});
                print(&format!("{line}\n"))?;
            }
            Ok(page) => say(&format!("delivered {}: {page}", run.name())),
            Err(error) if runs.len() == 1 && !args.json => return Err(error),
            Err(error) => {
                if args.json {
                    let why = error.to_string();
                    let line = json!({"run": run.name(), "delivered": false, "error": why});
                    print(&format!("{line}\n"))?;
                } else {
                    say(&format!("error: {}: {error}", run.name()));
                }
                first_error = first_error.or(Some(error));
            }
        }
    }
    first_error.map_or(Ok(Exit::Success), Err)
}

fn is_delivered(run: &RunDir) -> bool {
    upload::progress(run).is_some_and(|progress| progress.sealed)
}

async fn push(run: &RunDir, args: &PushArgs) -> Result<String, Error> {
    let _lock = run.lock()?;
    let asked = args.server_url.clone().filter(|url| !url.is_empty());
    let url = match asked.or(run.plan()?.settings.push) {
        Some(url) => url,
        None => {
            return Err(Error::Usage {
                message: format!("run `{}` was not meant for any server", run.name()),
                hint: "name the server with `--server`".to_owned(),
            });
        }
    };
    let client = Client::new(&url, args.server.token()?)?;
    let mut delivery = Delivery::open(run, client, None)?;
    let (_going, state) = watch::channel(RunState::Ended);
    delivery.deliver(state).await.map_err(|error| error.into_error(&url))?;
    if let Some(text) = delivery.files_not_sent().filter(|_| !args.json) {
        say(&text);
    }
    Ok(format!("{}{}", url.trim_end_matches('/'), delivery.progress().page))
}
