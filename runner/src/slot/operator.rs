//! The operator that a case ends badly in, named by executing it one operator at a time.

use protocol::evidence::LastOperator;
use protocol::{Mode, Outcome, Suite};

use super::{Assignment, Purpose, SlotRunner};
use crate::outcome::{Asked, Judged, judge};

impl SlotRunner {
    /// Executes the case once more, one operator at a time, to learn in which operator it ends
    /// badly. The outcome stands whatever comes of it.
    pub(super) async fn name_operator(
        &mut self,
        assignment: &Assignment,
        judged: &mut Judged,
        evidence: &mut protocol::Evidence,
    ) {
        // An error of a sweep comes of compiling, which the rerun does not do.
        let of_compiling =
            judged.outcome == Outcome::Error && assignment.case.key.suite() == Suite::Dynamism;
        if of_compiling {
            return;
        }
        let known = assignment.earlier_alike(judged);
        let last_operator = match known {
            Some(earlier) => earlier.last_operator.clone(),
            None => self.rerun_with_breadcrumb(assignment, judged, evidence).await,
        };
        if let Some(last_operator) = last_operator {
            if let Some(first) = evidence.last_operator.take()
                && first.overload != last_operator.overload
            {
                let how = if first.source == "breadcrumb" { "inside of" } else { "past" };
                evidence.notes.push(format!("at its end it was {how} `{}`", first.overload));
            }
            judged.operator = Some(last_operator.overload.clone());
            evidence.last_operator = Some(last_operator);
        }
    }

    async fn rerun_with_breadcrumb(
        &mut self,
        assignment: &Assignment,
        judged: &Judged,
        evidence: &mut protocol::Evidence,
    ) -> Option<LastOperator> {
        let (executed, crumb) = self.execute_apart(assignment, &Purpose::NameOperator).await?;
        // One operator at a time is not compiled.
        let asked = Asked { mode: Mode::Strict, ..self.asked(&assignment.case) };
        let log_text = format!("{}\n{}", executed.log.head, executed.log.tail);
        let (again, _) = judge(&asked, executed.ending.as_ref()?, &log_text);
        let usable = executed.worker_usable && !again.outcome.spoils_the_worker();
        self.drop_or_retire(usable, "a rerun that named the operator is over").await;
        if again.outcome != judged.outcome {
            let note =
                format!("executed again one operator at a time, it ended as {}", again.outcome);
            evidence.notes.push(note);
            return None;
        }
        let inside = executed.crumb.map(|crumb| crumb.outermost);
        let overload = again.operator.or(crumb).or(inside)?;
        Some(LastOperator { overload, source: "rerun".to_owned() })
    }
}
