//! What reports of several writers mean, and what is refused.

use protocol::Outcome;

use super::read;

/// Outcomes by class and name, in the order of the report.
fn outcomes(xml: &str) -> Vec<(String, Vec<Outcome>)> {
    let report = read(xml.as_bytes()).unwrap();
    let of = |test: super::Found| {
        let outcomes = test.tries.iter().map(|one| one.outcome).collect();
        (format!("{}::{}", test.class, test.name), outcomes)
    };
    report.tests.into_iter().map(of).collect()
}

fn problem(xml: &str) -> String {
    let problem = read(xml.as_bytes()).unwrap_err();
    assert!(!problem.hint.is_empty());
    problem.to_string()
}

/// One test, with what stands in it.
fn of_one(attributes: &str, inner: &str) -> Vec<Outcome> {
    let xml =
        format!("<testsuite><testcase name=\"t\" {attributes}>{inner}</testcase></testsuite>");
    outcomes(&xml).remove(0).1
}

#[test]
fn every_way_of_saying_it_has_one_meaning() {
    use Outcome::{Error, Pass, Skipped};
    for (attributes, inner, meaning) in [
        ("", "", vec![Pass]),
        ("", "<system-out>warn</system-out><properties/>", vec![Pass]),
        ("status=\"run\" result=\"completed\"", "", vec![Pass]),
        ("", "<failure type=\"AssertionError\" message=\"1 != 2\">trace</failure>", vec![Error]),
        ("", "<error/>", vec![Error]),
        ("", "<failure/><error/>", vec![Error]),
        ("", "<skipped/>", vec![Skipped]),
        ("", "<skipped type=\"pytest.skip\" message=\"no TPU\"/>", vec![Skipped]),
        // It did fail, whoever expected it.
        ("", "<skipped type=\"pytest.xfail\" message=\"bug 7\"/>", vec![Error]),
        ("", "<skipped/><failure/>", vec![Error]),
        ("status=\"notrun\"", "", vec![Skipped]),
        ("status=\"run\" result=\"suppressed\"", "", vec![Skipped]),
        ("status=\"FAILED\"", "", vec![Error]),
        ("status=\"nobody knows\"", "", vec![Error]),
        ("status=\"run\"", "<failure/>", vec![Error]),
        ("", "<flakyFailure message=\"once\"/><flakyError/>", vec![Error, Error, Pass]),
        ("", "<failure/><rerunFailure/>", vec![Error, Error]),
    ] {
        assert_eq!(of_one(attributes, inner), meaning, "{attributes} {inner}");
    }
}

#[test]
fn a_report_of_pytest_is_read_whole() {
    let xml = r#"<?xml version="1.0" encoding="utf-8"?>
<testsuites name="pytest tests"><testsuite name="pytest" errors="1" failures="1" skipped="1"
  tests="4" time="1,021.5" timestamp="2026-11-30T03:04:05.5+01:00" hostname="h">
<testcase classname="tests.test_a" name="test_ok[8]" time="0.001" />
<testcase classname="tests.test_a" name="test_bad" time="1.5"><failure message="AssertionError: a &lt; b
second">def f():
&#10;E &amp; <![CDATA[<x>]]></failure><system-out>a</system-out><system-err>b</system-err></testcase>
<testcase classname="tests.test_b" name="test_skip" time="0"><skipped type="pytest.skip" message="why">f.py:1: why</skipped></testcase>
<testcase classname="" name="tests.test_c" time="0.000"><error message="collection failure">ImportError: x</error></testcase>
</testsuite></testsuites>"#;
    let report = read(xml.as_bytes()).unwrap();
    assert_eq!(report.started_at, Some("2026-11-30T02:04:05.5Z".parse().unwrap()));
    let [ok, bad, skipped, error] = &report.tests[..] else { panic!("{report:?}") };
    assert_eq!((ok.class.as_str(), ok.name.as_str()), ("tests.test_a", "test_ok[8]"));
    assert!((bad.seconds - 1.5).abs() < 1e-9);
    assert_eq!(bad.tries[0].message, "AssertionError: a < b second");
    assert_eq!(bad.tries[0].class, "failure");
    assert_eq!(bad.tries[0].text, "def f():\n\nE & <x>");
    assert_eq!(bad.output, "ab");
    assert_eq!(skipped.tries[0].message, "why");
    assert_eq!((error.class.as_str(), error.tries[0].text.as_str()), ("", "ImportError: x"));
}

#[test]
fn suites_nest_and_a_suite_that_failed_itself_is_a_case() {
    let xml = "<testsuites tests=\"2\"><testsuite name=\"outer\" tests=\"1\"><error message=\"no \
               device\"/><testsuite name=\"inner\"><testcase file=\"f.cc\" name=\"t\"/></testsuite>\
               </testsuite></testsuites>";
    assert_eq!(
        outcomes(xml),
        [
            ("outer::(the suite itself)".to_owned(), vec![Outcome::Error]),
            ("f.cc::t".to_owned(), vec![Outcome::Pass]),
        ]
    );
}

#[test]
fn what_is_hostile_or_half_is_refused() {
    let deep = format!("{}{}", "<testsuite>".repeat(40), "</testsuite>".repeat(40));
    let wide =
        format!("<testsuite {}/>", (0..65).map(|n| format!("a{n}=\"\" ")).collect::<String>());
    let laughs =
        "<!DOCTYPE a [<!ENTITY b \"ha\"><!ENTITY c \"&b;&b;\">]><testsuite>&c;</testsuite>";
    let file = "<!DOCTYPE a [<!ENTITY b SYSTEM \"file:///etc/passwd\">]><testsuite/>";
    let of_case =
        |inner: &str| format!("<testsuite><testcase name=\"t\">{inner}</testcase></testsuite>");
    for (xml, what) in [
        ("", "holds no test"),
        ("<testsuite/>", "holds no test"),
        ("<testsuites><testsuite tests=\"0\"/></testsuites>", "holds no test"),
        ("<html><testcase name=\"t\"/></html>", "does not begin with"),
        ("{\"tests\": 3}", "outside of its root"),
        ("<testsuite><testcase name=\"t\"/>", "not closed"),
        ("<testsuite><testcase name=\"t\"/></testsuites>", "not well-formed"),
        ("<testsuite><testcase name=\"t/></testsuite>", "not well-formed"),
        ("<testsuite><testcase name=\"t\"/></testsuite><testsuite/>", "goes on after its end"),
        (&of_case("<testcase name=\"u\"/>"), "stands where none can"),
        (&of_case("<testsuite/>"), "stands where none can"),
        (&of_case("&nosuch;"), "entity `nosuch`"),
        (&of_case("<failure message=\"&nosuch;\"/>"), "nosuch"),
        (&of_case("&#xFFFFFFFF;"), "not well-formed"),
        ("<testsuite><testcase name=\"t\" time=\"NaN\"/></testsuite>", "`time` is `NaN`"),
        ("<testsuite><testcase name=\"t\" time=\"-1\"/></testsuite>", "`time` is `-1`"),
        ("<testsuite tests=\"2\"><testcase name=\"t\"/></testsuite>", "claims 2 tests and names 1"),
        ("<testsuite errors=\"1\"><testcase name=\"t\"/></testsuite>", "claims 1 failures"),
        (&deep, "nested deeper"),
        (&wide, "more than 64 attributes"),
        (laughs, "document type"),
        (file, "document type"),
    ] {
        let text = problem(xml);
        assert!(text.contains(what), "{xml:.200}: {text}");
        assert!(text.contains("at byte"), "{text}");
    }
    assert!(read(b"<testsuite>\xff</testsuite>").unwrap_err().what.contains("UTF-8"));
}

#[test]
fn a_time_without_a_zone_is_no_time() {
    let xml = "<testsuite timestamp=\"2026-11-30T03:04:05\"><testcase name=\"t\"/></testsuite>";
    assert_eq!(read(xml.as_bytes()).unwrap().started_at, None);
}

#[test]
fn attributes_without_end_take_no_time_that_grows_with_their_square() {
    let xml = format!("<testsuite {}/>", "a=\"\" ".repeat(1_000_000));
    // Their square would take hours: that this ends is the check.
    assert!(problem(&xml).contains("attributes"));
}
