//! The program `server` on its own database, started and killed.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

/// A data directory that the database's user can reach, and whatever runs in it at the end.
pub(crate) struct Data(tempfile::TempDir);

impl Data {
    pub(crate) fn new() -> Self {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(directory.path(), open).unwrap();
        Self(directory)
    }

    /// Where the program is started.
    pub(crate) fn folder(&self) -> &Path {
        self.0.path()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join("data").join(name)
    }

    fn postmaster(&self) -> Option<Pid> {
        let text = std::fs::read_to_string(self.path("postgres/postmaster.pid")).ok()?;
        Some(Pid::from_raw(text.lines().next()?.parse().ok()?))
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_server"));
        // The test itself may run inside `with-database`.
        for name in ["DATABASE_URL", "CONFORMANCE_LISTEN", "CONFORMANCE_GATES", "RUST_LOG"] {
            command.env_remove(name);
        }
        command.args(arguments).arg("--data-dir").arg(self.0.path().join("data"));
        command.stdin(Stdio::null()).current_dir(self.0.path());
        command
    }

    pub(crate) fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        if let Some(pid) = self.postmaster() {
            let _ = kill(pid, Signal::SIGQUIT);
        }
    }
}

/// A server that is killed when the test ends, however it ends.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
    pub(crate) log: Arc<Mutex<String>>,
}

impl Server {
    /// Returns when it serves; panics with its log when it ends before.
    pub(crate) fn start(data: &Data) -> Self {
        Self::start_with(data, &[])
    }

    /// The same with more settings.
    pub(crate) fn start_with(data: &Data, settings: &[&str]) -> Self {
        let mut command = data.command(&["serve", "--listen", "127.0.0.1:0"]);
        command.args(settings);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let log = Arc::new(Mutex::new(String::new()));
        let address = loop {
            let Some(Ok(line)) = lines.next() else {
                panic!("it ended before it served:\n{}", log.lock().unwrap());
            };
            log.lock().unwrap().push_str(&format!("{line}\n"));
            if let Some((_, address)) = line.split_once("serving on http://") {
                break address.to_owned();
            }
        };
        let rest = log.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                rest.lock().unwrap().push_str(&format!("{line}\n"));
            }
        });
        Self { child, address, log }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it in order and checks that it ended well.
    pub(crate) fn stop(mut self) {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap());
        kill(pid, Signal::SIGTERM).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {}", self.log.lock().unwrap());
    }

    /// Status and body of a request made by hand, so that no client decides to try again.
    fn get(&self, path: &str) -> String {
        use std::io::{Read as _, Write as _};
        let mut stream = std::net::TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ended with that code and said these parts, like a person would have it.
#[track_caller]
pub(crate) fn said(output: &Output, code: i32, parts: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{text}");
    for part in parts {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    assert!(!text.contains("panicked") && !text.contains("RUST_BACKTRACE"), "{text}");
}

fn serves(pid: Pid, data: &Data) -> bool {
    let directory = std::fs::read_link(format!("/proc/{pid}/cwd"));
    directory.is_ok_and(|directory| directory == data.path("postgres"))
}

#[test]
fn a_killed_server_loses_nothing_and_the_next_one_adopts_its_database() {
    let data = Data::new();
    let server = Server::start(&data);
    let made = data.output(&["token", "create", "--name", "a", "--scope", "ingest"]);
    said(&made, 0, &[]);
    assert!(String::from_utf8_lossy(&made.stdout).starts_with("ttc_"));
    let postmaster = data.postmaster().unwrap();
    said(&data.output(&["serve", "--listen", "127.0.0.1:0"]), 1, &["another server uses", "hint:"]);

    server.kill();
    assert!(serves(postmaster, &data), "the database outlives the server");
    let server = Server::start(&data);
    assert_eq!(data.postmaster(), Some(postmaster), "it was adopted");
    assert!(server.get("/readyz").contains("\"ready\":true"));
    let listed = data.output(&["token", "list"]);
    assert!(String::from_utf8_lossy(&listed.stdout).starts_with("a\tingest\tvalid"));
    assert!(serves(postmaster, &data), "a short command does not stop what it did not start");

    server.stop();
    assert!(!serves(postmaster, &data), "the last one stops the database");
    assert_eq!(data.postmaster(), None);
    said(&data.output(&["token", "revoke", "--name", "a"]), 0, &[]);
    assert_eq!(data.postmaster(), None, "a command that started it stops it");
    said(&data.output(&["token", "revoke", "--name", "a"]), 1, &["no valid token `a`", "hint:"]);
}

#[test]
fn a_killed_database_is_started_again_and_a_stale_file_believed_by_nobody() {
    let data = Data::new();
    let server = Server::start(&data);
    let postmaster = data.postmaster().unwrap();
    kill(postmaster, Signal::SIGKILL).unwrap();
    // No time is asked of it; the test's own limit is the runner's.
    while !server.get("/readyz").contains("\"ready\":true") || data.postmaster() == Some(postmaster)
    {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let second = data.postmaster().unwrap();
    server.kill();
    kill(second, Signal::SIGKILL).unwrap();
    while serves(second, &data) {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    // As after a reboot: the number now belongs to somebody else.
    let path = data.path("postgres/postmaster.pid");
    let text = std::fs::read_to_string(&path).unwrap();
    let mine = std::process::id().to_string();
    std::fs::write(&path, text.replacen(&second.to_string(), &mine, 1)).unwrap();
    Server::start(&data).stop();
}

#[test]
fn data_of_another_major_version_is_refused() {
    let data = Data::new();
    Server::start(&data).stop();
    let path = data.path("postgres/PG_VERSION");
    let major = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, "9\n").unwrap();
    let mut command = data.command(&["token", "list"]);
    // Whatever is installed here is found first; nothing is fetched.
    let bindir = std::fs::read_to_string(data.path("postgres/postmaster.opts")).unwrap();
    let bindir = Path::new(bindir.split_whitespace().next().unwrap()).parent().unwrap().to_owned();
    let refused = command.env("PG_BINDIR", bindir).output().unwrap();
    let found = format!("but found is {}", major.trim());
    said(&refused, 1, &["was made by PostgreSQL 9", &found, "hint: install PostgreSQL 9"]);
    let nowhere = data.command(&["token", "list"]).env("PG_BINDIR", "/nowhere").output().unwrap();
    said(&nowhere, 1, &["`PG_BINDIR` is `/nowhere`", "hint:"]);
}

#[test]
fn with_database_gives_a_migrated_one_and_ends_as_the_command_ends() {
    let run = |script: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_server"));
        command.args(["with-database", "--", "sh", "-c", script]).env_remove("DATABASE_URL");
        command.output().unwrap()
    };
    let output = run("echo \"$DATABASE_URL\"; exit 7");
    assert_eq!(output.status.code(), Some(7), "{}", String::from_utf8_lossy(&output.stderr));
    let url = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = url.trim().split_once("host=").unwrap().1;
    let socket = percent_encoding::percent_decode_str(host).decode_utf8().unwrap().into_owned();
    assert!(!Path::new(&socket).exists(), "nothing is left");
    assert_eq!(run("kill -9 $$").status.code(), Some(128 + 9));
    let missing = Command::new(env!("CARGO_BIN_EXE_server"))
        .args(["with-database", "--", "nosuchprogram"])
        .env_remove("DATABASE_URL")
        .output()
        .unwrap();
    said(&missing, 1, &["`nosuchprogram` cannot be started", "hint:"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn killing_server_and_database_in_the_middle_of_ingest_loses_and_doubles_nothing() {
    use super::builders::run;

    const BATCHES: usize = 30;
    const BATCH: usize = 10;
    let data = Data::new();
    let mut server = Server::start(&data);
    let made = data.output(&["token", "create", "--name", "a", "--scope", "ingest"]);
    let token = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let mut script = run("killed").started("2026-11-01T00:00:00Z");
    for number in 0..BATCHES * BATCH {
        script = script.passes(&format!("c{number}"));
    }
    let client = super::harness::client();
    let send = async |address: &str, method: &str, path: &str, body: &serde_json::Value| {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let request = client.request(method, format!("http://{address}{path}")).json(body);
        // Whatever goes wrong, a runner keeps the batch and sends it again.
        let answer = request.bearer_auth(&token).send().await.ok()?;
        let taken = answer.status().is_success();
        let body: serde_json::Value = answer.json().await.ok()?;
        taken.then_some(body)
    };
    let announcement = json!(script.announcement());
    let manifest = json!(script.manifest());
    send(&server.address, "POST", "/api/v1/runs", &announcement).await.unwrap();
    send(&server.address, "PUT", &script.path("/manifest"), &manifest).await.unwrap();

    let mut acknowledged = 0;
    for number in 0..BATCHES {
        let body = json!(script.slice(number * BATCH, BATCH).results());
        let path = script.path("/results");
        let sent = send(&server.address, "POST", &path, &body);
        let victim = number % 10;
        if victim == 4 || victim == 7 {
            // While the batch is on its way or being stored; where exactly differs by batch.
            let pause = std::time::Duration::from_micros(700 * number as u64);
            let pid = Pid::from_raw(server.child.id().try_into().unwrap());
            let postmaster = data.postmaster().unwrap();
            let kills = async {
                tokio::time::sleep(pause).await;
                kill(pid, Signal::SIGKILL).unwrap();
                if victim == 7 {
                    kill(postmaster, Signal::SIGKILL).unwrap();
                }
            };
            let (answer, ()) = tokio::join!(sent, kills);
            acknowledged += usize::from(answer.is_some());
            while victim == 7 && serves(postmaster, &data) {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
            server.child.wait().unwrap();
            server = Server::start(&data);
        } else {
            acknowledged += usize::from(sent.await.is_some());
        }
    }
    assert!(acknowledged >= BATCHES - 6, "{acknowledged}");
    for number in 0..BATCHES {
        let body = json!(script.slice(number * BATCH, BATCH).results());
        let answer = send(&server.address, "POST", &script.path("/results"), &body).await.unwrap();
        let count = |field: &str| answer[field].as_u64().unwrap();
        assert_eq!(count("stored") + count("replayed"), BATCH as u64);
        assert!(count("stored") == 0 || count("replayed") == 0, "a batch was stored in part");
    }
    let seal = json!({"attempts": BATCHES * BATCH, "finished_at": super::harness::NOW});
    let sealed = send(&server.address, "POST", &script.path("/seal"), &seal).await.unwrap();
    assert_eq!(sealed["completeness"], "complete", "{sealed}");
    let shown = send(&server.address, "GET", &script.path(""), &seal).await.unwrap();
    assert_eq!(shown["attempts"], BATCHES * BATCH);
    server.stop();
}

#[test]
fn the_commands_of_an_operator_work_on_the_private_database() {
    let data = Data::new();
    let out = |arguments: &[&str]| {
        let output = data.output(arguments);
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code(), text)
    };
    let (code, text) = out(&["migrate", "--status"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("20261130050100\tpending\tcreate tokens"), "{text}");
    let (code, text) = out(&["migrate"]);
    assert!(code == Some(0) && !text.contains("pending"), "{text}");
    let (code, text) = out(&["migrate", "--down-to", "20261130063000"]);
    assert!(code == Some(0) && text.contains("20261130091000\tpending"), "{text}");
    let (code, text) = out(&["migrate", "--down-to", "5"]);
    assert!(code == Some(1) && text.contains("there is no migration 5"), "{text}");

    let first = out(&["token", "create", "--name", "a", "--scope", "ingest"]).1;
    let second = out(&["token", "rotate", "--name", "a"]).1;
    assert!(first.starts_with("ttc_") && second.starts_with("ttc_") && first != second);
    let (code, text) = out(&["token", "rotate", "--name", "b"]);
    assert!(code == Some(1) && text.contains("no valid token `b`"), "{text}");

    let (code, text) = out(&["retention", "--dry-run"]);
    assert!(code == Some(0) && text.contains("nothing was deleted"), "{text}");
    let (code, text) = out(&["retention"]);
    assert!(code == Some(0) && text.contains("0 empty parts"), "{text}");
    let (code, text) = out(&["export"]);
    assert!(code == Some(0) && text.contains("0 runs"), "{text}");
    let (code, text) = out(&["import", "nosuch.jsonl"]);
    assert!(code == Some(1) && text.contains("`nosuch.jsonl` cannot be read"), "{text}");

    let gates = data.folder().join("gates");
    std::fs::create_dir(&gates).unwrap();
    let rules = "title = \"t\"\n[[rule]]\nname = \"r\"\nsuite = \"tier1\"\n\
                 planned_min = 1\nstale_hours = 26\n";
    std::fs::write(gates.join("nightly.toml"), rules).unwrap();
    let (code, text) = out(&["gate", "nightly"]);
    assert!(code == Some(5) && text.contains("gate `nightly`: incomplete"), "{text}");
    let (code, text) = out(&["gate", "weekly"]);
    assert!(code == Some(1) && text.contains("there is no gate `weekly`"), "{text}");
    let (code, text) = out(&["gate", "nightly", "--rules", "gates/nightly.toml"]);
    assert!(code == Some(0) && text.starts_with("run\tsealed"), "{text}");
}
