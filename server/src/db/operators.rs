//! The tables `operators` and `operator_cases`: which cases touched which overload.

use std::collections::BTreeMap;

use sqlx::PgConnection;

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

/// `aten::add` of `aten::add.Tensor`.
#[must_use]
pub fn operator_of(overload: &str) -> &str {
    let name_from = overload.find("::").map_or(0, |place| place + 2);
    overload[name_from..].find('.').map_or(overload, |dot| &overload[..name_from + dot])
}

/// Adds what attempts touched, by overload and case. What is stored only grows: the larger count
/// and any fallback or blame stay.
pub async fn store_touches(
    connection: &mut PgConnection,
    run: &LockedRun,
    touches: &BTreeMap<(String, i64), Touch>,
) -> sqlx::Result<()> {
    let mut names: Vec<String> = touches.keys().map(|(overload, _)| overload.clone()).collect();
    names.dedup();
    let operators: Vec<String> = names.iter().map(|name| operator_of(name).to_owned()).collect();
    // The map is sorted, so two writers take these rows in the same order.
    sqlx::query!(
        "INSERT INTO operators (overload, operator)
         SELECT new.* FROM UNNEST($1::text[], $2::text[]) AS new (overload, operator)
         WHERE NOT EXISTS (SELECT FROM operators o WHERE o.overload = new.overload)
         ORDER BY new.overload
         ON CONFLICT (overload) DO NOTHING",
        &names,
        &operators
    )
    .execute(&mut *connection)
    .await?;
    let overloads: Vec<String> = touches.keys().map(|(overload, _)| overload.clone()).collect();
    let case_ids: Vec<i64> = touches.keys().map(|(_, case_id)| *case_id).collect();
    let calls: Vec<Option<i64>> = touches.values().map(|touch| touch.calls).collect();
    let fell_back: Vec<bool> = touches.values().map(|touch| touch.fell_back).collect();
    let blamed: Vec<bool> = touches.values().map(|touch| touch.blamed).collect();
    sqlx::query!(
        "INSERT INTO operator_cases (run_id, operator_id, case_id, calls, fell_back, blamed)
         SELECT $1, operators.id, new.case_id, new.calls, new.fell_back, new.blamed
         FROM UNNEST($2::text[], $3::bigint[], $4::bigint[], $5::boolean[], $6::boolean[])
              AS new (overload, case_id, calls, fell_back, blamed)
         JOIN operators ON operators.overload = new.overload
         ON CONFLICT (run_id, operator_id, case_id) DO UPDATE SET
             calls = GREATEST(operator_cases.calls, EXCLUDED.calls),
             fell_back = operator_cases.fell_back OR EXCLUDED.fell_back,
             blamed = operator_cases.blamed OR EXCLUDED.blamed",
        run.id,
        &overloads,
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
