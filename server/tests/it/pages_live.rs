//! What is told while it happens, and what is told over time: events of a running run, the feed of
//! regressions, trends over nights, and what changed since the last release.

use std::time::Duration;

use atom_syndication::Feed;
use protocol::{Outcome, Suite};
use reqwest::Method;
use sqlx::PgPool;

use super::builders::run;
use super::harness::{World, scenario};

/// The next event of a stream: its name and its data.
async fn next_event(response: &mut reqwest::Response) -> Option<(String, serde_json::Value)> {
    let mut text = String::new();
    while !text.contains("\n\n") {
        let chunk = tokio::time::timeout(Duration::from_secs(20), response.chunk()).await;
        let bytes = chunk.expect("an event within the time").unwrap()?;
        text.push_str(std::str::from_utf8(&bytes).unwrap());
    }
    let field = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned()
    };
    Some((field("event:"), serde_json::from_str(&field("data:")).unwrap()))
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn an_open_page_is_told_how_far_its_run_has_come(pool: PgPool) {
    scenario(pool, async |world| {
        let script = run("r1").passes("add").plans("mul");
        world.start_run(&script).await;
        let page = world.page("/runs/r1").await;
        let events = page.attributes("main", "data-events").remove(0);
        let mut stream = world.request(Method::GET, &events).send().await.unwrap();
        assert_eq!(stream.headers()["content-type"], "text/event-stream");

        let (name, data) = next_event(&mut stream).await.unwrap();
        assert_eq!((name.as_str(), &data["attempts"]), ("progress", &0.into()));
        assert_eq!(data["planned"], 2);
        assert!(world.deliver(&script).await.status.is_success());
        let (name, data) = next_event(&mut stream).await.unwrap();
        assert_eq!((name.as_str(), &data["attempts"]), ("progress", &1.into()));
        world.seal(&script, 1).await;
        let (name, data) = next_event(&mut stream).await.unwrap();
        assert_eq!((name.as_str(), &data["state"]), ("sealed", &"sealed".into()));
        assert!(next_event(&mut stream).await.is_none(), "there is nothing more to tell");
        assert_eq!(world.page("/runs/r1").await.count("[data-events]"), 0);
        assert_eq!(world.get("/runs/none/events").await.status, 404);
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_page_that_is_told_does_not_keep_the_server_from_ending(pool: PgPool) {
    let mut kept = None;
    scenario(pool, async |world| {
        let script = run("r1").plans("mul");
        world.start_run(&script).await;
        let mut stream = world.request(Method::GET, "/runs/r1/events").send().await.unwrap();
        next_event(&mut stream).await.unwrap();
        kept = Some((stream, std::time::Instant::now()));
    })
    .await;
    let (mut stream, since) = kept.unwrap();
    assert!(since.elapsed() < Duration::from_secs(4), "the drain of five seconds was needed");
    assert!(next_event(&mut stream).await.is_none());
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn too_many_pages_are_not_told_and_say_so(pool: PgPool) {
    scenario(pool, async |world| {
        world.start_run(&run("r1").plans("mul")).await;
        let room = world.state.watchers.clone();
        let _taken = room.acquire_many(64).await.unwrap();
        let answer = world.get("/runs/r1/events").await;
        assert_eq!(answer.status, 429);
        assert_eq!(answer.headers["retry-after"], "30");
    })
    .await;
}

async fn feed(world: &World, path: &str) -> Feed {
    let answer = world.get(path).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert!(
        answer.headers["content-type"].to_str().unwrap().starts_with("application/atom+xml"),
        "a reader knows it by its type"
    );
    answer.text.parse().unwrap_or_else(|error| panic!("{error}: {}", answer.text))
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn the_feed_has_one_entry_for_each_run_with_regressions(pool: PgPool) {
    scenario(pool, async |world| {
        let empty = feed(&world, "/feeds/regressions.atom").await;
        assert!(empty.entries.is_empty());
        let night =
            |key: &str, day: &str| run(key).on("cpu").started(&format!("2026-11-{day}T02:00:00Z"));
        world.finish_run(&night("n1", "27").passes("add").passes("mul").passes("sub")).await;
        world.finish_run(&night("n2", "28").passes("add").passes("mul")).await;
        let hostile = "<script>\u{1b}[31m & \u{202e}]]>";
        let broken = night("n3", "29")
            .observes_with("add", Outcome::Crash, |attempt| attempt.message = hostile.to_owned())
            .observes("mul", Outcome::Mismatch)
            .passes("sub");
        world.finish_run(&broken).await;

        let page = world.page("/").await;
        let links = page.attributes("link[type='application/atom+xml']", "href");
        let feed_of_all = feed(&world, &links[0]).await;
        assert_eq!(feed_of_all.entries.len(), 1);
        let entry = &feed_of_all.entries[0];
        assert_eq!(entry.title.value, "2 regressed on cpu: n3");
        assert_eq!(entry.id, "http://conformance.test/runs/n3#regressed");
        assert_eq!(entry.links[0].href, "http://conformance.test/runs/n3?verdict=regressed");
        let api = world.get_json("/api/v1/runs/n3/cases?verdict=regressed").await;
        let content = entry.content.as_ref().unwrap();
        assert_eq!(content.content_type.as_deref(), Some("html"));
        let html = content.value.as_deref().unwrap();
        for case in api["cases"].as_array().unwrap() {
            let shown = scraper::Html::parse_fragment(html);
            let text: String = shown.root_element().text().collect();
            assert!(text.contains(case["case"].as_str().unwrap()), "{html}");
        }
        assert!(!html.contains("<script>") && !html.contains(['\u{1b}', '\u{202e}']), "{html}");
        for part in [&feed_of_all.id, &feed_of_all.authors[0].name, &feed_of_all.title.value] {
            assert!(!part.is_empty());
        }
        let rels: Vec<&str> = feed_of_all.links.iter().map(|link| link.rel.as_str()).collect();
        assert_eq!(rels, ["self", "alternate"]);
        assert!(feed(&world, "/feeds/regressions.atom?device=tpu").await.entries.is_empty());
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_trend_is_the_last_run_of_every_night(pool: PgPool) {
    scenario(pool, async |world| {
        let night = |key: &str, at: &str| run(key).started(at);
        world.finish_run(&night("old", "2026-08-01T02:00:00Z").passes("add")).await;
        let early = night("early", "2026-11-28T02:00:00Z").observes("add", Outcome::Crash);
        world.finish_run(&early.passes("mul")).await;
        let late = night("late", "2026-11-28T23:00:00Z").passes("add").passes("mul");
        world.finish_run(&late.passes("sub").observes("exp", Outcome::Error)).await;
        world.finish_run(&night("now", "2026-11-30T02:00:00Z").passes("add").plans("mul")).await;
        let page = world.page("/trend?suite=operators&device=tpu").await;
        let rows = page.table("Nights with a run");
        let short: Vec<[&str; 4]> =
            rows.iter().map(|row| [0, 1, 2, 3].map(|n| row[n].as_str())).collect();
        assert_eq!(
            short,
            [["2026-11-30", "now", "1 of 2", "50.0 %"], ["2026-11-28", "late", "3 of 4", "75.0 %"],]
        );
        for row in &rows {
            let api = world.get_json(&format!("/api/v1/runs/{}", row[1])).await;
            let suite = &api["suites"][0];
            assert_eq!(row[2], format!("{} of {}", suite["passed"], suite["counted"]));
        }
        assert_eq!(page.count("svg.trend circle.complete"), 1);
        assert_eq!(page.count("svg.trend circle.incomplete"), 1, "the night that lacks a case");
        assert_eq!(page.count("svg.trend path.line"), 0, "two nights apart are not joined");
        let card = world.page("/").await;
        assert_eq!(
            card.attributes(".card svg.trend", "aria-label"),
            page.attributes("main > figure svg", "aria-label"),
            "the card and the page say the same"
        );
        let none = world.page("/trend?suite=tier2").await;
        assert!(none.main_text().contains("No data"), "{}", none.main_text());
        world.page_with("/trend?suite=none", 400).await;
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn home_says_what_changed_since_the_last_release(pool: PgPool) {
    scenario(pool, async |world| {
        let night = |key: &str, day: &str| {
            run(key).of(Suite::Tier1).started(&format!("2026-11-{day}T02:00:00Z"))
        };
        let card = async || world.page("/").await.text(".card:nth-of-type(2)");
        let release = night("r-2.9", "01").label("release").passes("bert").passes("vit");
        world.finish_run(&release).await;
        assert!(card().await.contains("run before: none to compare with"), "{}", card().await);
        world.finish_run(&night("n1", "29").passes("bert").observes("vit", Outcome::Error)).await;
        world.finish_run(&night("n2", "30").passes("bert").observes("vit", Outcome::Error)).await;
        let text = card().await;
        assert!(text.contains("run before: the same verdicts over 2 cases"), "{text}");
        assert!(
            text.contains("release yes: over 2 common cases 0 newly passing, 1 no longer"),
            "{text}"
        );
        assert!(text.contains("1 regressed"), "{text}");
        let home = world.page("/").await;
        let links = home.attributes(".card:nth-of-type(2) li a", "href");
        assert!(links.contains(&"/compare?a=r-2.9&b=n2".to_owned()), "{links:?}");
        assert_eq!(home.table("Failing cases by signature")[0][0], "1", "the cluster");
        assert_eq!(home.table("Devices with the age")[0][4], "complete");
    })
    .await;
}
