//! Readers of the event stream: one file per form of report.

mod collected;
pub mod console;
pub mod file;
mod grouped;
pub mod html;
pub mod json;
pub mod junit;
mod summary;
mod text;
mod times;

use crate::event::Event;

/// Reads the events of a run as they happen (or again, from its journal).
///
/// A consumer must not fail the run: one that writes a file keeps its error for
/// [`Consumer::finish`].
pub trait Consumer: Send {
    /// Takes one event. Called in order, from one thread.
    fn event(&mut self, event: &Event);

    /// Called once after `RunEnded`: writes what is still to be written. The error is shown to the
    /// user, naming the file.
    fn finish(&mut self) -> Result<(), std::io::Error> {
        Ok(())
    }
}
