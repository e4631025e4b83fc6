//! The runs that the tests of pages look at: four suites on a simulated device over two nights, a
//! hardware run, and one that is still running.

use std::collections::BTreeMap;

use protocol::evidence::{Figures, Graphs, LastOperator, LogExcerpt, SweepPoint, TensorComparison};
use protocol::ingest_api::Attempt;
use protocol::{Comparison, Number, Outcome, Stage, Suite, Tolerance};

use super::builders::{Script, run};
use super::harness::World;

/// Keys of the runs that [`fill`] pushes.
pub(crate) const FIRST_NIGHT: &str = "night-1-operators";
pub(crate) const SECOND_NIGHT: &str = "night-2-operators";
pub(crate) const TIER1: &str = "night-2-tier1";
pub(crate) const DYNAMISM: &str = "night-2-dynamism";
pub(crate) const HARDWARE: &str = "release-tier1";
pub(crate) const RUNNING: &str = "now-operators";

fn dispatches(attempt: &mut Attempt, overloads: &[(&str, u64)]) {
    let counted = overloads.iter().map(|(name, calls)| ((*name).to_owned(), *calls)).collect();
    attempt.evidence.operators = Some(counted);
}

fn figures(error: f64, mismatched: u64) -> Figures {
    Figures {
        elements: 64,
        mismatched,
        max_abs_error: Some(Number(error)),
        max_rel_error: Some(Number(f64::INFINITY)),
        ulp_max: Some(Number(4.0)),
        rmse: Some(Number(error / 8.0)),
        pcc: Some(Number(0.999_999_999_9)),
        worst_index: Some(vec![0, 3]),
        worst_actual: Some(Number(f64::NAN)),
        worst_expected: Some(Number(0.5)),
        ..Figures::default()
    }
}

pub(crate) fn comparison(label: &str, error: f64, mismatched: u64) -> Comparison {
    Comparison {
        label: label.to_owned(),
        held: mismatched == 0,
        rule: "close".to_owned(),
        tolerance_id: "2026.11+0123456789ab".to_owned(),
        reference: "cpu float64".to_owned(),
        tensors: vec![TensorComparison {
            path: "logits".to_owned(),
            held: mismatched == 0,
            dtype: "float32".to_owned(),
            shape: vec![8, 8],
            tolerance: Tolerance { rtol: 1.3e-6, atol: 1e-5 },
            figures: figures(error, mismatched),
        }],
        findings: if mismatched == 0 {
            Vec::new()
        } else {
            vec![format!("logits: {mismatched} of 64 elements differ")]
        },
        addends: None,
        spread: None,
    }
}

fn unsupported(attempt: &mut Attempt) {
    attempt.stage = Some(Stage::Lower);
    attempt.error_class = "NotImplementedError".to_owned();
    attempt.message = "operator 'aten::_fft_r2c' is not implemented for TPU".to_owned();
    attempt.operator = Some("aten::_fft_r2c".to_owned());
    attempt.evidence.traceback = "Traceback (most recent call last):\n  boom".to_owned();
    attempt.evidence.last_operator =
        Some(LastOperator { overload: "aten::_fft_r2c".to_owned(), source: "message".to_owned() });
}

fn crashed(attempt: &mut Attempt) {
    attempt.error_class = "SIGABRT".to_owned();
    attempt.message = "the worker was ended by SIGABRT".to_owned();
    attempt.operator = Some("aten::scatter_reduce.two".to_owned());
    let evidence = &mut attempt.evidence;
    evidence.device_used = String::new();
    evidence.signal = Some(6);
    evidence.last_operator = Some(LastOperator {
        overload: "aten::scatter_reduce.two".to_owned(),
        source: "rerun".to_owned(),
    });
    evidence.log = LogExcerpt {
        head: "starting\n\u{1b}[31mF1130 scatter.cc:154] Check failed\u{1b}[0m\n".to_owned(),
        tail: "last line\n".to_owned(),
        dropped_bytes: 2048,
    };
    evidence.repro = "import torch\nprint(1)\n".to_owned();
    evidence.stage_seconds =
        BTreeMap::from([("build".to_owned(), 0.5), ("import".to_owned(), 2.0)]);
}

fn mismatched(attempt: &mut Attempt) {
    attempt.stage = Some(Stage::Compare);
    attempt.error_class = "values-differ".to_owned();
    attempt.message = "3 of 64 elements differ".to_owned();
    attempt.operator = Some("aten::cumprod".to_owned());
    attempt.evidence.comparisons = vec![comparison("", 0.25, 3)];
    dispatches(attempt, &[("aten::cumprod", 1), ("aten::_to_copy", 2)]);
}

fn swept(attempt: &mut Attempt) {
    let point = |size: u64, inside: bool, outcome: Outcome| SweepPoint {
        label: format!("sequence={size}"),
        sizes: BTreeMap::from([("sequence".to_owned(), size)]),
        inside,
        outcome,
        graph_count: 1,
        boundary: (!inside).then(|| "refused".to_owned()),
        message: if outcome == Outcome::Pass { "" } else { "differs" }.to_owned(),
    };
    attempt.stage = Some(Stage::Compare);
    attempt.message = "sequence=17: 5 of 64 elements differ".to_owned();
    let evidence = &mut attempt.evidence;
    evidence.graphs = Some(Graphs { graph_count: 1, ..Graphs::default() });
    evidence.sweep = vec![
        point(2, true, Outcome::Pass),
        point(17, true, Outcome::Mismatch),
        point(65, false, Outcome::Pass),
    ];
    evidence.comparisons =
        vec![comparison("sequence=2", 1e-7, 0), comparison("sequence=17", 0.5, 5)];
    dispatches(attempt, &[("aten::mm", 6)]);
}

fn added(attempt: &mut Attempt) {
    attempt.evidence.comparisons = vec![comparison("", 1e-7, 0)];
    dispatches(attempt, &[("aten::add.Tensor", 1), ("aten::_to_copy", 2)]);
}

fn operators(key: &str, started: &str) -> Script {
    run(key).on("tpu-sim").started(started)
}

/// The second night of the operator suite, which has one case of every kind.
pub(crate) fn second_night() -> Script {
    operators(SECOND_NIGHT, "2026-11-30T02:00:00Z")
        .observes_with("add", Outcome::Pass, added)
        .passes("nn.functional.relu")
        .observes_with("cumprod", Outcome::Mismatch, mismatched)
        .observes_with("fft.rfft", Outcome::Unsupported, unsupported)
        .observes_with("scatter_reduce.sum", Outcome::Crash, crashed)
        .observes_with("scatter_reduce.sum", Outcome::Crash, crashed)
        .observes_with("topk", Outcome::Error, |_| ())
        .passes("topk")
        .observes("bernoulli", Outcome::Skipped)
        .observes("cumsum", Outcome::HostLimit)
        .plans("linalg.svd")
}

/// Pushes all of it.
pub(crate) async fn fill(world: &World) {
    let first = operators(FIRST_NIGHT, "2026-11-29T02:00:00Z")
        .passes("add")
        .passes("cumprod")
        .observes_with("fft.rfft", Outcome::Unsupported, unsupported)
        .observes("nn.functional.relu", Outcome::Error)
        .passes("old");
    world.finish_run(&first).await;
    world.finish_run(&second_night()).await;
    let tier1 = operators(TIER1, "2026-11-30T03:00:00Z")
        .of(Suite::Tier1)
        .observes_with("bert", Outcome::Pass, |attempt| {
            dispatches(attempt, &[("aten::add.Tensor", 37), ("aten::mm", 24)]);
        })
        .observes_with("whisper", Outcome::Unsupported, unsupported);
    world.finish_run(&tier1).await;
    let dynamism = operators(DYNAMISM, "2026-11-30T04:00:00Z").of(Suite::Dynamism).observes_with(
        "bert",
        Outcome::Mismatch,
        swept,
    );
    world.finish_run(&dynamism).await;
    let hardware = run(HARDWARE).of(Suite::Tier1).started("2026-11-20T02:00:00Z");
    world.finish_run(&hardware.passes("bert")).await;
    let running = run(RUNNING).on("cpu").passes("add").plans("mul");
    world.start_run(&running).await;
    assert!(world.deliver(&running).await.status.is_success());
}
