//! Who dispatches an operator: entries of the operator suite, and models with what each of their
//! suites says of them.

use std::collections::BTreeMap;

use protocol::Suite;
use sqlx::PgPool;

use super::count::Count;
use super::scope::Scope;
use super::{operator, rows, view};
use crate::db::read_operators::{self, OperatorUser};
use crate::error::Result;

/// Models and entries.
#[derive(Debug, Default)]
pub(super) struct Users {
    /// The suites that judge models, by name, in the order of `UserRow::tiers`.
    pub(super) tiers: Vec<String>,
    pub(super) models: Vec<UserRow>,
    pub(super) entries: Vec<UserRow>,
}

#[derive(Debug)]
pub(super) struct UserRow {
    pub(super) name: String,
    pub(super) href: String,
    pub(super) suites: String,
    pub(super) user: OperatorUser,
    /// All cases of the model in each suite; nothing where none is planned.
    pub(super) tiers: Vec<Option<Count>>,
}

impl Users {
    /// With the verdicts of the models among them.
    pub(super) async fn read(
        pool: &PgPool,
        scope: &Scope,
        users: Vec<OperatorUser>,
    ) -> Result<Self> {
        let models: Vec<String> = users
            .iter()
            .filter(|user| !user.is_entry)
            .map(|user| user.subject_base.clone())
            .collect();
        let (ids, suites) = scope.only(|suite| Suite::MODELS.contains(&suite));
        let mut counts: BTreeMap<(String, Suite), Count> = BTreeMap::new();
        for row in read_operators::count_model_verdicts(pool, &ids, &suites, &models).await? {
            let count = counts.entry((row.subject_base, row.suite.0)).or_default();
            count.add(row.verdict.0, row.outcome.map(|word| word.0), row.cases);
        }
        let (entries, models) = users
            .into_iter()
            .map(|user| UserRow::new(user, &scope.pin, &counts))
            .partition(|row: &UserRow| row.user.is_entry);
        let tiers = Suite::MODELS.iter().map(|suite| rows::suite_title(*suite)).collect();
        Ok(Self { tiers, models, entries })
    }
}

impl UserRow {
    fn new(user: OperatorUser, pin: &str, counts: &BTreeMap<(String, Suite), Count>) -> Self {
        let name = operator::entry_name(&user.subject_base);
        let (name, href) = if user.is_entry {
            (name.to_owned(), view::operator_href(name, pin))
        } else {
            (user.subject_base.clone(), view::model_href(&user.subject_base, pin))
        };
        let tiers = Suite::MODELS
            .iter()
            .map(|suite| counts.get(&(user.subject_base.clone(), *suite)).cloned())
            .collect();
        Self { name, href, suites: user.suites.join(", "), user, tiers }
    }
}
