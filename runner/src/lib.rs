//! Plans, executes and reports conformance runs against `TorchTPU`.
//!
//! One loop ([`dispatch`]) owns the state of a run and emits [`event::Event`]s; everything that is
//! shown, stored or sent reads those events and nothing else. Python executes cases in processes
//! of its own ([`worker`]); comparing actual with expected happens here, in one implementation.

pub mod compare;
pub mod event;
pub mod model_list;
pub mod report;
