//! `runner devices`: what this host has, and what `auto` chooses.

use super::print;
use super::session::{Tools, Wanted, open_device};
use crate::Error;
use crate::args::DevicesArgs;
use crate::device::{DeviceChoice, Profile};
use crate::exit::Exit;
use crate::worker::LogFolder;

pub(super) async fn execute(args: &DevicesArgs) -> Result<Exit, Error> {
    let tools = Tools::prepare(&args.python)?;
    let logs = tempfile::tempdir().map_err(Error::file("write", &std::env::temp_dir()))?;
    let logs = LogFolder::new(logs.path().to_owned());
    let mut chosen = None;
    let mut text = String::new();
    for profile in [Profile::Tpu, Profile::Cuda, Profile::TpuSim, Profile::Cpu] {
        let (state, detail) = look(&tools, profile, &logs).await;
        let usable = state == "usable";
        let is_auto = usable && chosen.is_none();
        if is_auto {
            chosen = Some(profile);
        }
        if args.json {
            let line = serde_json::json!({
                "device": profile, "state": state, "detail": detail, "auto": is_auto,
            });
            text.push_str(&format!("{line}\n"));
        } else {
            let mark = if is_auto { "  (auto)" } else { "" };
            text.push_str(&format!("{profile:<8} {state:<8} {detail}{mark}\n"));
        }
    }
    print(&text)?;
    Ok(if chosen.is_some() { Exit::Success } else { Exit::Trouble })
}

async fn look(tools: &Tools, profile: Profile, logs: &LogFolder) -> (&'static str, String) {
    if let Some(missing) = profile.unseen().or_else(|| profile.missing(&tools.environment)) {
        return ("absent", missing);
    }
    match open_device(tools, DeviceChoice::Named(profile), &Wanted::one(), logs).await {
        Ok(ready) => {
            let probed = &ready.probed;
            let simulated = if probed.simulated { ", simulated" } else { "" };
            let units = profile.slots();
            let detail = format!("{} ({units} units{simulated})", probed.device_kind);
            ready.worker.leave().await;
            ready.backend.stop().await;
            ("usable", detail)
        }
        Err(error) => ("broken", error.to_string()),
    }
}
