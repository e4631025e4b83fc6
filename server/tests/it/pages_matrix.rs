//! The operator matrix: an operator is the sum of its overloads, a family of its operators and the
//! total of the families, in every cell and under every filter; and all of it is what the API says.

use std::collections::BTreeMap;

use protocol::inventory::operator_of;
use protocol::{Outcome, Suite};
use serde_json::Value;
use sqlx::PgPool;

use super::builders::{Script, run};
use super::harness::{World, scenario};
use super::inventories;
use super::pages_dom::Page;
use super::pages_numbers::{add, cell, ratio};

const EVERY_FORM: &[&str] =
    &["float32.eager.forward", "bfloat16.compile.train", "float32.eager.forward.out"];

/// One case of an entry, and the overloads that it dispatches or is blamed on.
fn touches(script: Script, name: &str, form: &str, outcome: Outcome, overloads: &[&str]) -> Script {
    script.observes_as(name, form, outcome, |attempt| {
        let counted = overloads.iter().map(|name| ((*name).to_owned(), 2)).collect();
        attempt.evidence.operators = Some(counted);
        if outcome != Outcome::Pass {
            attempt.operator = overloads.first().map(|name| (*name).to_owned());
        }
    })
}

fn night(key: &str) -> Script {
    let mut script = run(key).on("tpu-sim");
    for form in EVERY_FORM {
        script = touches(script, "add", form, Outcome::Pass, &["aten::add.Tensor", "aten::relu"]);
        script = touches(script, "mv", form, Outcome::Unsupported, &["aten::addmv", "aten::odd.x"]);
    }
    let [first, second, _] = EVERY_FORM else { panic!("three of them") };
    script = touches(script, "rfft", first, Outcome::Crash, &["aten::fft_rfft"]);
    script = touches(script, "own", second, Outcome::Pass, &["tpu::own", "aten::add.out"]);
    script = touches(script, "limit", first, Outcome::HostLimit, &["aten::add.Tensor"]);
    script.passes("silent")
}

async fn fill(world: &World) {
    world.finish_run(&night("r1")).await;
    let tier1 = run("r2").on("tpu-sim").of(Suite::Tier1);
    let form = EVERY_FORM[0];
    world.finish_run(&touches(tier1, "m", form, Outcome::Pass, &["aten::add.Tensor"])).await;
    let (status, text) = inventories::put(world, "r1", &inventories::build()).await;
    assert!(status.is_success(), "{text}");
}

/// Passed and rated of a line, as a whole and in each cell.
type Sums = Vec<(u64, u64)>;

fn sums(row: &[String]) -> Sums {
    std::iter::once(ratio(&row[1])).chain(row[3..].iter().map(|text| cell(text))).collect()
}

fn added<'a>(rows: impl IntoIterator<Item = &'a Sums>) -> Sums {
    rows.into_iter().fold(Vec::new(), |sum, row| {
        if sum.is_empty() {
            return row.clone();
        }
        sum.into_iter().zip(row).map(|(a, b)| add(a, *b)).collect()
    })
}

fn name(row: &[String]) -> String {
    row[0].split(' ').next().unwrap().to_owned()
}

/// Operators with their overloads, where these stand below them.
fn operators(page: &Page) -> Vec<(String, Sums, BTreeMap<String, Sums>)> {
    let mut all: Vec<(String, Sums, BTreeMap<String, Sums>)> = Vec::new();
    for row in page.rows(".matrix tbody:has(.fold) tr:first-child") {
        all.push((name(&row), sums(&row), BTreeMap::new()));
    }
    for row in page.rows(".matrix tbody:has(.fold) tr + tr") {
        let own = all.iter_mut().find(|one| one.0 == operator_of(&name(&row))).unwrap();
        assert!(own.2.insert(name(&row), sums(&row)).is_none(), "{row:?} stands twice");
    }
    all
}

/// Every family opened in turn; gives the total and the overloads that are left.
async fn check(world: &World, filter: &str) -> (Sums, BTreeMap<String, Sums>) {
    let path = format!("/operators?device=tpu-sim{filter}");
    let page = world.page(&path).await;
    let families = page.table("Families of ATen by mode");
    let (total, families) = families.split_last().unwrap();
    let total = sums(total);
    let of_families: Vec<Sums> = families.iter().map(|row| sums(row)).collect();
    assert_eq!(added(&of_families), total, "{path}");
    let all = operators(&page);
    assert_eq!(added(all.iter().map(|one| &one.1)), total, "{path}: operators");
    let mut overloads = BTreeMap::new();
    for (row, family) in families.iter().zip(of_families) {
        let path = format!("{path}&family={}", row[0].replace(' ', "%20"));
        let opened = operators(&world.page(&path).await);
        assert_eq!(added(opened.iter().map(|one| &one.1)), family, "{path}");
        for (operator, sum, parts) in opened {
            assert_eq!(added(parts.values()), sum, "{path}: {operator}");
            overloads.extend(parts);
        }
    }
    (total, overloads)
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn every_level_adds_up_under_every_filter(pool: PgPool) {
    scenario(pool, async |world| {
        fill(&world).await;
        let (total, all) = check(&world, "").await;
        let names: Vec<&str> = all.keys().map(String::as_str).collect();
        let expected = [
            "aten::add.Tensor",
            "aten::add.out",
            "aten::addmv",
            "aten::fft_rfft",
            "aten::odd.x",
            "aten::relu",
            "tpu::own",
        ];
        assert_eq!(names, expected);
        assert_eq!(total[0], (8, 15), "eight that passed, of those that were judged");
        assert_eq!(total.len(), 3, "two columns");

        let mut forms = vec![(0, 0)];
        for form in ["forward", "train", "forward%2C%20out"] {
            let (sum, left) = check(&world, &format!("&form={form}")).await;
            forms.push(sum[0]);
            assert!(left.contains_key("aten::addmv"), "what is in the inventory stays");
        }
        assert_eq!(forms.into_iter().fold((0, 0), add), total[0], "forms are parts of the whole");

        let mut classes = (0, 0);
        for (class, overloads) in
            [("native", 1), ("composite-implicit", 1), ("missing", 1), ("composite-explicit", 0)]
        {
            let filter = format!("&class={class}");
            if overloads == 0 {
                let page = world.page(&format!("/operators?device=tpu-sim{filter}")).await;
                assert!(page.main_text().contains("No overload is left"), "{class}");
                continue;
            }
            let (sum, left) = check(&world, &filter).await;
            assert_eq!(left.len(), overloads, "{class}: {left:?}");
            classes = add(classes, sum[0]);
        }
        assert!(classes.1 < total[0].1, "what the inventory does not know has no class");

        for (filter, expected) in [
            ("&definition=registered", &["aten::add.Tensor", "aten::addmv", "aten::relu"][..]),
            // Operators are counted, so that every overload of one is left.
            (
                "&definition=registered-operators&class=native",
                &["aten::add.Tensor", "aten::add.out"],
            ),
            ("&definition=tier1-calls", &["aten::add.Tensor"]),
            ("&text=ADD", &["aten::add.Tensor", "aten::add.out", "aten::addmv"]),
            ("&show=failing&sort=failing", &["aten::addmv", "aten::fft_rfft", "aten::odd.x"]),
            (
                "&show=missing&sort=rate",
                &["aten::add.out", "aten::addmv", "aten::fft_rfft", "aten::odd.x", "tpu::own"],
            ),
            ("&form=train&definition=reachable&text=relu", &["aten::relu"]),
        ] {
            let (_, left) = check(&world, filter).await;
            assert_eq!(left.keys().map(String::as_str).collect::<Vec<_>>(), expected, "{filter}");
        }
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn every_overload_equals_the_api(pool: PgPool) {
    scenario(pool, async |world| {
        fill(&world).await;
        let (total, overloads) = check(&world, "").await;
        let api = world.get_json("/api/v1/operators?run=r1&suite=operators").await;
        let mut sum = (0, 0);
        for row in api["operators"].as_array().unwrap() {
            let number = |field: &str| row[field].as_u64().unwrap();
            let both = (number("passed"), number("counted"));
            assert_eq!(overloads[row["overload"].as_str().unwrap()][0], both, "{row}");
            sum = add(sum, both);
        }
        assert_eq!(sum, total[0]);
        let none = world.get_json("/api/v1/operators?run=r1&suite=tier1").await;
        assert_eq!(none["operators"], Value::Array(Vec::new()), "of one suite only");

        // The page of an operator has the same lines.
        let page = world.page("/operators/aten%3A%3Aadd?device=tpu-sim").await;
        for row in page.table("Results by mode and dtype") {
            assert_eq!(ratio(&row[1]), overloads[&row[0]][0], "{row:?}");
        }
        world.check_tallies().await;

        // And all of it without what is stored for sealed runs or kept in memory.
        let forget = "UPDATE runs SET summarised = false, changes = changes + 1";
        sqlx::query(forget).execute(&world.pool).await.unwrap();
        assert_eq!(check(&world, "").await, (total, overloads));
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn overloads_are_opened_by_the_address(pool: PgPool) {
    scenario(pool, async |world| {
        fill(&world).await;
        let closed = world.page("/operators?device=tpu-sim&sort=rate").await;
        assert!(operators(&closed).iter().all(|one| one.2.is_empty()));
        let hrefs = closed.attributes("a.fold", "href");
        let href = hrefs.iter().find(|href| href.contains("aten%3A%3Aadd#")).unwrap();
        assert_eq!(href, "/operators?device=tpu-sim&sort=rate&open=aten%3A%3Aadd#open");
        let opened = world.page(href.trim_end_matches("#open")).await;
        let open: Vec<usize> = operators(&opened).iter().map(|one| one.2.len()).collect();
        assert_eq!(open.iter().sum::<usize>(), 2, "{open:?}");
        let text = opened.text("#open th");
        assert_eq!(text, "aten::add native close of aten::add");
        let untouched = world.page("/operators?device=tpu-sim&form=train&text=fft").await;
        assert_eq!(untouched.rows(".matrix tbody tr").len(), 0, "no inventory has it: no line");
        assert!(untouched.main_text().contains("No overload is left"));
        let row =
            &world.page("/operators?device=tpu-sim&text=relu").await.rows(".opened tr + tr")[0];
        assert_eq!(row[..3], ["aten::relu composite-implicit", "3 of 3", "100 %"]);

        // Models only: no cell, and the page says why.
        world.finish_run(&run("only").on("cuda").of(Suite::Tier1).passes("m")).await;
        let (status, _) = inventories::put(&world, "only", &inventories::build()).await;
        assert!(status.is_success());
        let page = world.page("/operators?device=cuda").await;
        assert!(page.main_text().contains("None of these runs has the operator suite"));
        let rows = page.rows(".matrix tbody:has(.fold) tr");
        let all = ["aten::add native 1 overload", "aten::addmv missing 1 overload"];
        assert_eq!([rows[0][0].as_str(), rows[1][0].as_str()].map(shorter), all);
        assert_eq!(rows[0][1..], ["0 of 0", "none"]);
    })
    .await;
}

/// Without what only a screen reader says.
fn shorter(text: &str) -> &str {
    text.split(" of ").next().unwrap()
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn a_page_has_a_hundred_operators(pool: PgPool) {
    scenario(pool, async |world| {
        let names: Vec<String> = (0..130).map(|place| format!("aten::op{place:03}.x")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let script = run("r1").passes("silent");
        world.finish_run(&touches(script, "all", EVERY_FORM[0], Outcome::Pass, &names)).await;
        let first = world.page("/operators?family=general").await;
        assert_eq!(first.texts(".pager span")[0], "1–100 of 130");
        assert_eq!(first.rows(".matrix tbody:has(.fold) tr").len(), 200, "each with its overload");
        let next = &first.attributes(".pager a[rel=next]", "href")[0];
        let second = world.page(next).await;
        assert_eq!(second.rows(".matrix tbody:has(.fold) tr").len(), 60);
        assert_eq!(second.attributes("a.fold", "href").len(), 0);
        let total = second.table("Families of ATen by mode").pop().unwrap();
        assert_eq!(total[1], "130 of 130", "sums are those of all pages");
    })
    .await;
}
