//! A report that is one file, written whole when the run is over. What stands in it is the business
//! of [`super::html`], [`super::json`] and [`super::junit`].

use std::path::PathBuf;

use super::Consumer;
use super::collected::{Collected, write_whole};
use crate::event::Event;

type Render = fn(&Collected) -> Result<Vec<u8>, std::io::Error>;

/// Collects a run and writes it as one file.
#[derive(Debug)]
pub struct FileReport {
    collected: Collected,
    name: &'static str,
    path: Option<PathBuf>,
    render: Render,
}

impl FileReport {
    /// Writes `name` into the directory of the run.
    pub(super) fn new(name: &'static str, render: Render) -> Self {
        Self { collected: Collected::default(), name, path: None, render }
    }

    /// Writes somewhere else.
    #[must_use]
    pub fn at(self, path: PathBuf) -> Self {
        Self { path: Some(path), ..self }
    }
}

impl Consumer for FileReport {
    fn event(&mut self, event: &Event) {
        self.collected.event(event);
    }

    fn finish(&mut self) -> Result<(), std::io::Error> {
        let Some(started) = &self.collected.started else { return Ok(()) };
        let path = self.path.clone().unwrap_or_else(|| started.run_dir.join(self.name));
        write_whole(&path, &(self.render)(&self.collected)?)
    }
}
