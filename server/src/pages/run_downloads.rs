//! What can be taken away from a run: its cases as files, and the files that attempts left.

use sqlx::PgPool;

use super::view;
use crate::api::artifacts::PATH;
use crate::db::artifacts;
use crate::error::Result;

/// Files listed; each case page has its own.
const MOST_FILES: i64 = 100;

/// Files that attempts of a run left.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) lines: Vec<FileLine>,
    pub(super) total: i64,
}

#[derive(Debug)]
pub(super) struct FileLine {
    pub(super) case: String,
    pub(super) case_href: String,
    pub(super) attempt: i32,
    pub(super) name: String,
    pub(super) href: String,
    pub(super) bytes: i64,
}

impl Files {
    pub(super) async fn read(pool: &PgPool, run_id: i64, run_key: &str) -> Result<Self> {
        let rows = artifacts::list_of_run(pool, run_id, MOST_FILES).await?;
        let total = rows.first().map_or(0, |row| row.total);
        let line = |row: artifacts::RunArtifact| FileLine {
            case_href: view::case_href(run_key, &row.case),
            case: row.case,
            attempt: row.attempt,
            href: format!("{PATH}/{}", hex::encode(&row.sha256)),
            name: row.name,
            bytes: row.size,
        };
        Ok(Self { lines: rows.into_iter().map(line).collect(), total })
    }
}

/// The selected cases in every format, by its name. `asked` holds what the API understands.
pub(super) fn exports(run_key: &str, asked: &[(&str, &str)]) -> Vec<(&'static str, String)> {
    let path = format!("/api/v1/runs/{}/export", view::encode(run_key));
    let link = |format: &'static str| {
        let mut parameters = asked.to_vec();
        parameters.push(("format", format));
        (format, view::link(&path, &parameters))
    };
    ["json", "csv", "junit"].map(link).to_vec()
}
