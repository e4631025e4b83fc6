//! Plans, executes and reports conformance runs against `TorchTPU`.
//!
//! One loop ([`dispatch`]) owns the state of a run and emits [`event::Event`]s; everything that is
//! shown, stored or sent reads those events and nothing else. Python executes cases in processes
//! of its own ([`worker`]); comparing actual with expected happens here, in one implementation.
//!
//! | to read | for |
//! |---|---|
//! | [`args`], [`commands`], [`error`], [`exit`] | the command line |
//! | [`plan`], [`balance`], [`filter`], [`sweep`], [`rerun`] | which cases there are |
//! | [`golden`] | outputs recorded before, to compare with |
//! | [`waivers`] | which failures are forgiven |
//! | [`device`], [`python`], [`worker_package`] | what a case is executed with |
//! | [`dispatch`], [`slot`], [`execute`], [`backend`], [`worker`] | executing them |
//! | [`outcome`], `sweep_outcome` | what was observed |
//! | [`journal`], [`run_dir`], [`client`], [`upload`], [`report`] | what is kept, sent and shown |

pub mod args;
pub mod backend;
pub mod balance;
pub mod bisect;
pub mod client;
pub mod commands;
pub mod compare;
pub mod cross_mode;
pub mod device;
pub mod dispatch;
pub mod dynamic_form;
pub mod error;
pub mod event;
pub mod event_sink;
pub mod exchange;
pub mod execute;
pub mod exit;
pub mod filter;
pub mod golden;
pub mod journal;
pub mod model_list;
pub mod narrow;
pub mod operator_key;
pub mod outcome;
pub mod plan;
pub mod python;
pub mod report;
pub mod rerun;
pub mod run_dir;
pub mod setup;
pub mod share;
pub mod slot;
pub mod sweep;
mod sweep_outcome;
pub mod talk;
pub mod upload;
pub mod waivers;
pub mod worker;
pub mod worker_package;

pub use error::Error;
