//! The tables `operators` and `operator_cases`: which cases touched which overload.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use sqlx::PgConnection;

use super::attempts::NewAttempt;
use super::copy::Rows;
use super::runs::LockedRun;

/// How a case touched an overload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Touch {
    /// Dispatches counted; `None` when recording did not finish.
    pub calls: Option<i64>,
    /// The backend computed it on the CPU instead.
    pub fell_back: bool,
    /// The error names it, or it was the last one entered.
    pub blamed: bool,
}

impl Touch {
    /// Both, by the same case.
    fn add(&mut self, other: Self) {
        self.calls = self.calls.max(other.calls);
        self.fell_back |= other.fell_back;
        self.blamed |= other.blamed;
    }
}

/// `aten::add` of `aten::add.Tensor`.
#[must_use]
pub fn operator_of(overload: &str) -> &str {
    let name_from = overload.find("::").map_or(0, |place| place + 2);
    overload[name_from..].find('.').map_or(overload, |dot| &overload[..name_from + dot])
}

/// Adds what attempts touched, by overload and case. What is stored only grows: the larger count
/// and any fallback or blame stay. Cases in `attempted` had an attempt in this run before, and of no
/// other there is anything. `ids` are overloads that are stored already; those that are new are
/// added. Answers the ids of the overloads by case, in order.
pub async fn store_touches(
    connection: &mut PgConnection,
    run: &LockedRun,
    attempts: &[NewAttempt<'_>],
    mut ids: HashMap<String, i64>,
    attempted: &HashSet<i64>,
) -> sqlx::Result<HashMap<i64, Vec<i64>>> {
    let names: BTreeSet<&String> =
        attempts.iter().flat_map(|attempt| attempt.observed.touches.keys()).collect();
    let names: Vec<String> =
        names.into_iter().filter(|name| !ids.contains_key(*name)).cloned().collect();
    if !names.is_empty() {
        create(connection, &names).await?;
        ids.extend(find_ids(connection, &names).await?);
    }
    // In the order of the primary key, whose pages are then filled one after the other.
    let mut touches: BTreeMap<(i64, i64), Touch> = BTreeMap::new();
    for attempt in attempts {
        for (overload, touch) in &attempt.observed.touches {
            touches.entry((ids[overload], attempt.case_id)).or_default().add(*touch);
        }
    }
    let mut by_case: HashMap<i64, Vec<i64>> = HashMap::new();
    let mut known = Vec::new();
    let mut rows = Rows::new(6);
    for ((operator_id, case_id), touch) in &touches {
        by_case.entry(*case_id).or_default().push(*operator_id);
        if attempted.contains(case_id) {
            known.push((*operator_id, *case_id, *touch));
            continue;
        }
        rows.begin()
            .big(run.id)
            .big(*operator_id)
            .big(*case_id)
            .maybe_big(touch.calls)
            .boolean(touch.fell_back)
            .boolean(touch.blamed);
    }
    if known.len() < touches.len() {
        const COPY: &str = "COPY operator_cases (run_id, operator_id, case_id, calls, fell_back,
                                blamed)
                            FROM STDIN (FORMAT binary)";
        rows.send(connection, COPY).await?;
    }
    if !known.is_empty() {
        merge(connection, run, &known).await?;
    }
    Ok(by_case)
}

/// Ids of those overloads that are stored.
pub async fn find_ids(
    connection: &mut PgConnection,
    names: &[String],
) -> sqlx::Result<HashMap<String, i64>> {
    let rows = sqlx::query!("SELECT overload, id FROM operators WHERE overload = ANY ($1)", names)
        .fetch_all(connection)
        .await?;
    Ok(rows.into_iter().map(|row| (row.overload, row.id)).collect())
}

/// Stores overloads that were not there; they are sorted, so two writers take these rows in the
/// same order.
async fn create(connection: &mut PgConnection, names: &[String]) -> sqlx::Result<()> {
    let operators: Vec<String> = names.iter().map(|name| operator_of(name).to_owned()).collect();
    sqlx::query!(
        "INSERT INTO operators (overload, operator)
         SELECT new.* FROM UNNEST($1::text[], $2::text[]) AS new (overload, operator)
         ORDER BY new.overload
         ON CONFLICT (overload) DO NOTHING",
        names,
        &operators
    )
    .execute(connection)
    .await?;
    Ok(())
}

async fn merge(
    connection: &mut PgConnection,
    run: &LockedRun,
    touches: &[(i64, i64, Touch)],
) -> sqlx::Result<()> {
    let operator_ids: Vec<i64> = touches.iter().map(|(operator_id, ..)| *operator_id).collect();
    let case_ids: Vec<i64> = touches.iter().map(|(_, case_id, _)| *case_id).collect();
    let calls: Vec<Option<i64>> = touches.iter().map(|(.., touch)| touch.calls).collect();
    let fell_back: Vec<bool> = touches.iter().map(|(.., touch)| touch.fell_back).collect();
    let blamed: Vec<bool> = touches.iter().map(|(.., touch)| touch.blamed).collect();
    sqlx::query!(
        "INSERT INTO operator_cases (run_id, operator_id, case_id, calls, fell_back, blamed)
         SELECT $1, new.*
         FROM UNNEST($2::bigint[], $3::bigint[], $4::bigint[], $5::boolean[], $6::boolean[])
              AS new (operator_id, case_id, calls, fell_back, blamed)
         ON CONFLICT (run_id, operator_id, case_id) DO UPDATE SET
             calls = GREATEST(operator_cases.calls, EXCLUDED.calls),
             fell_back = operator_cases.fell_back OR EXCLUDED.fell_back,
             blamed = operator_cases.blamed OR EXCLUDED.blamed",
        run.id,
        &operator_ids,
        &case_ids,
        &calls as &[Option<i64>],
        &fell_back,
        &blamed
    )
    .execute(connection)
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::operator_of;

    #[test]
    fn the_operator_is_the_overload_without_its_last_part() {
        for (overload, operator) in [
            ("aten::add.Tensor", "aten::add"),
            ("aten::relu", "aten::relu"),
            ("aten::relu.default", "aten::relu"),
            ("torch.ops::x.y.z", "torch.ops::x"),
            ("prims.x", "prims"),
        ] {
            assert_eq!(operator_of(overload), operator);
        }
    }
}
