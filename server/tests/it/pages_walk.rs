//! Walks every page and holds its numbers against the API's answer to the same question.

use std::collections::{BTreeMap, BTreeSet};

use percent_encoding::percent_decode_str;
use reqwest::Url;
use serde_json::Value;
use sqlx::PgPool;

use super::harness::{Options, World, scenario_with};
use super::inventories;
use super::pages_dom::Page;
use super::pages_safety::crawl;
use super::pages_world::{self, FIRST_NIGHT, SECOND_NIGHT, TIER1};

const SUITES: [(&str, &str); 4] = [
    ("Operators", "operators"),
    ("Tier 1", "tier1"),
    ("Tier 2", "tier2"),
    ("Dynamism", "dynamism"),
];

/// What the API says, asked once.
struct Api {
    world: World,
    runs: Vec<Value>,
}

/// A page's address, taken apart.
struct Asked {
    parts: Vec<String>,
    query: BTreeMap<String, String>,
}

impl Asked {
    fn new(path: &str) -> Self {
        let url = Url::parse(&format!("http://here{path}")).unwrap();
        let decode = |part: &str| percent_decode_str(part).decode_utf8().unwrap().into_owned();
        Self {
            parts: url.path_segments().unwrap().map(decode).collect(),
            query: url.query_pairs().into_owned().collect(),
        }
    }

    fn parts(&self) -> Vec<&str> {
        self.parts.iter().map(String::as_str).collect()
    }

    fn has_only(&self, names: &[&str]) -> bool {
        self.query.keys().all(|name| names.contains(&name.as_str()))
    }
}

fn said(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn rate(suite: &Value) -> String {
    format!("{} of {}", suite["passed"], suite["counted"])
}

impl Api {
    async fn new(world: &World) -> Self {
        let body = world.get_json("/api/v1/runs?limit=1000").await;
        Self { world: world.clone(), runs: body["runs"].as_array().unwrap().clone() }
    }

    fn run(&self, key: &str) -> &Value {
        self.runs.iter().find(|run| run["run"] == key).unwrap_or_else(|| panic!("no run {key}"))
    }

    fn suite(&self, key: &str, suite: &str) -> &Value {
        let suites = self.run(key)["suites"].as_array().unwrap();
        suites.iter().find(|own| own["suite"] == suite).unwrap()
    }

    fn sum(&self, key: &str, field: &str) -> u64 {
        let suites = self.run(key)["suites"].as_array().unwrap();
        suites.iter().map(|suite| suite[field].as_u64().unwrap()).sum()
    }

    /// The newest sealed run of a suite on a device.
    fn newest(&self, device: &str, suite: &str) -> Option<&str> {
        let is_it = |run: &&Value| {
            let suites = run["suites"].as_array().unwrap();
            run["device_profile"] == device
                && run["state"] == "sealed"
                && suites.iter().any(|own| own["suite"] == suite)
        };
        self.runs.iter().find(is_it).and_then(|run| run["run"].as_str())
    }

    async fn cases(&self, key: &str, filter: &str) -> Vec<Value> {
        let path = format!("/api/v1/runs/{key}/cases?limit=1000{filter}");
        self.world.get_json(&path).await["cases"].as_array().unwrap().clone()
    }

    /// Compares one page; answers what kind it was, or nothing where the API has no such question.
    async fn check(&self, path: &str, page: &Page) -> Option<&'static str> {
        let asked = Asked::new(path);
        match asked.parts()[..] {
            [""] => self.check_home(page),
            ["runs"] => self.check_runs(page),
            ["runs", key] if asked.query.is_empty() => self.check_run(key, page),
            ["runs", key] if asked.has_only(&["suite", "verdict", "outcome"]) => {
                let filter: String = asked
                    .query
                    .iter()
                    .map(|(name, word)| format!("&{name}={}", word.replace(' ', "%20")))
                    .collect();
                let cases = self.cases(key, &filter).await;
                let shown =
                    page.texts(".pager span").first().map_or("none".to_owned(), Clone::clone);
                let total = shown.rsplit(' ').next().unwrap().replace("none", "0");
                assert_eq!(total, cases.len().to_string(), "{path}");
                Some("filtered run")
            }
            ["runs", key, "cases", case] => {
                let case =
                    percent_encoding::utf8_percent_encode(case, percent_encoding::NON_ALPHANUMERIC);
                let body =
                    self.world.get_json(&format!("/api/v1/runs/{key}/attempts?case={case}")).await;
                let attempts = body["attempts"].as_array().unwrap();
                assert_eq!(page.count("section.attempt"), attempts.len(), "{path}");
                Some("case")
            }
            ["operators"] if asked.query.get("view").is_some_and(|view| view == "entries") => {
                self.check_entries(page)
            }
            ["operators"] if asked.has_only(&["device", "run", "family", "open", "sort"]) => {
                self.check_matrix(page).await
            }
            ["operators"] if page.count("table.families") > 0 => {
                self.check_families(&asked, page).await
            }
            ["models"] if asked.query.contains_key("run") => {
                let run = &asked.query["run"];
                let body =
                    self.world.get_json(&format!("/api/v1/models?run={run}&limit=1000")).await;
                let all = body["models"].as_array().unwrap();
                for row in page.table("Models by suite").iter().rev().skip(1) {
                    let own = all.iter().filter(|one| one["model"] == row[0].as_str());
                    let passed: u64 = own.map(|one| one["passed"].as_u64().unwrap()).sum();
                    let shown = row.iter().find(|cell| cell.contains(" of ")).unwrap();
                    assert!(shown.starts_with(&format!("{passed} of ")), "{path}: {row:?}");
                }
                Some("models")
            }
            ["runs", key, "timeline"] => {
                let run = self.world.get_json(&format!("/api/v1/runs/{key}")).await;
                let lanes = page.table("Attempts by lane");
                let sum: u64 = lanes.iter().map(|row| row[1].parse::<u64>().unwrap()).sum();
                assert_eq!(run["attempts"], sum, "{path}");
                Some("timeline")
            }
            ["operators", _] if asked.query.contains_key("run") => {
                let run = &asked.query["run"];
                let body =
                    self.world.get_json(&format!("/api/v1/operators?run={run}&limit=1000")).await;
                check_overloads(path, page, &body)
            }
            ["models", model] if asked.query.contains_key("run") => {
                let run = &asked.query["run"];
                let cases = self.cases(run, "").await;
                let own = cases.iter().filter(|case| said(&case["case"]).contains(model)).count();
                let rows = page.count("table.cases tbody tr");
                assert_eq!(rows, own, "{path}");
                Some("model")
            }
            ["claims"] => self.check_claims(page).await,
            ["coverage"] if page.count("table") > 0 => self.check_coverage(page).await,
            ["devices"] => {
                for row in page.table("Devices by profile") {
                    let profile = row[0].split(' ').next().unwrap();
                    let own = self.runs.iter().filter(|run| run["device_profile"] == profile);
                    assert_eq!(row[5], own.count().to_string(), "{row:?}");
                }
                Some("devices")
            }
            ["compare"] if asked.query.contains_key("a") && asked.query.contains_key("b") => {
                let (a, b) = (&asked.query["a"], &asked.query["b"]);
                let suite =
                    asked.query.get("suite").map_or(String::new(), |one| format!("&suite={one}"));
                let body =
                    self.world.get_json(&format!("/api/v1/compare?a={a}&b={b}{suite}")).await;
                for row in page.table("Cases by category") {
                    let count = body["counts"].get(&row[0]).and_then(Value::as_u64).unwrap_or(0);
                    assert_eq!(row[1], count.to_string(), "{path}: {row:?}");
                }
                Some("compare")
            }
            ["trend"] if page.count("table") > 0 => {
                let suite = asked.query.get("suite").map_or("operators", String::as_str);
                for row in page.table("Nights with a run") {
                    assert_eq!(row[2], rate(self.suite(&row[1], suite)), "{path}: {row:?}");
                }
                Some("trend")
            }
            ["gates", name] => {
                let body = self.world.gate(name, "latest").await;
                assert_eq!(page.text("h1"), format!("{name}: {}", said(&body["answer"])));
                Some("gate")
            }
            _ => None,
        }
    }

    fn check_home(&self, page: &Page) -> Option<&'static str> {
        let devices = page.texts(".device > h2");
        assert!(devices.len() > 1, "{devices:?}");
        for (place, device) in devices.iter().enumerate() {
            let profile = device.split(' ').next().unwrap();
            let of =
                |css: &str| page.texts(&format!(".device:nth-of-type({}) .card {css}", place + 1));
            for (title, headline) in of("h3").iter().zip(of(".headline")) {
                let (_, suite) =
                    SUITES.iter().find(|(name, _)| title.starts_with(name)).expect("a known suite");
                match self.newest(profile, suite) {
                    Some(key) => {
                        let expected = rate(self.suite(key, suite));
                        assert!(headline.starts_with(&expected), "{profile} {title}: {headline}");
                    }
                    None => assert_eq!(headline, "no data", "{profile} {title}"),
                }
            }
        }
        Some("home")
    }

    fn check_runs(&self, page: &Page) -> Option<&'static str> {
        for row in page.table("Runs, newest first") {
            let (passed, counted) = (self.sum(&row[0], "passed"), self.sum(&row[0], "counted"));
            assert_eq!(row[4], format!("{passed} of {counted}"), "{row:?}");
        }
        Some("runs")
    }

    fn check_run(&self, key: &str, page: &Page) -> Option<&'static str> {
        let rows = page.table("Counts per suite");
        for row in &rows {
            let suite = SUITES.iter().find(|(title, _)| row[0] == *title);
            for (column, field) in [(3, "planned"), (4, "judged"), (5, "missing")] {
                let expected = match suite {
                    Some((_, suite)) => self.suite(key, suite)[field].as_u64().unwrap(),
                    None => self.sum(key, field),
                };
                assert_eq!(row[column], expected.to_string(), "{key}: {row:?}");
            }
            if let Some((_, suite)) = suite {
                assert_eq!(row[1], rate(self.suite(key, suite)), "{key}: {row:?}");
            }
        }
        Some("run")
    }

    /// The sums of the matrix are those of the overloads.
    async fn check_matrix(&self, page: &Page) -> Option<&'static str> {
        if page.count("table.matrix") == 0 {
            return None;
        }
        let key = page.texts("main p.muted a.key").first()?.clone();
        let path = format!("/api/v1/operators?run={key}&suite=operators&limit=1000");
        let body = self.world.get_json(&path).await;
        let all = body["operators"].as_array().unwrap();
        let sum = |field: &str| all.iter().map(|one| one[field].as_u64().unwrap()).sum::<u64>();
        let total = page.table("Families of ATen by mode").pop().unwrap();
        assert_eq!(total[1], format!("{} of {}", sum("passed"), sum("counted")));
        Some("operators")
    }

    fn check_entries(&self, page: &Page) -> Option<&'static str> {
        let key = page.texts(".scope a").first()?.clone();
        if page.count("table.matrix") == 0 {
            return None;
        }
        let total = page.table("Families of operators").pop().unwrap();
        assert_eq!(total[1], rate(self.suite(&key, "operators")));
        Some("entries")
    }

    /// The sums of the overloads' view, where they are by a definition that the API counts.
    async fn check_families(&self, asked: &Asked, page: &Page) -> Option<&'static str> {
        let definition = asked.query.get("definition")?;
        if asked.query.contains_key("class") {
            return None;
        }
        let body = self.world.get_json(&format!("/api/v1/runs/{SECOND_NIGHT}/coverage")).await;
        let all = body["coverage"].as_array().unwrap();
        let number = all.iter().find(|number| number["definition"] == definition.as_str())?;
        let total = page.table("Families of ATen by class").pop().unwrap();
        assert_eq!(total[1], number["denominator"].to_string());
        assert_eq!(total[2], number["numerator"].to_string());
        Some("overloads")
    }

    async fn check_claims(&self, page: &Page) -> Option<&'static str> {
        for row in page.table("Published figures and ours") {
            let Some((_, suite)) = SUITES.iter().find(|(title, _)| row[0] == *title) else {
                continue;
            };
            if *suite == "operators" || row[2] == "no data" {
                continue;
            }
            let key = row[6].split(' ').next().unwrap();
            let path = format!("/api/v1/models?run={key}&suite={suite}&limit=1000");
            let body = self.world.get_json(&path).await;
            let models = body["models"].as_array().unwrap();
            let whole = models.iter().filter(|model| model["passed"] == model["planned"]).count();
            let expected = format!("{whole} of {}", models.len());
            assert!(row[2].starts_with(&expected), "{row:?} should begin with {expected}");
        }
        Some("claims")
    }

    async fn check_coverage(&self, page: &Page) -> Option<&'static str> {
        let body = self.world.get_json(&format!("/api/v1/runs/{SECOND_NIGHT}/coverage")).await;
        let rows = page.table("Coverage by named definitions");
        for number in body["coverage"].as_array().unwrap() {
            let row = rows.iter().find(|row| row[0] == said(&number["definition"])).unwrap();
            let expected = format!(
                "{} of {} {}",
                number["numerator"],
                number["denominator"],
                said(&number["unit"])
            );
            assert_eq!(row[1], expected, "{row:?}");
        }
        Some("coverage")
    }
}

/// Lines of the table of overloads, for an operator that has one.
fn check_overloads(path: &str, page: &Page, body: &Value) -> Option<&'static str> {
    if !page.texts("caption").iter().any(|text| text.starts_with("Overloads that cases")) {
        return None;
    }
    let all = body["operators"].as_array().unwrap();
    // An entry's page counts only its own cases.
    let is_entry = page.texts(".where").iter().any(|text| text.contains("entry of"));
    for row in page.table("Overloads that cases") {
        let of_api = all.iter().find(|one| one["overload"] == row[0].as_str())?;
        let expected = format!("{} of {}", of_api["passed"], of_api["cases"]);
        assert!(is_entry || row[6] == expected, "{path}: {row:?} should have {expected}");
    }
    (!is_entry).then_some("operator")
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn the_numbers_of_every_page_are_those_of_the_api(pool: PgPool) {
    let gate = "title = \"N\"\n[[rule]]\nname = \"a\"\nsuite = \"operators\"\ndevice = \"tpu-sim\"\n\
                planned_min = 5\npass_rate_min = 0.9\nstale_hours = 26\n";
    let options = Options { gates: vec![("nightly", gate.to_owned())], ..Options::default() };
    scenario_with(pool, options, async |world| {
        pages_world::fill(&world).await;
        let (status, text) = inventories::put(&world, SECOND_NIGHT, &inventories::build()).await;
        assert!(status.is_success(), "{text}");
        let api = Api::new(&world).await;
        let mut addresses: BTreeSet<String> =
            crawl(&world).await.into_iter().map(|(path, _)| path).collect();
        addresses.insert(format!("/compare?a={FIRST_NIGHT}&b={SECOND_NIGHT}"));
        addresses.insert(format!("/models?run={TIER1}"));
        addresses
            .insert("/operators?view=overloads&device=tpu-sim&definition=registered".to_owned());
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        for path in &addresses {
            let page = world.page(path).await;
            if let Some(kind) = api.check(path, &page).await {
                *kinds.entry(kind).or_default() += 1;
            }
        }
        let seen: Vec<&str> = kinds.keys().copied().collect();
        assert_eq!(
            seen,
            [
                "case",
                "claims",
                "compare",
                "coverage",
                "devices",
                "entries",
                "filtered run",
                "gate",
                "home",
                "model",
                "models",
                "operator",
                "operators",
                "overloads",
                "run",
                "runs",
                "timeline",
                "trend",
            ],
            "every kind of page was compared: {kinds:?}"
        );
        assert!(kinds["filtered run"] > 10, "{kinds:?}");
    })
    .await;
}
