//! HTML pages: one file per page, each with its `router()`. Rows come from `db::read_*`, verdicts
//! from the judge by way of the tables; templates compute nothing.
//!
//! Shared: `view` marks, links and forms; `count` sums of cases; `rows` lines of tables; `scope`
//! which runs a page looks at; `figure` a suite's card; `evidence` and `ansi` what a case page shows of an attempt.

use axum::Router;

use crate::app::AppState;

pub mod ansi;
pub mod assets;
pub mod blockers;
pub mod case;
mod claim_subjects;
pub mod claims;
mod classes;
pub mod compare;
pub mod count;
pub mod coverage;
pub mod devices;
pub mod error;
pub mod evidence;
pub mod feeds;
mod figure;
pub mod gates;
mod history;
pub mod home;
mod matrix;
pub mod model;
mod model_details;
mod model_graphs;
pub mod models;
pub mod operator;
mod operator_errors;
mod operator_matrix;
mod operator_users;
mod operator_waivers;
pub mod operators;
mod overloads;
pub mod rows;
pub mod run;
mod run_downloads;
pub mod run_events;
pub mod runs;
pub mod scope;
pub mod search;
pub mod session;
pub mod timeline;
pub mod trend;
pub mod view;
pub mod waive;
pub mod waivers;

/// What everybody may read, also where reading needs a token: how else would a person sign in?
pub fn open_router() -> Router<AppState> {
    Router::new().merge(assets::router()).merge(session::router())
}

/// Every other page.
pub fn router() -> Router<AppState> {
    Router::new()
        .merge(home::router())
        .merge(trend::router())
        .merge(runs::router())
        .merge(run::router())
        .merge(run_events::router())
        .merge(timeline::router())
        .merge(feeds::router())
        .merge(case::router())
        .merge(operators::router())
        .merge(coverage::router())
        .merge(operator::router())
        .merge(models::router())
        .merge(model::router())
        .merge(gates::router())
        .merge(blockers::router())
        .merge(compare::router())
        .merge(waivers::router())
        .merge(waive::router())
        .merge(claims::router())
        .merge(devices::router())
        .merge(search::router())
}
