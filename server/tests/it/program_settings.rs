//! Settings of the program `server`: where they come from, and what is said of bad ones.

use std::process::Command;

use crate::programs::{Data, said};

#[test]
fn every_bad_setting_is_named_with_what_to_do() {
    let data = Data::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = data.output(&["serve", "--listen", &address]);
    said(&output, 1, &[&format!("cannot listen on `{address}`"), "hint: another program"]);
    let with_url = |url: &str| {
        let mut command = data.command(&["serve", "--listen", "127.0.0.1:0"]);
        command.env("DATABASE_URL", url).output().unwrap()
    };
    said(&with_url("mysql://x"), 1, &["`DATABASE_URL` is not a PostgreSQL address", "hint:"]);
    said(
        &with_url("postgres://u:p@127.0.0.1:1/x"),
        1,
        &["`127.0.0.1:1` cannot be reached", "hint:"],
    );
    let gates = data.folder().join("gates");
    std::fs::create_dir(&gates).unwrap();
    std::fs::write(gates.join("bad.toml"), "title = \"x\"\nrules = 1\n").unwrap();
    let output = data.output(&["serve", "--listen", "127.0.0.1:0"]);
    said(&output, 1, &["gates/bad.toml:2`", "unknown field `rules`", "hint: docs/gates.md"]);
    let output = data.output(&["serve", "--gates", "nowhere"]);
    said(&output, 1, &["the gates in `nowhere` cannot be read", "hint:"]);
    said(&data.output(&["serve", "--reads", "some"]), 2, &["--reads"]);
    said(&data.output(&["token", "create", "--name", "x", "--scope", "root"]), 2, &["root"]);
}

#[test]
fn a_setting_comes_from_its_flag_else_its_variable_else_the_file_and_secrets_are_hidden() {
    let data = Data::new();
    let file = data.folder().join("server.toml");
    let text = "listen = \"127.0.0.1:1\"\nsilence-hours = 9\nreads = \"token\"\n";
    std::fs::write(&file, text).unwrap();
    let config = |change: &dyn Fn(&mut Command)| {
        let mut command = data.command(&["config"]);
        command.arg("--config").arg(&file).env("DATABASE_URL", "postgres://u:secret@h/d");
        change(&mut command);
        let output = command.output().unwrap();
        let all = [output.stdout, output.stderr].concat();
        String::from_utf8(all).unwrap()
    };
    let shown = config(&|command| {
        command.env("CONFORMANCE_SILENCE_HOURS", "7").args(["--reads", "public"]);
    });
    for line in [
        "listen\t127.0.0.1:1\tfile\tCONFORMANCE_LISTEN",
        "silence-hours\t7\tvariable\tCONFORMANCE_SILENCE_HOURS",
        "reads\tpublic\tflag\tCONFORMANCE_READS",
        "drain-seconds\t20\tdefault\tCONFORMANCE_DRAIN_SECONDS",
        "gates\t-\tabsent\tCONFORMANCE_GATES",
        "otlp-endpoint\t-\tabsent\tCONFORMANCE_OTLP_ENDPOINT",
        "unknown-tokens-per-minute\t30\tdefault\tCONFORMANCE_UNKNOWN_TOKENS_PER_MINUTE",
        "database-url\tpostgres://u:(hidden)@h/d\tvariable\tDATABASE_URL",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line}:\n{shown}");
    }
    assert!(!shown.contains("secret"), "{shown}");
    std::fs::write(&file, "listne = 1\n").unwrap();
    assert!(config(&|_| ()).contains("sets `listne`, which is no setting"));
    std::fs::write(&file, "listen = [1]\n").unwrap();
    assert!(config(&|_| ()).contains("`listen` in"));
    std::fs::write(&file, "dry-run = true\n").unwrap();
    assert!(config(&|_| ()).contains("`dry-run`, which is no setting"));
    std::fs::write(&file, "listen =\n").unwrap();
    assert!(config(&|_| ()).contains("is not TOML"));
    std::fs::remove_file(&file).unwrap();
    assert!(config(&|_| ()).contains("cannot be read"));
    // It is used, and not only shown.
    std::fs::write(&file, "listen = \"127.0.0.1:99999\"\n").unwrap();
    let output = data.output(&["serve", "--config", file.to_str().unwrap()]);
    said(&output, 2, &["127.0.0.1:99999"]);
}
