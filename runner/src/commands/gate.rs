//! `runner gate`: the server's answer, as an exit code for CI.

use serde_json::Value;

use super::print;
use crate::Error;
use crate::args::GateArgs;
use crate::client::Client;
use crate::exit::Exit;

pub(super) async fn execute(args: &GateArgs) -> Result<Exit, Error> {
    let client = Client::new(&args.server, args.token.token()?)?;
    let answer = client
        .gate(&args.name, &args.candidate, args.device.as_deref())
        .await
        .map_err(|error| error.into_error(client.base()))?;
    let exit = match answer["answer"].as_str() {
        Some("open") => Exit::Success,
        Some("closed") => Exit::SomeFailed,
        Some("incomplete") => Exit::GateIncomplete,
        Some(_) | None => {
            return Err(Error::Server {
                message: format!("the server `{}` gave no gate's answer", client.base()),
                hint: "is it of the same version as this runner?".to_owned(),
            });
        }
    };
    if args.json {
        print(&format!("{answer:#}\n"))?;
    } else {
        print(&describe(&args.name, &answer))?;
    }
    Ok(exit)
}

/// The answer and every rule with what it found.
fn describe(name: &str, answer: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut text = format!("gate {name}: {}\n", word(&answer["answer"]));
    for rule in answer["rules"].as_array().into_iter().flatten() {
        let detail = ["detail", "message", "found"].iter().find_map(|key| rule[*key].as_str());
        let name = ["name", "rule", "id"].iter().find_map(|key| rule[*key].as_str());
        text.push_str(&format!(
            "  {:<10} {}  {}\n",
            word(&rule["answer"]),
            name.unwrap_or_default(),
            detail.unwrap_or_default()
        ));
    }
    text
}
