//! `runner doctor`: checks what a run needs, one line each, and says how to mend it.

use std::path::Path;

use protocol::waiver::VersionRange;
use serde_json::json;

use super::session::{Tools, Wanted, open_device};
use super::{print, say};
use crate::Error;
use crate::args::{DoctorArgs, socket_directory};
use crate::client::Client;
use crate::device::{self, Profile};
use crate::exit::Exit;
use crate::python::PythonEnvironment;
use crate::worker::{LogFolder, Worker};

/// What a worker writes to its log when it leaves no breadcrumbs.
const NO_BREADCRUMBS: &str = "conformance: no breadcrumbs: ";
/// Least free space for logs and tensors, in GiB.
const SPACE_GIB: u64 = 1;
/// Longest path that a socket can have, with room for the name of ours in it.
const SOCKET_FOLDER_BYTES: usize = 60;
/// Fewest files that may be open: pipes and logs of many workers, and their tensors.
const OPEN_FILES: u64 = 1024;
/// Versions of torch that TorchTPU has wheels for.
const TORCH_WITH_TPU: &str = ">=2.11, <2.16";

pub(super) async fn execute(args: &DoctorArgs) -> Result<Exit, Error> {
    let mut report = Report::default();
    report.add("runs directory", check_folder(&args.runs.directory()));
    report.add("cache directory", check_folder(&args.device.python.setup.directory()));
    report.add("tmpfs for tensors", check_space(Path::new("/dev/shm")));
    report.add("sockets", check_sockets(&socket_directory()));
    report.add("open files", check_open_files());
    match Tools::prepare(&args.device.python) {
        Err(error) => report.add("python", Err(error)),
        Ok(tools) => {
            let environment = &tools.environment;
            let (major, minor, micro) = environment.version;
            let python = environment.python.display();
            let versions: Vec<_> =
                environment.versions.iter().map(|(n, v)| format!("{n} {v}")).collect();
            let found = format!("{python}, {major}.{minor}.{micro}; {}", versions.join(", "));
            report.add("python", Ok(found));
            packages(environment, &mut report);
            for profile in [Profile::Tpu, Profile::Cuda, Profile::TpuSim] {
                if let Some(missing) = profile.unseen().or_else(|| profile.missing(environment)) {
                    report.note(&format!("no `{profile}`"), &missing, hint_of(profile));
                }
            }
            match check_device(args, &tools).await {
                Err(error) => report.add("device", Err(error)),
                Ok((device, breadcrumbs)) => {
                    report.add("device", Ok(device));
                    report.add("breadcrumbs", Ok(breadcrumbs));
                }
            }
        }
    }
    if let Some(url) = args.push.as_ref().filter(|url| !url.is_empty()) {
        report.add("server", check_server(url, args).await);
    }
    print(&if args.json { report.json() } else { report.text() })?;
    Ok(if report.failed() { Exit::Trouble } else { Exit::Success })
}

/// One thing that was looked at.
struct Check {
    state: State,
    what: String,
    found: String,
    hint: String,
}

#[derive(PartialEq, Eq)]
enum State {
    /// As it must be.
    Ok,
    /// Not needed by every run.
    Note,
    /// No run can do without.
    Failed,
}

impl State {
    const fn word(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Failed => "FAIL",
        }
    }
}

#[derive(Default)]
struct Report(Vec<Check>);

impl Report {
    fn add(&mut self, what: &str, result: Result<String, Error>) {
        let (state, found, hint) = match result {
            Ok(found) => (State::Ok, found, String::new()),
            Err(error) => (State::Failed, error.to_string(), error.hint()),
        };
        self.0.push(Check { state, what: what.to_owned(), found, hint });
    }

    fn note(&mut self, what: &str, found: &str, hint: &str) {
        let (what, found, hint) = (what.to_owned(), found.to_owned(), hint.to_owned());
        self.0.push(Check { state: State::Note, what, found, hint });
    }

    fn failed(&self) -> bool {
        self.0.iter().any(|check| check.state == State::Failed)
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for Check { state, what, found, hint } in &self.0 {
            text.push_str(&format!("{:<5} {what}: {found}\n", state.word()));
            if !hint.is_empty() {
                text.push_str(&format!("      hint: {hint}\n"));
            }
        }
        text
    }

    fn json(&self) -> String {
        let line = |check: &Check| {
            let Check { state, what, found, hint } = check;
            let state = state.word().to_lowercase();
            format!("{}\n", json!({"check": what, "state": state, "found": found, "hint": hint}))
        };
        self.0.iter().map(line).collect()
    }
}

/// What suites need beside the device, and what is known to go together.
fn packages(environment: &PythonEnvironment, report: &mut Report) {
    for (module, who) in [
        ("torch", "every suite"),
        ("expecttest", "the suite `operators`"),
        ("safetensors", "every suite"),
        ("transformers", "models of the sources `transformers` and `hub`"),
        ("timm", "models of the source `timm`"),
        ("torchvision", "models of the source `torchvision`"),
    ] {
        if !environment.has(module) {
            let hint = "install it there, or use the environment of `runner setup`";
            report.note(&format!("no `{module}`"), &format!("needed by {who}"), hint);
        }
    }
    let versions = &environment.versions;
    if let (Some(torch), true) = (versions.get("torch"), versions.contains_key("torch_tpu")) {
        let range: VersionRange = TORCH_WITH_TPU.parse().expect("it is a range");
        if !range.contains(torch) {
            let found = format!("torch {torch} is not {TORCH_WITH_TPU}");
            let hint = "torch_tpu is built for one version of torch: install a pair";
            report.note("versions", &found, hint);
        }
    }
    if device::has_tpu() && !environment.has("libtpu") {
        let found = "there is a TPU, and the package `libtpu` is not installed";
        report.note("libtpu", found, "install it beside torch_tpu");
    }
}

const fn hint_of(profile: Profile) -> &'static str {
    match profile {
        Profile::Tpu => "`--device tpu-sim` executes the same lowerings on any Linux x86-64",
        Profile::TpuSim => "`runner setup` makes an environment that has it",
        Profile::Cuda | Profile::Cpu | Profile::Faulty => "",
    }
}

fn check_folder(folder: &Path) -> Result<String, Error> {
    std::fs::create_dir_all(folder).map_err(Error::file("create", folder))?;
    tempfile::tempfile_in(folder).map_err(Error::file("write", folder))?;
    check_space(folder)
}

fn check_space(folder: &Path) -> Result<String, Error> {
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

fn check_sockets(folder: &Path) -> Result<String, Error> {
    tempfile::tempfile_in(folder).map_err(Error::file("write", folder))?;
    if folder.as_os_str().len() > SOCKET_FOLDER_BYTES {
        return Err(Error::Environment {
            message: format!("`{}` is too long for the path of a socket", folder.display()),
            hint: "point XDG_RUNTIME_DIR to a shorter path, or unset it for `/tmp`".to_owned(),
        });
    }
    Ok(folder.display().to_string())
}

fn check_open_files() -> Result<String, Error> {
    let resource = nix::sys::resource::Resource::RLIMIT_NOFILE;
    let (soft, _) = nix::sys::resource::getrlimit(resource)
        .map_err(|error| Error::file("read", Path::new("the limit of open files"))(error.into()))?;
    if soft < OPEN_FILES {
        return Err(Error::Environment {
            message: format!("only {soft} files may be open at once"),
            hint: format!("raise it with `ulimit -n {OPEN_FILES}`"),
        });
    }
    Ok(format!("up to {soft}"))
}

/// What the device is, and whether its workers leave breadcrumbs.
async fn check_device(args: &DoctorArgs, tools: &Tools) -> Result<(String, String), Error> {
    let folder = tempfile::tempdir().map_err(Error::file("write", &std::env::temp_dir()))?;
    let logs = LogFolder::new(folder.path().to_owned());
    let wanted = Wanted { jobs: args.device.jobs, ..Wanted::one() };
    let opened = open_device(tools, args.device.device, &wanted, &logs).await;
    let ready = opened.inspect_err(|_| show_logs(folder.path()))?;
    let found = format!("`{}`, {}", ready.profile, ready.probed.device_kind);
    let reason = ready.reason.clone().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let breadcrumbs = describe_breadcrumbs(&ready.worker);
    ready.worker.leave().await;
    ready.backend.stop().await;
    Ok((found + &reason, breadcrumbs))
}

/// Lacking ones are no failure: naming the operator of a crash then rests on a rerun alone.
fn describe_breadcrumbs(worker: &Worker) -> String {
    if worker.breadcrumb.is_some() {
        return "on; the operator of a crash is known without executing it again".to_owned();
    }
    let log = std::fs::read(worker.log.path()).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let why = log.lines().find_map(|line| line.strip_prefix(NO_BREADCRUMBS));
    let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
    format!("off{why}; the operator of a crash is known only where executing it again repeats it")
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
