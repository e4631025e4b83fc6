//! `runner setup`: makes what runs need ahead of time, and prints where it is.

use super::print;
use crate::Error;
use crate::args::SetupCommandArgs;
use crate::exit::Exit;
use crate::setup::{ensure_environment, ensure_tools};
use crate::worker_package::{unpack_breadcrumb, unpack_sim_wrapper};

pub(super) fn execute(args: &SetupCommandArgs) -> Result<Exit, Error> {
    let path = if args.tools {
        ensure_tools(&args.setup)?
    } else if args.sim_wrapper {
        unpack_sim_wrapper(&args.setup.directory())?
    } else if args.breadcrumb {
        unpack_breadcrumb(&args.setup.directory())?
    } else {
        ensure_environment(&args.setup)?
    };
    if args.json {
        print(&format!("{}\n", serde_json::json!({"path": path})))?;
    } else {
        print(&format!("{}\n", path.display()))?;
    }
    Ok(Exit::Success)
}
