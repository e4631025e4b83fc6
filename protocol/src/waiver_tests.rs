use super::*;

const CASE: &str = "operators/opinfo:fft.rfft#0/float32.eager.forward";
const MODEL: &str = "tier1/hub:Qwen/Qwen3@abc#tiny/bfloat16.compile.forward";

fn day(text: &str) -> NaiveDate {
    text.parse().unwrap()
}

fn waiver(pattern: &str) -> Terms {
    Terms {
        case_pattern: pattern.to_owned(),
        suite: None,
        model: None,
        operator: None,
        outcomes: vec![Outcome::Unsupported],
        conditions: Conditions::default(),
        expires_on: day("2026-12-01"),
    }
}

fn leave_of(terms: &Terms, case: &str, outcome: Outcome, today: &str) -> Leave {
    let versions = BTreeMap::from([
        ("torch".to_owned(), "2.15.0+cpu".to_owned()),
        ("torch_tpu".to_owned(), "0.2.0".to_owned()),
    ]);
    let subject = Subject {
        case,
        device_profile: "tpu",
        device_kind: "TPU v6e",
        versions: &versions,
        operator: Some("aten::_fft_r2c"),
    };
    find_leave([((), terms)], subject, outcome, day(today)).map_or(Leave::None, |(l, ())| l)
}

fn leave(terms: &Terms, outcome: Outcome, today: &str) -> Leave {
    leave_of(terms, CASE, outcome, today)
}

#[test]
fn it_ends_on_its_date_and_not_a_day_later() {
    let exact = waiver(CASE);
    assert_eq!(leave(&exact, Outcome::Unsupported, "2026-11-30"), Leave::Expected);
    assert_eq!(leave(&exact, Outcome::Unsupported, "2026-12-01"), Leave::None);
    assert_eq!(leave(&exact, Outcome::Unsupported, "2026-12-02"), Leave::None);
}

#[test]
fn it_forgives_only_the_outcomes_it_names() {
    let wide = waiver("operators/opinfo:fft.*");
    for outcome in Outcome::ALL {
        let forgiven = *outcome == Outcome::Unsupported;
        let expected = if forgiven { Leave::Forgiven } else { Leave::None };
        assert_eq!(leave(&wide, *outcome, "2026-11-30"), expected, "{outcome}");
    }
}

#[test]
fn only_a_waiver_of_one_case_expects_it_to_fail() {
    assert_eq!(leave(&waiver(CASE), Outcome::Pass, "2026-11-30"), Leave::Expected);
    assert_eq!(leave(&waiver("operators/*"), Outcome::Pass, "2026-11-30"), Leave::None);
    let mut by_operator = waiver(CASE);
    by_operator.operator = Some("aten::_fft_r2c".to_owned());
    assert_eq!(leave(&by_operator, Outcome::Pass, "2026-11-30"), Leave::None);
}

#[test]
fn scope_and_conditions_narrow() {
    type Change = fn(&mut Terms);
    let changes: [(&str, Change, bool); 15] = [
        ("nothing", |_| (), true),
        ("operator", |t| t.operator = Some("aten::_fft_r2c".to_owned()), true),
        ("operator", |t| t.operator = Some("aten::add.Tensor".to_owned()), false),
        ("suite", |t| t.suite = Some(Suite::Operators), true),
        ("suite", |t| t.suite = Some(Suite::Tier1), false),
        ("model", |t| t.model = Some("*".to_owned()), false),
        ("profile", |t| t.conditions.device_profiles = vec!["tpu".to_owned()], true),
        ("profile", |t| t.conditions.device_profiles = vec!["cuda".to_owned()], false),
        ("kind", |t| t.conditions.device_kinds = vec!["* v6e".to_owned()], true),
        ("kind", |t| t.conditions.device_kinds = vec!["TPU v4".to_owned()], false),
        ("dtype", |t| t.conditions.dtypes = vec![Dtype::Float16, Dtype::Float32], true),
        ("dtype", |t| t.conditions.dtypes = vec![Dtype::Bfloat16], false),
        ("mode", |t| t.conditions.modes = vec![Mode::Eager], true),
        ("mode", |t| t.conditions.modes = vec![Mode::Compile], false),
        (
            "version",
            |t| {
                t.conditions.versions.insert("libtpu".to_owned(), ">=0".parse().unwrap());
            },
            false,
        ),
    ];
    for (what, change, covered) in changes {
        let mut terms = waiver("*");
        change(&mut terms);
        let given = leave(&terms, Outcome::Unsupported, "2026-11-30");
        assert_eq!(given != Leave::None, covered, "{what} {terms:?}");
    }
}

#[test]
fn a_model_is_named_with_or_without_its_revision_and_in_every_size() {
    for (model, covered) in [
        ("hub:Qwen/Qwen3", true),
        ("hub:Qwen/*", true),
        ("hub:Qwen/Qwen3@abc", true),
        ("hub:Qwen", false),
    ] {
        let terms = Terms { model: Some(model.to_owned()), ..waiver("*") };
        let given = leave_of(&terms, MODEL, Outcome::Unsupported, "2026-11-30");
        assert_eq!(given == Leave::Forgiven, covered, "{model}");
    }
}

#[test]
fn versions_are_in_a_range_as_python_reads_it() {
    for (range, version, inside) in [
        (">=2.14, <2.16", "2.15.0+cpu", true),
        ("<2.16", "2.16.0.dev20261101", false),
        ("<2.16", "2.15.9", true),
        ("==2.15.*", "2.15.1", true),
        ("<=2.15", "2.15.0", true),
        ("<=2.9", "2.15.0", false),
        (">=0", "unknown", false),
        ("!=0.2.0", "0.2.0", false),
    ] {
        let parsed: VersionRange = range.parse().unwrap();
        assert_eq!(parsed.contains(version), inside, "{version} in {range}");
        let json = serde_json::to_string(&parsed).unwrap();
        assert_eq!(serde_json::from_str::<VersionRange>(&json).unwrap(), parsed);
    }
    for bad in ["", "2.15", ">=", ">= 2.x", "newer"] {
        let error = bad.parse::<VersionRange>().unwrap_err();
        assert!(error.starts_with(&format!("`{bad}` is no range of versions: ")), "{error}");
    }
}

#[test]
fn patterns() {
    for (pattern, text, matches) in [
        ("a", "a", true),
        ("a", "ab", false),
        ("*", "", true),
        ("a*", "abc", true),
        ("*c", "abc", true),
        ("a*c", "abc", true),
        ("a*c", "ac", true),
        ("a*a", "a", false),
        ("a*b*c", "aXbYc", true),
        ("a*b*c", "aXcYb", false),
        ("a**c", "abc", true),
        ("*b*", "abc", true),
        ("[a]", "a", false),
    ] {
        assert_eq!(matches_pattern(pattern, text), matches, "{pattern} {text}");
    }
}

#[test]
fn what_a_waiver_may_not_say_is_said_all_at_once() {
    let good = Statement {
        reason: "not implemented yet",
        owner: "fft team",
        issue: "https://issues.example/1",
    };
    let today = day("2026-11-30");
    assert_eq!(find_problems(&waiver("operators/*"), &good, today), []);
    let mut ended = waiver("operators/*");
    ended.expires_on = day("2020-01-01");
    assert_eq!(find_problems(&ended, &good, today), []);
    let bad = Statement { reason: "because", owner: " ", issue: "tracker 7" };
    let mut terms = waiver("**");
    terms.expires_on = day("2029-01-01");
    terms.outcomes = vec![Outcome::Infra];
    let fields: Vec<_> =
        find_problems(&terms, &bad, today).iter().map(|problem| problem.field).collect();
    assert_eq!(fields, ["owner", "case_pattern", "outcomes", "reason", "issue", "expires_on"]);
}
