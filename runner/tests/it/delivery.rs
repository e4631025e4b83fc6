//! Results reach the server once each, whatever the network and the server do.

#![expect(clippy::unwrap_used, reason = "a test stops where its world is not as it must be")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use protocol::ingest_api::{Attempt, create_run, post_results, put_manifest, seal_run};
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncReadExt as _;

use crate::harness::World;

/// One request as the server saw it.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) line: String,
    authorisation: String,
    body: Vec<u8>,
}

/// A server that answers as `answer` says: status, further headers, body.
pub(crate) struct Server {
    pub(crate) address: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

pub(crate) type Answer = (u16, &'static str, String);

impl Server {
    pub(crate) fn start(mut answer: impl FnMut(&Seen) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                serve(stream, &log, &mut answer);
            }
        });
        Self { address, seen }
    }

    pub(crate) fn seen(&self, what: &str) -> Vec<Seen> {
        self.seen.lock().unwrap().iter().filter(|s| s.line.contains(what)).cloned().collect()
    }

    fn delivered(&self) -> Vec<Attempt> {
        let batches = self.seen("/results").into_iter();
        let batches = batches.map(|s| serde_json::from_slice::<post_results::Request>(&s.body));
        batches.flat_map(|batch| batch.unwrap().results).collect()
    }
}

/// One request per connection keeps this readable.
fn serve(stream: TcpStream, log: &Mutex<Vec<Seen>>, answer: &mut impl FnMut(&Seen) -> Answer) {
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if line == "\r\n" {
            break;
        }
        head.push(line.trim().to_owned());
    }
    let header = |name: &str| {
        let find = |line: &String| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then(|| value.to_owned())
        };
        head.iter().find_map(find).unwrap_or_default()
    };
    let mut body = vec![0; header("content-length").parse().unwrap_or(0)];
    reader.read_exact(&mut body).unwrap();
    if header("content-encoding") == "zstd" {
        body = decompress(&body);
    }
    let seen = Seen { line: head[0].clone(), authorisation: header("authorization"), body };
    let (status, headers, text) = answer(&seen);
    log.lock().unwrap().push(seen);
    let length = text.len();
    let _ = write!(
        reader.get_mut(),
        "HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n{text}"
    );
}

fn decompress(bytes: &[u8]) -> Vec<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut decoder = async_compression::tokio::bufread::ZstdDecoder::new(bytes);
        let mut body = Vec::new();
        decoder.read_to_end(&mut body).await.unwrap();
        body
    })
}

/// What a good server answers.
fn good(seen: &Seen) -> Answer {
    let body = if seen.line.starts_with("PUT") {
        serde_json::to_string(&put_manifest::Response { planned: 1 })
    } else if seen.line.contains("/results") {
        serde_json::to_string(&post_results::Response { stored: 1, replayed: 0 })
    } else if seen.line.contains("/seal") {
        serde_json::to_string(&seal_run::Response {
            completeness: "complete".to_owned(),
            planned: 1,
            judged: 1,
            missing: 0,
            waiting_for: Vec::new(),
        })
    } else {
        let run_key = "r".parse().unwrap();
        let page = "/runs/r".to_owned();
        serde_json::to_string(&create_run::Response { run_key, page, created: true })
    };
    (200, "", body.unwrap())
}

#[test]
fn a_run_is_announced_delivered_and_sealed() {
    let world = World::new();
    let server = Server::start(good);
    let token = world.file("token", "secret\n").display().to_string();
    let ended =
        world.execute(&["pass", "flaky"], &["--push", &server.address, "--token-file", &token]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("/runs/r"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("secret"));
    let lines: Vec<String> = server.seen("").into_iter().map(|seen| seen.line).collect();
    assert_eq!(lines[0], "POST /api/v1/runs HTTP/1.1");
    assert_eq!(lines[1], "PUT /api/v1/runs/r/manifest HTTP/1.1");
    assert_eq!(lines.last().unwrap(), "POST /api/v1/runs/r/seal HTTP/1.1");
    assert!(server.seen("").iter().all(|seen| seen.authorisation == "Bearer secret"));
    assert_eq!(server.delivered(), world.attempts());
    let seal: seal_run::Request = serde_json::from_slice(&server.seen("/seal")[0].body).unwrap();
    assert_eq!(seal.attempts, 3);
    let again = world.run(&["push", "--all"]);
    assert_eq!((again.code, again.stderr.as_str()), (0, "every kept run is delivered\n"));
}

#[test]
fn a_busy_server_is_waited_for_and_gets_each_result_once() {
    let world = World::new();
    let mut refusals = 2;
    let server = Server::start(move |seen| {
        if seen.line.contains("/results") && refusals > 0 {
            refusals -= 1;
            return (503, "retry-after: 0\r\n", String::new());
        }
        good(seen)
    });
    let ended = world.execute(&["pass.0", "pass.1"], &["--push", &server.address]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(server.seen("/seal").len(), 1);
    assert!(server.seen("/results").len() >= 3, "two were refused");
}

#[test]
fn an_absent_server_loses_nothing_and_push_delivers_later() {
    let world = World::new();
    let gone = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let ended = world.execute(&["pass"], &["--push", &gone]);
    assert_eq!(ended.code, 3, "undelivered is trouble: {}", ended.stderr);
    assert!(ended.stderr.contains("cannot reach the server"), "{}", ended.stderr);
    assert!(ended.stderr.contains("`runner push r` sends them"), "{}", ended.stderr);
    let server = Server::start(good);
    let pushed = world.run(&["push", "r", "--server", &server.address]);
    assert_eq!(pushed.code, 0, "{}", pushed.stderr);
    assert_eq!(server.delivered(), world.attempts());
    assert_eq!(server.seen("/seal").len(), 1);
}

#[test]
fn a_wrong_token_is_said_at_once_not_tried_again_and_costs_no_result() {
    let world = World::new();
    let body = r#"{"status":401,"title":"the token is not known","hint":"","request_id":"1"}"#;
    let server = Server::start(move |_| (401, "", body.to_owned()));
    let ended = world.execute(&["pass"], &["--push", &server.address]);
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    let told = ended.stderr.find("refused the token: the token is not known").unwrap();
    let begun = ended.stderr.find("1 cases on cpu").unwrap();
    assert!(told < begun, "before the first case: {}", ended.stderr);
    assert_eq!(server.seen("").len(), 1, "a refusal is final");
    assert_eq!(world.attempts().len(), 1);
}

#[test]
fn a_server_that_has_fewer_results_gets_all_of_them_again() {
    let world = World::new();
    let mut conflicts = 1;
    let server = Server::start(move |seen| {
        if seen.line.contains("/seal") && conflicts > 0 {
            conflicts -= 1;
            return (409, "", String::new());
        }
        good(seen)
    });
    let ended = world.execute(&["pass.0", "pass.1"], &["--push", &server.address]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(server.delivered().len(), 4, "all of them twice, which changes nothing there");
    assert_eq!(server.seen("/seal").len(), 2);
}

#[test]
fn the_gates_answer_is_an_exit_code() {
    for (answer, code) in [("open", 0), ("closed", 1), ("incomplete", 5)] {
        let world = World::new();
        let check = r#"{"answer":"closed","text":"2 failed, at most 0","blocking":[{"case":"c","verdict":"failed"}]}"#;
        let rule = format!(r#"{{"name":"tier1","answer":"closed","run":"r","checks":[{check}]}}"#);
        let body = format!(r#"{{"answer":"{answer}","rules":[{rule}]}}"#);
        let server = Server::start(move |_| (200, "", body.clone()));
        let ended = world.run(&["gate", "demo", "--server", &server.address]);
        assert_eq!(ended.code, code, "{}", ended.stderr);
        let told = format!(
            "gate demo: {answer}\n  closed     tier1 (r)\n    closed     2 failed, at most 0\n      c: \
             failed\n"
        );
        assert_eq!(ended.stdout, told);
        let line = &server.seen("")[0].line;
        assert_eq!(line, "GET /api/v1/gates/demo?candidate=latest HTTP/1.1");
    }
    let ended = World::new().run(&["gate", "demo", "--server", "http://127.0.0.1:9"]);
    assert_eq!(ended.code, 3, "{}", ended.stderr);
}

#[test]
fn files_of_what_did_not_pass_follow_the_results_once_each() {
    let world = World::new();
    let mut refusals = 1;
    let server = Server::start(move |seen| {
        if seen.line.starts_with("PUT /api/v1/artifacts") && refusals > 0 {
            refusals -= 1;
            return (429, "retry-after: 0\r\n", String::new());
        }
        good(seen)
    });
    let ended = world.execute(&["pass", "mismatch"], &["--push", &server.address]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    let named = server.seen("POST /api/v1/runs/r/artifacts");
    let body: serde_json::Value = serde_json::from_slice(&named[0].body).unwrap();
    let results: post_results::Request =
        serde_json::from_slice(&server.seen("/results")[0].body).unwrap();
    assert_eq!(body["journal"], results.source.unwrap().journal.as_str());
    let links = body["artifacts"].as_array().unwrap();
    let text = |link: &serde_json::Value, field: &str| link[field].as_str().unwrap().to_owned();
    assert!(links.iter().all(|link| text(link, "case").contains("mismatch")), "{body}");
    let mut names: Vec<String> = links.iter().map(|link| text(link, "name")).collect();
    names.sort();
    names.dedup();
    for name in ["actual.safetensors", "expected.safetensors", "repro.py"] {
        assert!(names.iter().any(|known| known == name), "{names:?}");
    }
    // Every name stands for bytes that were sent under their own hash.
    for link in links {
        let path = format!("PUT /api/v1/artifacts/{} ", text(link, "sha256"));
        let sent = server.seen(&path);
        assert_eq!(hex::encode(Sha256::digest(&sent[0].body)), text(link, "sha256"));
        assert!(sent.len() <= 2, "once, and once more after the refusal");
    }
    let lines: Vec<String> = server.seen("").into_iter().map(|seen| seen.line).collect();
    assert!(lines.last().unwrap().contains("/seal"), "{lines:?}");
    // Elsewhere later: all of it again, and nothing twice to the same server.
    let before = server.seen("artifacts").len();
    assert_eq!(world.run(&["push", "r"]).code, 0);
    assert_eq!(server.seen("artifacts").len(), before);
}

#[test]
fn a_server_that_takes_no_files_gets_the_results_all_the_same() {
    let world = World::new();
    let server = Server::start(|seen| {
        if seen.line.contains("artifacts") { (404, "", String::new()) } else { good(seen) }
    });
    let ended = world.execute(&["mismatch"], &["--push", &server.address]);
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("the server takes no files of attempts"), "{}", ended.stderr);
    assert_eq!(server.seen("artifacts").len(), 1, "a refusal is final");
    assert_eq!(server.seen("/seal").len(), 1);
}
