//! The server as a whole, against a real PostgreSQL: `server with-database -- cargo test -p
//! server` gives it one.

#![expect(clippy::unwrap_used, reason = "a test may, and so may what only tests use")]

mod builders;
mod harness;
mod pages_dom;
mod pages_views;
mod pages_world;

mod access;
mod artifacts;
mod compare;
mod deploy;
mod documented;
mod exports;
mod gate;
mod hostile;
mod house;
mod imports;
mod ingest;
mod inventories;
mod judgement;
mod lost;
mod migrations;
mod observed;
mod openapi;
mod operations;
mod pages_details;
mod pages_live;
mod pages_matrix;
mod pages_numbers;
mod pages_safety;
mod pages_snapshots;
mod pages_switches;
mod pages_walk;
mod program_settings;
mod programs;
mod reading;
mod rejudged;
mod sessions;
mod shards;
mod side_by_side;
mod traces;
mod waivers;
mod webhooks;
