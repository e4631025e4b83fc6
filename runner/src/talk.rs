//! Talk to the person, on stderr. Data goes to stdout.
//!
//! A reader that has gone away (`runner … | head`) must not end a run, so nothing here can fail.

use std::io::Write as _;

/// Writes a line.
pub fn say(text: &str) {
    // Nobody is left to tell when it fails.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
