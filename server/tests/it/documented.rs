//! docs/api.md against the handlers: what is routed is described, what is described is routed.

use std::collections::BTreeSet;

use reqwest::{Method, StatusCode};
use sqlx::PgPool;

use super::harness::scenario;

/// `GET /api/v1/runs` of every heading.
fn described() -> BTreeSet<(String, String)> {
    include_str!("../../../docs/api.md")
        .lines()
        .filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`'))
        .map(|endpoint| {
            let (method, path) = endpoint.split_once(' ').unwrap();
            (method.to_owned(), path.to_owned())
        })
        .collect()
}

/// The operations of the document that the server makes of its handlers.
fn routed() -> BTreeSet<(String, String)> {
    let (_, mut document) = server::app::described().split_for_parts();
    document.merge(server::api::health::router().split_for_parts().1);
    let document = serde_json::to_value(document).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let operations = paths.iter().flat_map(|(path, item)| {
        item.as_object().unwrap().keys().map(|method| (method.to_uppercase(), path.clone()))
    });
    operations.collect()
}

#[test]
fn every_route_is_described_and_every_description_is_of_a_route() {
    assert!(routed().len() >= 23, "{:?}", routed());
    assert_eq!(described(), routed());
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn what_is_described_answers(pool: PgPool) {
    scenario(pool, async |world| {
        for (method, path) in described() {
            let path = path
                .replace("{waiver}", "1")
                .replace("{sha256}", "00")
                .replace("{run}", "r1")
                .replace("{suite}", "tier1")
                .replace("{name}", "g");
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let is_write = method != Method::GET;
            let answer = world.send(world.request(method, &path)).await;
            assert_ne!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{path}");
            assert!(!answer.text.contains("there is nothing at"), "{path}: {}", answer.text);
            if is_write {
                assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{path} may be written by all");
            }
        }
    })
    .await;
}

#[test]
fn the_gate_files_of_this_repository_are_gates() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../gates");
    let gates = server::gates::Gates::load(Some(folder.as_ref())).unwrap();
    let names: Vec<&str> = gates.iter().map(|gate| gate.name.as_str()).collect();
    assert_eq!(names, ["demo", "nightly"]);
    let example = include_str!("../../../docs/gates.md");
    let toml = example.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    server::judge::gate::GateFile::parse("example", "docs/gates.md", toml).unwrap();
}

#[test]
fn the_diagram_of_a_run_has_the_states_of_the_code() {
    use server::judge::completeness::{Completeness, RunState};
    let text = include_str!("../../../docs/states.md");
    let diagram = text.split("```mermaid").nth(1).unwrap().split("```").next().unwrap();
    let nodes: BTreeSet<&str> = diagram
        .lines()
        .filter(|line| line.contains("-->"))
        .flat_map(|line| line.split(" : ").next().unwrap().split("-->").map(str::trim))
        .filter(|node| *node != "[*]")
        .collect();
    // A sealed run is shown by what it is worth.
    let states = RunState::ALL.iter().filter(|s| **s != RunState::Sealed).map(|s| s.as_str());
    let words = states.chain(Completeness::ALL.iter().map(|c| c.as_str()));
    assert_eq!(nodes, words.collect());
}
