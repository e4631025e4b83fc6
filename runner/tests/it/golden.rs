//! Goldens in an object store: recorded into a folder, served by a stand-in for S3 and for Google
//! Cloud Storage, and fetched.

#![expect(clippy::unwrap_used, reason = "a test stops where its world is not as it must be")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use protocol::Outcome;
use serde_json::Value;

use crate::harness::{Ended, World};

const LIST: &str = "models = [{ id = \"python:mine:model\" }]\n";
const URL: &str = "s3://bucket/nightly";
/// Google's answers as S3 does, to names in which slashes are escaped.
const GOOGLE_URL: &str = "gs://bucket/nightly";

/// Answers GET and LIST of one bucket from a folder.
struct Bucket {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Bucket {
    fn of(folder: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (folder, seen) = (folder.to_owned(), Arc::clone(&asked));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (folder, seen) = (folder.clone(), Arc::clone(&seen));
                std::thread::spawn(move || while answer(&stream, &folder, &seen).is_some() {});
            }
        });
        Self { address, asked }
    }

    /// Objects asked for since the last time.
    fn fetched(&self) -> Vec<String> {
        let mut asked: Vec<String> = self.asked.lock().unwrap().drain(..).collect();
        asked.retain(|path| path.contains("/objects/"));
        asked
    }
}

/// Answers one request; nothing once the client has gone.
fn answer(stream: &TcpStream, folder: &Path, seen: &Mutex<Vec<String>>) -> Option<()> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next()?.ok()?;
    while !lines.next()?.ok()?.is_empty() {}
    let target = first.split(' ').nth(1)?.replace("%2F", "/").replace("%2E", ".");
    seen.lock().unwrap().push(target.clone());
    let below = |path: &str| path.strip_prefix("/bucket/nightly/").map(|path| folder.join(path));
    let body = if target.contains("list-type=2") {
        Some(listing(folder).into_bytes())
    } else {
        below(&target).and_then(|path| std::fs::read(path).ok())
    };
    let (status, body) = match body {
        Some(body) => ("200 OK", body),
        None => ("404 Not Found", b"<Error><Code>NoSuchKey</Code></Error>".to_vec()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nETag: \"x\"\r\n\
         Last-Modified: Mon, 30 Nov 2026 05:00:00 GMT\r\n\r\n",
        body.len()
    );
    let mut writer = stream;
    writer.write_all(head.as_bytes()).ok()?;
    writer.write_all(&body).ok()
}

fn listing(folder: &Path) -> String {
    let names = std::fs::read_dir(folder.join("cases")).into_iter().flatten().flatten();
    let contents: String = names
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            format!(
                "<Contents><Key>nightly/cases/{name}</Key><Size>1</Size><ETag>x</ETag>\
                 <LastModified>2026-11-30T05:00:00Z</LastModified></Contents>"
            )
        })
        .collect();
    format!("<ListBucketResult><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>")
}

fn run(world: &World, bucket: &Bucket, args: &[&str]) -> Ended {
    let mut command = world.command(args);
    command
        .env("AWS_ENDPOINT", &bucket.address)
        .env("AWS_ALLOW_HTTP", "true")
        .env("AWS_SKIP_SIGNATURE", "true")
        .env("AWS_REGION", "nowhere")
        .env("GOOGLE_BASE_URL", &bucket.address)
        .env("GOOGLE_ALLOW_HTTP", "true")
        .env("GOOGLE_SKIP_SIGNATURE", "true");
    Ended::of(command.output().unwrap())
}

/// A world with the golden of one model, and the bucket that holds it.
fn recorded() -> (World, PathBuf, Bucket) {
    let world = World::new();
    let list = world.file("mine.toml", LIST).display().to_string();
    let folder = world.path("goldens");
    let out = folder.display().to_string();
    let ended = world.run(&["record", "--device=cpu", "--model-list", &list, "--out", &out]);
    assert_eq!(ended.code, 0, "{}{}", ended.stdout, ended.stderr);
    let bucket = Bucket::of(&folder);
    (world, folder, bucket)
}

/// Tier 2 of the list against the bucket, as run `r`.
fn compared(world: &World, bucket: &Bucket) -> Ended {
    compared_with(URL, world, bucket)
}

fn compared_with(url: &str, world: &World, bucket: &Bucket) -> Ended {
    let list = world.path("mine.toml").display().to_string();
    let _ = std::fs::remove_dir_all(world.path("runs/r"));
    let fixed = ["--tier=2", "--device=cpu", "--run-key=r", "--retries=0", "--golden", url];
    run(world, bucket, &[&fixed[..], &["--model-list", &list]].concat())
}

#[test]
fn goldens_of_an_object_store_are_fetched_once_and_compared_with() {
    for url in [URL, GOOGLE_URL] {
        let (world, _, bucket) = recorded();
        let ended = compared_with(url, &world, &bucket);
        assert_eq!(ended.code, 0, "{url}: {}{}", ended.stdout, ended.stderr);
        let attempt = world.attempt_of_model();
        assert_eq!(attempt.outcome, Outcome::Pass);
        let reference = &attempt.evidence.comparisons[0].reference;
        assert!(reference.starts_with("golden cpu "), "{reference}");
        assert!(!bucket.fetched().is_empty());
        assert_eq!(compared_with(url, &world, &bucket).code, 0);
        assert_eq!(bucket.fetched(), Vec::<String>::new(), "what is in the cache is not asked for");
    }
}

#[test]
fn what_an_object_store_lacks_or_holds_damaged_is_infra_and_no_pass() {
    let (world, folder, bucket) = recorded();
    let object = |name: &str| {
        let below = walk(&folder.join("objects"));
        below.into_iter().next().unwrap_or_else(|| panic!("{name}: no object"))
    };
    let damaged = object("damaged");
    let whole = std::fs::read(&damaged).unwrap();
    std::fs::write(&damaged, vec![0; whole.len()]).unwrap();
    assert_eq!(compared(&world, &bucket).code, 1);
    assert_eq!(world.attempt_of_model().error_class, "golden-corrupt");
    std::fs::write(&damaged, [whole.as_slice(), b"more"].concat()).unwrap();
    assert_eq!(compared(&world, &bucket).code, 1);
    assert_eq!(world.attempt_of_model().error_class, "golden-unreachable");
    std::fs::write(&damaged, &whole).unwrap();
    assert_eq!(compared(&world, &bucket).code, 0);
    let case = walk(&folder.join("cases")).remove(0);
    std::fs::rename(&case, folder.join("cases/other.json")).unwrap();
    assert_eq!(compared(&world, &bucket).code, 1);
    assert_eq!(world.attempt_of_model().error_class, "golden-missing");
}

#[test]
fn goldens_of_an_object_store_are_verified_and_an_empty_one_is_an_error() {
    let (world, folder, bucket) = recorded();
    for url in [URL, GOOGLE_URL] {
        let ended = run(&world, &bucket, &["golden", "verify", url, "--json"]);
        assert_eq!(ended.code, 0, "{url}: {}{}", ended.stdout, ended.stderr);
        let found: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!((&found["goldens"], &found["problems"]), (&1.into(), &Value::Array(vec![])));
    }
    std::fs::remove_dir_all(folder.join("cases")).unwrap();
    let ended = run(&world, &bucket, &["golden", "verify", URL]);
    assert_ne!(ended.code, 0);
    assert!(ended.stderr.contains("there is no golden"), "{}", ended.stderr);
    let ended = compared(&world, &bucket);
    assert!(ended.stderr.contains("there is no golden"), "{}", ended.stderr);
    assert!(!world.path("runs/r").exists(), "nothing was begun");
}

#[test]
fn an_entry_of_a_list_may_ask_for_its_own_rule_and_its_result_names_it() {
    let world = World::new();
    let rules = ["close", "exact", "statistical", "gpu-relative"];
    let entries = rules.map(|rule| format!("{{ id = \"python:mine:{rule}\", rule = \"{rule}\" }}"));
    let list = world.file("mine.toml", &format!("models = [{}]\n", entries.join(",")));
    let list = list.display().to_string();
    let fixed = ["--tier=2", "--device=cpu", "--run-key=r", "--no-dedupe", "--model-list", &list];
    assert_eq!(world.run(&fixed).code, 0);
    for (rule, used) in rules.iter().zip(["close", "exact", "statistical", "close"]) {
        let mut attempts = world.attempts().into_iter();
        let attempt = attempts.find(|a| a.case.as_str().contains(&format!("mine:{rule}#")));
        assert_eq!(attempt.unwrap().evidence.comparisons[0].rule, used, "{rule}");
    }
}

/// Files below a folder.
fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}
