//! A waived failure in every report: never green, never red, its true outcome beside it.

use protocol::Outcome;
use protocol::waiver::{Conditions, Terms};
use runner::event::Ending;
use runner::waivers::{Waiver, Waivers};

use crate::run::{HOSTILE, Run};
use crate::{html, json, junit};

const FAILING: &str = "operators/opinfo:tan#0/float32.eager.forward";
const PASSING: &str = "operators/opinfo:add#0/float32.eager.forward";

fn waiver(line: usize, case: &str, expires_on: &str) -> Waiver {
    Waiver {
        line,
        terms: Terms {
            case_pattern: case.to_owned(),
            suite: None,
            model: None,
            operator: None,
            outcomes: vec![Outcome::Mismatch],
            conditions: Conditions::default(),
            expires_on: expires_on.parse().unwrap(),
        },
        reason: HOSTILE.to_owned(),
        owner: HOSTILE.to_owned(),
        issue: HOSTILE.to_owned(),
        author: None,
    }
}

/// Ends on 2026-11-30.
fn run(expires_on: &str) -> Run {
    let waivers = vec![waiver(3, FAILING, expires_on), waiver(9, PASSING, expires_on)];
    Run::new()
        .case(FAILING, &[Outcome::Mismatch])
        .case(PASSING, &[Outcome::Pass])
        .waivers(Waivers { file: "w.toml".to_owned(), sha256: "0".repeat(64), waivers })
}

#[test]
fn it_is_neither_green_nor_red_and_says_what_it_was() {
    let run = run("2026-12-01");
    let xml = junit(&run, Ending::Finished);
    assert!(xml.contains(r#"tests="2" skipped="1" failures="0" errors="0""#), "{xml}");
    assert!(xml.contains(r#"<skipped message="mismatch: "#), "{xml}");
    assert!(xml.contains(r#" type="waived"/>"#), "{xml}");
    assert!(xml.contains("passed although w.toml:9"), "{xml}");
    let summary = json(&run, Ending::Finished);
    assert_eq!(summary["total"]["failures"], 0);
    assert_eq!(summary["total"]["pass_rate"]["part"], 1);
    assert_eq!(summary["total"]["pass_rate"]["whole"], 2);
    assert_eq!(summary["cases"][0]["result"], "waived");
    assert_eq!(summary["cases"][1]["result"], "unexpected pass");
    let page = html(&run, Ending::Finished);
    for text in ["<h2 id=\"waived\">", "<h2 id=\"unexpected-pass\">", "tr.row-unexpected-pass"] {
        assert!(page.contains(text), "{text} is not in the page");
    }
    assert!(page.contains("id=\"waivers\"") && !page.to_lowercase().contains("<img"));
}

#[test]
fn on_its_last_day_it_forgives_nothing_and_every_report_says_so() {
    let run = run("2026-11-30");
    let xml = junit(&run, Ending::Finished);
    assert!(xml.contains(r#"tests="2" skipped="0" failures="1" errors="0""#), "{xml}");
    let summary = json(&run, Ending::Finished);
    assert_eq!(summary["total"]["failures"], 1);
    assert_eq!(summary["cases"][0]["result"], "mismatch");
    assert_eq!(summary["waivers"]["waivers"][0]["standing"], "expired");
    assert!(html(&run, Ending::Finished).contains("ended on 2026-11-30 and is ignored"));
}
