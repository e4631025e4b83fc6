//! The program as a whole, against a scripted worker ([`fake_worker`](../fake_worker)): every test
//! starts the real binary, so that what is tested is what is shipped.

mod cli;
mod console;
mod delivery;
mod dispatch;
mod golden;
mod harness;
mod json;
mod kill;
mod order;
mod rerun;
mod shards;
mod trials;
mod waivers;
