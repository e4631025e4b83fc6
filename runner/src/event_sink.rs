//! Where the events of a run go.

use chrono::Utc;

use crate::Error;
use crate::event::Event;
use crate::journal::{Journal, Record};
use crate::report::Consumer;

/// Where events go: the journal first, so that nothing is shown that could be lost, then everyone
/// who reads.
pub struct EventSink {
    journal: Journal,
    consumers: Vec<Box<dyn Consumer>>,
}

impl std::fmt::Debug for EventSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventSink").field("journal", &self.journal).finish_non_exhaustive()
    }
}

impl EventSink {
    /// A sink.
    #[must_use]
    pub fn new(journal: Journal, consumers: Vec<Box<dyn Consumer>>) -> Self {
        Self { journal, consumers }
    }

    /// Journals and shows an event. An error is the journal's; the event is shown all the same.
    pub(crate) fn emit(&mut self, event: &Event) -> Result<(), Error> {
        let record = match event {
            Event::RunStarted(started) => Some(Record::Started {
                at: Utc::now(),
                manifest_hash: started.manifest.hash.clone(),
            }),
            Event::AttemptFinished(finished) => {
                Some(Record::Attempt(Box::new(finished.attempt.as_ref().clone())))
            }
            Event::Finding { text } => Some(Record::Finding { text: text.clone() }),
            Event::RunEnded(ended) => Some(Record::Ended {
                at: ended.finished_at,
                ending: ended.ending.describe(),
                peak_memory: ended.peak_memory,
            }),
            Event::CaseStarted { .. }
            | Event::CaseSlow { .. }
            | Event::WorkerStarted { .. }
            | Event::WorkerEnded { .. }
            | Event::SlotDrained { .. }
            | Event::StopRequested { .. } => None,
        };
        let journaled = record.map_or(Ok(()), |record| self.journal.append(&record));
        self.show(event);
        journaled
    }

    /// Shows an event that is in the journal already.
    pub(crate) fn show(&mut self, event: &Event) {
        for consumer in &mut self.consumers {
            consumer.event(event);
        }
    }

    /// Lets every consumer write what it still has to.
    pub fn finish(mut self) -> Vec<std::io::Error> {
        self.consumers.iter_mut().filter_map(|consumer| consumer.finish().err()).collect()
    }
}
