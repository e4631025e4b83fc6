//! Looks for the case before it that a case depends on, by executing cases again.

use std::sync::Arc;

use protocol::Outcome;

use super::{Assignment, Earlier, Purpose, Report, SlotRunner};
use crate::bisect::{Found, Search};
use crate::event::Event;
use crate::outcome::{Judged, judge, may_depend_on_order};
use crate::plan::PlannedCase;

impl SlotRunner {
    /// Where a case failed in its first process and passes in one of its own: looks for the case
    /// before it that makes the difference, and says so in its evidence and in the run's.
    pub(super) async fn explain_order(
        &mut self,
        assignment: &Assignment,
        judged: &Judged,
        evidence: &mut protocol::Evidence,
    ) {
        let Some(earlier) = &assignment.earlier else { return };
        let in_question = judged.outcome == Outcome::Pass
            && may_depend_on_order(earlier.outcome)
            && !earlier.predecessors.is_empty();
        if !in_question || self.shared.order_replays == 0 {
            return;
        }
        let mut search = Search::new(earlier.predecessors.len(), self.shared.order_replays);
        while let Some(window) = search.next_window() {
            match self.replay(assignment, earlier, &earlier.predecessors[window]).await {
                Some(failed) => search.tell(failed),
                None => break,
            }
        }
        self.retire("replaced: it executed cases again").await;
        let key = &assignment.case.key;
        let predecessor = |index: usize| &earlier.predecessors[index].key;
        let text = match search.found() {
            Found::One(index) => format!(
                "order: `{key}` ends as {} after `{}` in the same process, and passes alone",
                earlier.outcome,
                predecessor(index)
            ),
            Found::Among(window) => format!(
                "order: `{key}` ends as {} after the {} cases from `{}` to `{}` in the same \
                 process, and passes alone",
                earlier.outcome,
                window.len(),
                predecessor(window.start),
                predecessor(window.end - 1)
            ),
            Found::Nothing => {
                evidence.notes.push(format!(
                    "order: no case before it made it fail again, in {} tries",
                    search.replays()
                ));
                return;
            }
        };
        evidence.notes.push(format!("{text} ({} tries)", search.replays()));
        self.tell(Report::Event(Event::Finding { text })).await;
    }

    /// Executes cases and then this one in a fresh process: whether it ends as it did. Nothing
    /// where that cannot be said: the run is being abandoned, or a predecessor took the process
    /// along.
    async fn replay(
        &mut self,
        assignment: &Assignment,
        earlier: &Earlier,
        before: &[Arc<PlannedCase>],
    ) -> Option<bool> {
        self.retire("replaced: cases are executed again").await;
        self.ensure_worker().await.ok()?;
        for case in before {
            let again = Assignment { case: Arc::clone(case), ..assignment.clone() };
            let (executed, _) = self.execute(&again, &Purpose::Replay).await?;
            if executed.ending.is_none() || !executed.worker_usable {
                self.drop_worker("a case that was executed again took it along").await;
                return None;
            }
        }
        let (executed, _) = self.execute(assignment, &Purpose::Replay).await?;
        let log_text = format!("{}\n{}", executed.log.head, executed.log.tail);
        let asked = self.asked(&assignment.case);
        let (again, _) = judge(&asked, executed.ending.as_ref()?, &log_text);
        let usable = executed.worker_usable && !again.outcome.spoils_the_worker();
        self.drop_or_retire(usable, "a case was executed again").await;
        Some(again.outcome == earlier.outcome && again.error_class == earlier.error_class)
    }
}
