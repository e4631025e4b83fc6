//! Who dispatches an operator: entries of the operator suite, and models with what each of their
//! suites says of them.

use std::collections::{BTreeMap, HashSet};

use protocol::Suite;

use super::count::Count;
use super::scope::Scope;
use super::{operator, rows, view};
use crate::db::read_operators::{self, OperatorUser};
use crate::db::{Db, read_variants};
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
    /// Those whose cases in these runs and suites touched an operator or overload, with all that the
    /// suites say of the models among them.
    pub(super) async fn read(
        db: &Db,
        scope: &Scope,
        (ids, suites): (Vec<i64>, Vec<String>),
        operator: &str,
    ) -> Result<Self> {
        let list = read_operators::list_operator_users(db.pool(), &ids, &suites, operator);
        let users = db.kept("users", &ids, (&suites, operator), list).await?;
        let models: HashSet<&str> = users
            .iter()
            .filter(|user| !user.is_entry)
            .map(|user| user.subject_base.as_str())
            .collect();
        let (ids, suites) = scope.only(|suite| Suite::MODELS.contains(&suite));
        let count = read_variants::count_by_subject(db.pool(), &ids, &suites, None);
        let rows = db.kept("subjects", &ids, (&suites, None::<()>), count).await?;
        let mut counts: BTreeMap<(String, Suite), Count> = BTreeMap::new();
        for row in rows.iter().filter(|row| models.contains(row.name.as_str())) {
            let count = counts.entry((row.name.clone(), row.suite.0)).or_default();
            count.add(row.verdict.0, row.outcome.map(|word| word.0), row.cases);
        }
        let (entries, models) = users
            .iter()
            .map(|user| UserRow::new(user.clone(), &scope.pin, &counts))
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
