//! Nothing from a runner is more than text, every address leads somewhere, and every page can be
//! used without a mouse, without colours and without a script.

use std::collections::{BTreeSet, VecDeque};

use protocol::evidence::LogExcerpt;
use protocol::{Outcome, Suite};
use sqlx::PgPool;

use super::builders::run;
use super::harness::{Options, World, scenario, scenario_with};
use super::pages_world;

/// Addresses that every crawl starts from.
const ROOTS: [&str; 16] = [
    "/",
    "/trend",
    "/runs",
    "/operators",
    "/operators?view=entries",
    "/operators?view=overloads",
    "/models",
    "/gates",
    "/blockers",
    "/compare",
    "/waivers",
    "/claims",
    "/devices",
    "/search",
    "/search?q=a",
    "/operators?device=tpu-sim&view=overloads",
];

/// Visits every address that pages lead to; fails on the first that does not answer 200, breaks
/// the content policy, or keeps somebody out. Gives the pages' addresses and texts.
pub(crate) async fn crawl(world: &World) -> Vec<(String, String)> {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut waiting: VecDeque<String> = ROOTS.iter().map(ToString::to_string).collect();
    let mut texts = Vec::new();
    while let Some(path) = waiting.pop_front() {
        if !seen.insert(path.clone()) {
            continue;
        }
        assert!(seen.len() < 3000, "the crawl does not end");
        if path.starts_with("/api/") || path.starts_with("/static/") || path.starts_with("/feeds/")
        {
            assert_eq!(world.get(&path).await.status.as_u16(), 200, "{path}");
            continue;
        }
        let page = world.page(&path).await;
        assert_eq!(page.violations(), [""; 0], "{path}");
        assert_eq!(page.barriers(), [""; 0], "{path}");
        let here = path.split('?').next().unwrap_or_default();
        for address in page
            .attributes("[href], [src]", "href")
            .into_iter()
            .chain(page.attributes("[src]", "src"))
        {
            let address = address.split('#').next().unwrap_or_default();
            match address {
                "" => {}
                query if query.starts_with('?') => waiting.push_back(format!("{here}{query}")),
                other => waiting.push_back(other.to_owned()),
            }
        }
        texts.push((path, page.main_text()));
    }
    texts
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn every_address_on_every_page_leads_somewhere(pool: PgPool) {
    let gate = "title = \"N\"\n[[rule]]\nname = \"a\"\nsuite = \"operators\"\ndevice = \"tpu-sim\"\n\
                planned_min = 5\npass_rate_min = 0.9\nstale_hours = 26\n";
    let options = Options { gates: vec![("nightly", gate.to_owned())], ..Options::default() };
    scenario_with(pool, options, async |world| {
        pages_world::fill(&world).await;
        let pages = crawl(&world).await;
        for part in ["/runs/", "/cases/", "/operators/", "/models/", "/gates/"] {
            assert!(pages.iter().any(|(path, _)| path.contains(part)), "{part} was not reached");
        }
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn an_empty_server_has_no_dead_address_either(pool: PgPool) {
    scenario(pool, async |world| {
        crawl(&world).await;
    })
    .await;
}

const IMAGE: &str = "<img src=x onerror=alert(1)>";
const SCRIPT: &str = "</code></pre><script>alert(2)</script>";

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn nothing_from_a_runner_is_more_than_text(pool: PgPool) {
    scenario(pool, async |world| {
        let subject = "<img src=x onerror=alert(1)>/%2F..\"'&\u{202e}\u{5d0}";
        let script =
            run("hostile").of(Suite::Tier1).observes_with(subject, Outcome::Error, |attempt| {
                attempt.message = IMAGE.to_owned();
                attempt.error_class = SCRIPT.to_owned();
                attempt.operator = Some("aten::<script>x</script>".to_owned());
                let evidence = &mut attempt.evidence;
                evidence.device_used = IMAGE.to_owned();
                evidence.traceback = SCRIPT.to_owned();
                evidence.repro = SCRIPT.to_owned();
                evidence.reference = IMAGE.to_owned();
                evidence.notes = vec![IMAGE.to_owned()];
                evidence.substitutions = vec![SCRIPT.to_owned()];
                evidence.operators = Some([(IMAGE.to_owned(), 1)].into());
                evidence.stage_seconds = [(SCRIPT.to_owned(), 1.0)].into();
                evidence.log = LogExcerpt {
                    head: format!(
                        "\u{1b}[31m{SCRIPT}\u{1b}[0m\n\u{1b}]8;;javascript:alert(3)\u{7}l"
                    ),
                    tail: IMAGE.to_owned(),
                    dropped_bytes: 1,
                };
            });
        let mut announcement = script.announcement();
        for text in [IMAGE, SCRIPT] {
            announcement.versions.insert(text.to_owned(), text.to_owned());
            announcement.labels.insert(text.to_owned(), text.to_owned());
        }
        announcement.host = IMAGE.to_owned();
        announcement.device_kind = SCRIPT.to_owned();
        let answer = world.post_json("/api/v1/runs", &announcement).await;
        assert!(answer.status.is_success(), "{}", answer.text);
        for answer in
            [world.plan(&script).await, world.deliver(&script).await, world.seal(&script, 1).await]
        {
            assert!(answer.status.is_success(), "{}", answer.text);
        }

        let pages = crawl(&world).await;
        let case = pages.iter().find(|(path, _)| path.contains("/cases/")).expect("a case page");
        for shown in [IMAGE, SCRIPT, "\\u{202e}", "aten::<script>x</script>"] {
            assert!(case.1.contains(shown), "{shown} is not on {}", case.1);
        }
        let run_page = world.page("/runs/hostile").await;
        for shown in [IMAGE, SCRIPT] {
            assert!(run_page.main_text().contains(shown), "{shown} is not shown");
        }
        assert!(pages.iter().all(|(_, text)| !text.contains('\u{202e}')));
        for (path, _) in &pages {
            let answer = world.get(path).await;
            let policy = answer.headers["content-security-policy"].to_str().unwrap().to_owned();
            assert!(policy.contains("default-src 'none'"), "{policy}");
            assert!(!policy.contains("unsafe"), "{policy}");
        }
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn what_is_not_good_is_never_shown_in_the_good_tone(pool: PgPool) {
    scenario(pool, async |world| {
        pages_world::fill(&world).await;
        let good = ["passed", "pass", "fixed", "held", "open", "never blamed"];
        for (path, _) in crawl(&world).await {
            for text in world.page(&path).await.texts(".mark.good") {
                let words = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == ',');
                assert!(good.contains(&words.trim()), "`{text}` is green on {path}");
            }
        }
    })
    .await;
}

#[test]
fn no_template_turns_escaping_off() {
    let mut folders = vec![std::path::PathBuf::from("../templates")];
    let mut read = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            read += 1;
            for ban in ["|safe", "| safe", "|escape(\"none\")", "{% autoescape"] {
                assert!(!text.contains(ban), "`{ban}` in {}", path.display());
            }
        }
    }
    assert!(read > 20, "only {read} templates were read");
}
