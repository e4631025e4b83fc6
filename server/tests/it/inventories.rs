//! Inventories of builds: kept once, given to runs, and joined with what runs have shown.

use reqwest::StatusCode;
use serde_json::{Value, json};
use sqlx::PgPool;

use super::builders::run;
use super::harness::{World, scenario};

fn overload(name: &str, kernels: &[&str]) -> Value {
    json!({
        "name": name, "schema": "(Tensor self) -> Tensor", "tags": ["core"], "view": false,
        "structured_delegate": "", "kernels": kernels, "added": kernels,
    })
}

fn inventory(overloads: &[Value]) -> Value {
    json!({"dispatch_key": "PrivateUse1", "overloads": overloads})
}

pub(crate) fn build() -> Value {
    inventory(&[
        overload("aten::add.Tensor", &["PrivateUse1"]),
        overload("aten::addmv", &["CPU"]),
        overload("aten::relu", &["CompositeImplicitAutograd"]),
    ])
}

pub(crate) async fn put(world: &World, run: &str, body: &Value) -> (StatusCode, String) {
    let answer = world.put_json(&format!("/api/v1/runs/{run}/inventory"), body).await;
    (answer.status, answer.text)
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn an_inventory_is_kept_once_and_never_replaced(pool: PgPool) {
    scenario(pool, async |world| {
        for key in ["r1", "r2"] {
            world.finish_run(&run(key).passes("a")).await;
            for _ in 0..2 {
                assert_eq!(put(&world, key, &build()).await.0, StatusCode::OK);
            }
        }
        assert_eq!(world.count("SELECT count(*) FROM inventories").await, 1);
        assert_eq!(world.count("SELECT count(*) FROM run_inventories").await, 2);
        let other = inventory(&[overload("aten::add.Tensor", &[])]);
        assert_eq!(put(&world, "r1", &other).await.0, StatusCode::CONFLICT);
        assert_eq!(world.get_json("/api/v1/runs/r1/inventory").await, build());
        assert_eq!(put(&world, "nosuch", &build()).await.0, StatusCode::NOT_FOUND);
        let twice = inventory(&[overload("aten::a", &[]), overload("aten::a", &[])]);
        let nul = inventory(&[overload("aten::a\u{0}", &[])]);
        for bad in [inventory(&[]), twice, nul] {
            let (status, text) = put(&world, "r2", &bad).await;
            assert_eq!(status, StatusCode::BAD_REQUEST, "{text}");
        }
    })
    .await;
}

#[sqlx::test(migrator = "server::MIGRATOR")]
async fn coverage_and_classes_are_shown_beside_the_results(pool: PgPool) {
    scenario(pool, async |world| {
        world.finish_run(&run("r1").passes("a")).await;
        let none = world.get("/api/v1/runs/r1/coverage").await;
        assert_eq!(none.status, StatusCode::NOT_FOUND);
        assert_eq!(put(&world, "r1", &build()).await.0, StatusCode::OK);
        let coverage = world.get_json("/api/v1/runs/r1/coverage").await;
        let number = |definition: &str| {
            let all = coverage["coverage"].as_array().unwrap();
            let found = all.iter().find(|number| number["definition"] == definition).unwrap();
            (found["numerator"].as_u64().unwrap(), found["denominator"].as_u64().unwrap())
        };
        assert_eq!(number("registered"), (1, 3));
        assert_eq!(number("reachable"), (2, 3));
        assert_eq!(number("core-aten-native"), (1, 3));
        let page = world.get("/operators?view=overloads&run=r1").await;
        assert!(page.text.contains("core-aten-native"), "{}", page.text);
    })
    .await;
}
