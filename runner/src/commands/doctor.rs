//! `runner doctor`: checks what a run needs, one line each, and says how to mend it.

use super::session::{Tools, Wanted, open_device};
use super::{print, say};
use crate::Error;
use crate::args::DoctorArgs;
use crate::client::Client;
use crate::exit::Exit;
use crate::worker::LogFolder;

/// Least free space for logs and tensors, in GiB.
const SPACE_GIB: u64 = 1;

pub(super) async fn execute(args: &DoctorArgs) -> Result<Exit, Error> {
    let mut report = Report::default();
    let runs_dir = args.runs.directory();
    report.add("runs directory", check_folder(&runs_dir));
    report.add("tmpfs for tensors", check_space(std::path::Path::new("/dev/shm")));
    match Tools::prepare(&args.device.python) {
        Err(error) => report.add("python", Err(error)),
        Ok(tools) => {
            let (major, minor, micro) = tools.environment.version;
            let python = tools.environment.python.display();
            let versions: Vec<_> =
                tools.environment.versions.iter().map(|(n, v)| format!("{n} {v}")).collect();
            let found = format!("{python}, {major}.{minor}.{micro}; {}", versions.join(", "));
            report.add("python", Ok(found));
            report.add("device", check_device(args, &tools).await);
        }
    }
    if let Some(url) = args.push.as_ref().filter(|url| !url.is_empty()) {
        report.add("server", check_server(url, args).await);
    }
    print(&report.text)?;
    Ok(if report.failed { Exit::Trouble } else { Exit::Success })
}

#[derive(Default)]
struct Report {
    text: String,
    failed: bool,
}

impl Report {
    fn add(&mut self, what: &str, result: Result<String, Error>) {
        match result {
            Ok(found) => self.text.push_str(&format!("ok    {what}: {found}\n")),
            Err(error) => {
                self.failed = true;
                self.text.push_str(&format!("FAIL  {what}: {error}\n"));
                if !error.hint().is_empty() {
                    self.text.push_str(&format!("      hint: {}\n", error.hint()));
                }
            }
        }
    }
}

fn check_folder(folder: &std::path::Path) -> Result<String, Error> {
    std::fs::create_dir_all(folder).map_err(Error::file("create", folder))?;
    tempfile::tempfile_in(folder).map_err(Error::file("write", folder))?;
    check_space(folder)
}

fn check_space(folder: &std::path::Path) -> Result<String, Error> {
    let space = nix::sys::statvfs::statvfs(folder)
        .map_err(|error| Error::file("read", folder)(std::io::Error::from(error)))?;
    let free_gib = (space.blocks_available() * space.fragment_size()) >> 30;
    if free_gib < SPACE_GIB {
        return Err(Error::Environment {
            message: format!("`{}` has less than {SPACE_GIB} GiB free", folder.display()),
            hint: "free some space there".to_owned(),
        });
    }
    Ok(format!("{}, {free_gib} GiB free", folder.display()))
}

async fn check_device(args: &DoctorArgs, tools: &Tools) -> Result<String, Error> {
    let folder = tempfile::tempdir().map_err(Error::file("write", &std::env::temp_dir()))?;
    let logs = LogFolder::new(folder.path().to_owned());
    let wanted = Wanted { jobs: args.device.jobs, ..Wanted::one() };
    let opened = open_device(tools, args.device.device, &wanted, &logs).await;
    let ready = opened.inspect_err(|_| show_logs(folder.path()))?;
    let found = format!("`{}`, {}", ready.profile, ready.probed.device_kind);
    let reason = ready.reason.clone().map(|reason| format!(" ({reason})")).unwrap_or_default();
    ready.worker.leave().await;
    ready.backend.stop().await;
    Ok(found + &reason)
}

/// The logs go with the folder: their last lines are shown while they are there.
fn show_logs(folder: &std::path::Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let bytes = std::fs::read(entry.path()).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let lines: Vec<_> = text.lines().rev().take(10).collect();
        for line in lines.into_iter().rev() {
            say(&format!("{}: {line}", entry.file_name().to_string_lossy()));
        }
    }
}

async fn check_server(url: &str, args: &DoctorArgs) -> Result<String, Error> {
    let client = Client::new(url, args.server.token()?)?;
    client.ready().await.map_err(|error| error.into_error(url))?;
    Ok(format!("{url} is ready"))
}
