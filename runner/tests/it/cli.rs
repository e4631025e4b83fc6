//! Whole outputs, exit code included, of commands and of every bad input. To accept a change:
//! `INSTA_UPDATE=always cargo test -p runner --test it cli`.

use insta::assert_snapshot;

use crate::harness::World;

fn snapshot(args: &[&str]) -> String {
    let world = World::new();
    let ended = world.run(args);
    world.snapshot(&ended)
}

fn hint_and_code(world: &World, args: &[&str]) -> String {
    let ended = world.run(args);
    world.snapshot(&ended)
}

#[test]
fn help_lists_everything_in_groups() {
    assert_snapshot!(snapshot(&["--help"]));
}

#[test]
fn no_suite() {
    assert_snapshot!(snapshot(&[]));
}

#[test]
fn a_wrong_flag() {
    assert_snapshot!(snapshot(&["--suit", "operators"]));
}

#[test]
fn an_unknown_suite() {
    assert_snapshot!(snapshot(&["--suite", "ops"]));
}

#[test]
fn an_unknown_device() {
    assert_snapshot!(snapshot(&["--suite", "operators", "--device", "gpu"]));
}

#[test]
fn a_device_that_is_not_there() {
    assert_snapshot!(snapshot(&["--suite", "operators", "--device", "tpu-sim"]));
}

#[test]
fn no_model_list() {
    assert_snapshot!(snapshot(&["--tier", "2"]));
}

#[test]
fn a_missing_model_list() {
    assert_snapshot!(snapshot(&["--tier", "2", "--model-list", "nosuch.toml"]));
}

#[test]
fn a_malformed_model_list() {
    let world = World::new();
    let list = world.file("mine.toml", "models = [\n  { id = \"timm:resnet18\", bath = 2 },\n]\n");
    let list = list.display().to_string();
    assert_snapshot!(hint_and_code(&world, &["--tier", "1", "--model-list", &list]));
}

#[test]
fn an_empty_model_list() {
    let world = World::new();
    let list = world.file("none.toml", "# nothing yet\nmodels = []\n").display().to_string();
    assert_snapshot!(hint_and_code(&world, &["--tier", "1", "--model-list", &list]));
}

#[test]
fn a_filter_that_selects_nothing() {
    let world = World::new();
    let selection = world.file("selection.txt", "pass\n").display().to_string();
    let device = ["--suite", "operators", "--device", "cpu", "--selection", &selection];
    let filter = ["--filter", "aten::nosuch"];
    assert_snapshot!(hint_and_code(&world, &[&device[..], &filter[..]].concat()));
}

#[test]
fn a_filter_that_cannot_be_read() {
    assert_snapshot!(snapshot(&["--suite", "operators", "--filter", "op:add mode:lazy"]));
}

#[test]
fn an_unknown_entry() {
    let world = World::new();
    let ended = world.execute(&["pass", "nosuch"], &[]);
    assert_snapshot!(world.snapshot(&ended));
}

#[test]
fn no_python() {
    assert_snapshot!(snapshot(&["--suite", "operators", "--python", "/nosuch/python"]));
}

#[test]
fn a_backend_that_cannot_be_imported() {
    let world = World::new();
    let mut command = world.start(&["pass"], &[]);
    let output = command.env("FAKE", "import-fails").output().unwrap();
    assert_snapshot!(world.snapshot(&crate::harness::Ended::of(output)));
}

#[test]
fn a_device_that_fails_its_probe() {
    let world = World::new();
    let mut command = world.start(&["pass"], &[]);
    let output = command.env("FAKE", "probe-fails").output().unwrap();
    assert_snapshot!(world.snapshot(&crate::harness::Ended::of(output)));
}

#[test]
fn a_backend_that_dies_on_import_shows_its_last_words() {
    let world = World::new();
    let mut command = world.start(&["pass"], &[]);
    let ended = crate::harness::Ended::of(command.env("FAKE", "import-dies").output().unwrap());
    assert_eq!(ended.code, 3);
    assert!(ended.stderr.contains("Segmentation fault in import"), "{}", ended.stderr);
    assert!(ended.stderr.contains("fork-server.log"), "{}", ended.stderr);
}

#[test]
fn a_run_key_that_is_taken() {
    let world = World::new();
    assert_eq!(world.execute(&["pass"], &[]).code, 0);
    let ended = world.execute(&["pass"], &[]);
    assert_snapshot!(world.snapshot(&ended));
}

#[test]
fn an_unknown_run() {
    assert_snapshot!(snapshot(&["report", "nosuch"]));
}

#[test]
fn a_wrong_server_address() {
    assert_snapshot!(snapshot(&["--suite", "operators", "--push", "localhost:1"]));
}

#[test]
fn a_missing_token_file() {
    assert_snapshot!(snapshot(&[
        "--suite",
        "operators",
        "--push",
        "http://localhost:1",
        "--token-file",
        "/nosuch/token"
    ]));
}

#[test]
fn torch_for_the_cpu_needs_its_index() {
    assert_snapshot!(snapshot(&["setup", "--torch-build", "cpu"]));
}

#[test]
fn the_plan_is_listed_and_sharded() {
    let world = World::new();
    let list = |more: &[&str]| {
        let selection = world.file("s.txt", "pass.a\npass.b\npass.c\n").display().to_string();
        let args = [&["list", "--suite=operators", "--selection", &selection], more].concat();
        let ended = world.run(&args);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        ended.stdout
    };
    let all = list(&["--samples=2", "--mode=eager", "--mode=compile"]);
    assert_snapshot!(all, @r"
    operators/opinfo:pass.a#0/float32.eager.forward
    operators/opinfo:pass.a#0/float32.compile.forward
    operators/opinfo:pass.a#1/float32.eager.forward
    operators/opinfo:pass.a#1/float32.compile.forward
    operators/opinfo:pass.b#0/float32.eager.forward
    operators/opinfo:pass.b#0/float32.compile.forward
    operators/opinfo:pass.b#1/float32.eager.forward
    operators/opinfo:pass.b#1/float32.compile.forward
    operators/opinfo:pass.c#0/float32.eager.forward
    operators/opinfo:pass.c#0/float32.compile.forward
    operators/opinfo:pass.c#1/float32.eager.forward
    operators/opinfo:pass.c#1/float32.compile.forward
    ");
    let shards: Vec<String> = ["1/3", "2/3", "3/3"]
        .iter()
        .map(|shard| list(&["--samples=2", "--mode=eager", "--mode=compile", "--shard", shard]))
        .collect();
    let mut parts: Vec<&str> = shards.iter().flat_map(|shard| shard.lines()).collect();
    let mut whole: Vec<&str> = all.lines().collect();
    parts.sort_unstable();
    whole.sort_unstable();
    assert_eq!(parts, whole);
}

#[test]
fn coverage_is_counted_by_definition_and_listed() {
    let world = World::new();
    assert_eq!(world.execute(&["pass", "unsupported"], &[]).code, 1);
    let print = |args: &[&str]| {
        let ended = world.run(&[&["coverage"], args].concat());
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        ended.stdout
    };
    let now = print(&["--device", "cpu"]);
    assert_eq!(now, print(&["--run", "r"]), "the same build as of the run");
    assert!(now.contains("registered                  1 of       3 overloads  33.3 %"), "{now}");
    assert!(now.contains("tier1-calls           no run was kept that tells it"), "{now}");
    let listed = print(&["--run=r", "--definition=reachable", "--list"]);
    for line in [
        "+ aten::composite  composite-implicit",
        "- aten::missing  missing",
        "+ aten::pass  native",
    ] {
        assert!(listed.contains(line), "{listed}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&print(&["--run=r", "--json", "--list"])).unwrap();
    for number in json["coverage"].as_array().unwrap() {
        let Some(items) = number["items"].as_array() else { continue };
        let covered = items.iter().filter(|item| item["covered"] == true);
        let weight: u64 = covered.map(|item| item["weight"].as_u64().unwrap()).sum();
        assert_eq!(number["numerator"].as_u64().unwrap(), weight, "{number}");
    }
    assert!(print(&["diff", "r", "r"]).contains("0 differences"));
    let none = world.run(&["coverage", "diff", "r", "nosuch"]);
    assert_ne!(none.code, 0);
    let wrong = world.run(&["coverage", "--definition", "nosuch"]);
    assert!(wrong.stderr.contains("must be one of registered"), "{}", wrong.stderr);
}

#[test]
fn a_run_its_summary_its_report_and_its_repro() {
    let world = World::new();
    let ended = world.execute(&["pass", "unsupported", "abort", "mismatch", "flaky"], &[]);
    assert_snapshot!("a_run", world.snapshot(&ended));
    let report = world.run(&["report", "r"]);
    assert_eq!(report.stdout, ended.stdout, "the report is made again from the journal");
    assert_snapshot!(
        "its_repro",
        world.snapshot(&world.run(&["repro", "latest", "mismatch", "--kept"]))
    );
    for file in ["summary.json", "junit.xml", "report.html"] {
        assert!(world.path("runs/r").join(file).is_file(), "{file}");
    }
    let of_a_crash = world.run(&["repro", "r", "abort", "--kept"]);
    assert_eq!((of_a_crash.code, of_a_crash.stdout.as_str()), (0, "import torch  # left behind\n"));
    assert_snapshot!("two_repros", world.snapshot(&world.run(&["repro", "r", "opinfo", "--kept"])));
}

#[test]
fn devices_says_what_auto_chooses() {
    let world = World::new();
    let ended = world.run(&["devices"]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stdout.contains("cpu      usable   fake device (1 units)"), "{}", ended.stdout);
    assert!(ended.stdout.contains("(auto)"), "{}", ended.stdout);
}

#[test]
fn doctor_says_what_is_there_and_what_is_missing() {
    let world = World::new();
    let good = world.run(&["doctor", "--device", "cpu"]);
    assert_eq!(good.code, 0, "{}", good.stdout);
    assert!(good.stdout.contains("ok    device: `cpu`, fake device"), "{}", good.stdout);
    let bad = world.run(&["doctor", "--device", "cpu", "--push", "http://127.0.0.1:9"]);
    assert_eq!(bad.code, 3, "{}", bad.stdout);
    assert!(bad.stdout.contains("FAIL  server: cannot reach"), "{}", bad.stdout);
}

#[test]
fn a_man_page_of_no_command_and_a_shell_without_completions() {
    assert_snapshot!("a_man_page_of_no_command", snapshot(&["man", "nosuch"]));
    assert_snapshot!("a_shell_without_completions", snapshot(&["completions", "powershell"]));
}

#[test]
fn the_man_page_of_a_command() {
    assert_snapshot!(snapshot(&["man", "gate"]));
}

#[test]
fn bash_completes_commands_flags_and_words() {
    let world = World::new();
    let script = world.run(&["completions", "bash"]);
    assert_eq!((script.code, script.stderr.as_str()), (0, ""));
    let script = world.file("completions.bash", &script.stdout).display().to_string();
    let complete = |words: &str, place: usize| {
        let typed: Vec<&str> = words.split(' ').collect();
        let program = format!(
            "set -e; source {script}; COMP_WORDS=({words}); COMP_CWORD={place}; \
             _runner runner {} {}; echo \"${{COMPREPLY[@]}}\"",
            typed[place],
            typed[place - 1]
        );
        let output = std::process::Command::new("bash").args(["-c", &program]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(complete("runner re", 1), "resume rerun report record repro\n");
    assert_eq!(complete("runner rerun --sh", 2), "--shuffle\n");
    assert_eq!(complete("runner completions z", 2), "zsh\n");
}
