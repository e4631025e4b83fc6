//! Python processes: the fork server that has imported everything, and the workers it forks.
//!
//! [`link`] moves frames, [`fork_server`] starts and asks, [`worker`] is one forked process,
//! [`stray`] what such a tree left behind, [`breadcrumb`] which operators it is inside of, [`process`] knows how to end a tree of processes, [`log`] what it wrote while a case ran.

pub mod breadcrumb;
pub mod fork_server;
pub mod link;
pub mod log;
pub mod process;
pub mod stray;
#[expect(clippy::module_inception, reason = "a worker is what this folder is about")]
pub mod worker;

pub use fork_server::{ForkServer, Launch, LogFolder, StartError};
pub use worker::Worker;
