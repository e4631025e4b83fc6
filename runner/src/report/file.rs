//! What is told of a run when it is over: the files in its folder, and the words on the console.
//! One reader collects the events for all of them. What stands in a file is the business of
//! [`super::html`], [`super::json`] and [`super::junit`].

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::Consumer;
use super::collected::{Collected, write_whole};
use super::console::Console;
use crate::event::Event;

type Render = fn(&Collected) -> Result<Vec<u8>, std::io::Error>;

/// A file in the folder of the run, written whole when the run is over.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReportFile {
    pub(super) name: &'static str,
    pub(super) render: Render,
}

/// How a run came out over all its cases, waivers included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closing {
    /// Cases that neither passed nor were skipped nor are forgiven, those without an attempt too.
    pub failures: u64,
}

/// Collects a run, writes its files, and ends what the console tells of it.
#[derive(Debug, Default)]
pub struct Reports {
    collected: Collected,
    files: Vec<ReportFile>,
    path: Option<PathBuf>,
    console: Option<Console>,
    closing: Arc<OnceLock<Closing>>,
}

impl Reports {
    /// Writes these files.
    pub(super) fn of(files: &[ReportFile]) -> Self {
        Self { files: files.to_vec(), ..Self::default() }
    }

    /// Every file, and the console. The console comes last, so that the reports it names are there.
    #[must_use]
    pub fn all(console: Console) -> Self {
        let files = [super::json::FILE, super::junit::FILE, super::html::FILE];
        Self { console: Some(console), ..Self::of(&files) }
    }

    /// Writes its file somewhere else.
    #[must_use]
    pub fn at(self, path: PathBuf) -> Self {
        Self { path: Some(path), ..self }
    }

    /// Where it says how the run came out, once that is known.
    #[must_use]
    pub fn closing(&self) -> Arc<OnceLock<Closing>> {
        Arc::clone(&self.closing)
    }
}

impl Consumer for Reports {
    fn event(&mut self, event: &Event) {
        self.collected.event(event);
        if let Some(console) = &mut self.console {
            console.event(event, &self.collected);
        }
        if let Event::RunEnded(_) = event {
            let failures = self.collected.tally(None).failures;
            // A second end is none of ours.
            let _ = self.closing.set(Closing { failures });
        }
    }

    fn finish(&mut self) -> Result<(), std::io::Error> {
        let Some(started) = &self.collected.started else { return Ok(()) };
        let mut written = Ok(());
        for ReportFile { name, render } in &self.files {
            let path = self.path.clone().unwrap_or_else(|| started.run_dir.join(name));
            let result = render(&self.collected).and_then(|bytes| write_whole(&path, &bytes));
            written = written.and(result);
        }
        let shown = self.console.as_mut().map_or(Ok(()), |console| console.end(&self.collected));
        written.and(shown)
    }
}
