//! The conformance service.
//!
//! `args` every setting; `settings` where its value comes from; `commands` what each command does; `app` the router, its layers and the
//! state handlers share; `error` one error with two faces; `extract` what a handler may take;
//! `api` JSON endpoints; `pages` HTML, with `charts` and `filters`; `judge` pure judgement, no SQL
//! and no async; `junit` reads somebody else's reports; `ingest` what runners send, stored and judged; `db` all SQL;
//! `tasks` periodic jobs; `telemetry` log lines and `traces` spans for a collector; `rate` how much each token may do; `session` people who signed in; `retention` what is deleted;
//! `queries` the query grammar over stored cases; `popularity` what model lists say of models; `toml_files` reads the directories of both;
//! `transfer` runs as files; `webhooks` who is told what happened; `embedded` the private database used when no `DATABASE_URL` is set.
//!
//! What the words mean is in `docs/glossary.md`; what crosses the wire is in the crate `protocol`.

pub mod api;
pub mod app;
pub mod args;
pub mod charts;
pub mod clock;
pub mod commands;
pub mod db;
pub mod embedded;
pub mod error;
pub mod extract;
pub mod filters;
pub mod gates;
pub mod ingest;
pub mod judge;
pub mod junit;
pub mod pages;
pub mod popularity;
pub mod queries;
pub mod rate;
pub mod retention;
pub mod session;
pub mod settings;
pub mod tasks;
pub mod telemetry;
pub mod toml_files;
pub mod traces;
pub mod transfer;
pub mod trouble;
pub mod webhooks;

pub use error::{Error, Result};

/// The migrations, embedded; `#[sqlx::test(migrator = "server::MIGRATOR")]` uses them as well.
pub static MIGRATOR: sqlx::migrate::Migrator = sqlx::migrate!("../migrations");
