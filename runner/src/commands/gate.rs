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

/// Blocking cases shown per check; the gate's page has all of them.
const SHOWN: usize = 3;

/// The answer, every rule, and of each check that does not hold why, with its first cases.
fn describe(name: &str, answer: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut text = format!("gate {name}: {}\n", word(&answer["answer"]));
    for rule in list(&answer["rules"]) {
        let run = rule["run"].as_str().unwrap_or("no run");
        let simulated = if rule["simulated"] == true { ", simulated" } else { "" };
        let (answer, name) = (word(&rule["answer"]), word(&rule["name"]));
        text.push_str(&format!("  {answer:<10} {name} ({run}{simulated})\n"));
        for check in list(&rule["checks"]).iter().filter(|check| check["answer"] != "open") {
            text.push_str(&format!(
                "    {:<10} {}\n",
                word(&check["answer"]),
                word(&check["text"])
            ));
            for case in list(&check["blocking"]).iter().take(SHOWN) {
                text.push_str(&format!(
                    "      {}: {}\n",
                    word(&case["case"]),
                    word(&case["verdict"])
                ));
            }
        }
    }
    text
}
