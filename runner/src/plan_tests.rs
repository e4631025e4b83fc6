use super::*;
use crate::operator_key::operator_case;

fn axes(suites: &[Suite]) -> Axes {
    Axes {
        suites: suites.to_vec(),
        modes: vec![Mode::Eager, Mode::Compile],
        dtypes: vec![Dtype::Float32],
        directions: vec![Direction::Forward],
        dynamic_forms: vec![DynamicForm::Plain],
        checkpoints: false,
    }
}

fn model(id: &str, dynamic: bool) -> PlannedModel {
    let dimension = DynamicDimension {
        name: "sequence".to_owned(),
        min: 2,
        max: 8,
        inputs: [("input_ids".to_owned(), 1)].into(),
    };
    PlannedModel {
        spec: ModelSpec {
            source: "transformers".to_owned(),
            id: id.to_owned(),
            revision: None,
            checkpoint: None,
            size: "tiny".to_owned(),
            overrides: serde_json::Map::new(),
            batch: 2,
            sequence: 4,
        },
        dimensions: if dynamic { vec![dimension] } else { vec![] },
        dtypes: vec![],
        tolerance_class: None,
        rule: None,
        graph: None,
        popularity: None,
        skip: None,
    }
}

fn operator(entry: &str, train: bool) -> OperatorCase {
    OperatorCase {
        entry: entry.to_owned(),
        dtype: Dtype::Float32,
        sample: 0,
        train,
        layout: String::new(),
        error_input: false,
    }
}

#[test]
fn checkpoints_are_planned_for_those_that_have_one_or_for_all() {
    let mut named = model("A", false);
    named.spec.checkpoint = Some("/a.pt".to_owned());
    let models = [named, model("B", false)];
    let loading = |checkpoints, suite| {
        let axes = Axes { checkpoints, ..axes(&[suite]) };
        let cases = plan_cases(&axes, &[], &models).unwrap();
        let keys = cases.into_iter().map(|case| case.key.as_str().to_owned());
        keys.filter(|key| key.ends_with(CHECKPOINT)).collect::<Vec<_>>()
    };
    let a = "tier1/transformers:A#tiny/float32.eager.forward.checkpoint";
    let b = "tier1/transformers:B#tiny/float32.eager.forward.checkpoint";
    assert_eq!(loading(false, Suite::Tier1), [a]);
    assert_eq!(loading(true, Suite::Tier1), [a, b]);
    assert!(loading(true, Suite::Tier2).is_empty());
}

#[test]
fn every_suite_gets_its_cases_once_and_in_order() {
    let suites = [Suite::Operators, Suite::Tier1, Suite::Tier2, Suite::Dynamism];
    let operators = [operator("add", false), operator("add", true), operator("add", false)];
    let models = [model("A", true), model("B", false)];
    let cases = plan_cases(&axes(&suites), &operators, &models).unwrap();
    let keys: Vec<_> = cases.iter().map(|case| case.key.as_str()).collect();
    assert_eq!(
        keys,
        [
            "operators/opinfo:add#0/float32.eager.forward",
            "operators/opinfo:add#0/float32.compile.forward",
            "tier1/transformers:A#tiny/float32.eager.forward",
            "tier1/transformers:A#tiny/float32.compile.forward",
            "tier1/transformers:B#tiny/float32.eager.forward",
            "tier1/transformers:B#tiny/float32.compile.forward",
            "tier2/transformers:A#tiny/float32.eager.forward",
            "tier2/transformers:A#tiny/float32.compile.forward",
            "tier2/transformers:B#tiny/float32.eager.forward",
            "tier2/transformers:B#tiny/float32.compile.forward",
            "dynamism/transformers:A#tiny/float32.compile.forward",
        ]
    );
}

#[test]
fn an_operator_key_names_all_that_executes_the_case_again() {
    let plain = operator("std.unbiased", true);
    let out = OperatorCase { layout: "out".to_owned(), sample: 3, ..operator("add", false) };
    let module = operator("module:nn.Conv2d", true);
    let refused = OperatorCase { error_input: true, sample: 2, ..operator("add", false) };
    let operators = [plain, out, module, refused];
    let axes = Axes {
        directions: vec![Direction::Forward, Direction::Train],
        modes: vec![Mode::Eager],
        ..axes(&[Suite::Operators])
    };
    let cases = plan_cases(&axes, &operators, &[]).unwrap();
    let keys: Vec<_> = cases.iter().map(|case| case.key.as_str()).collect();
    assert_eq!(
        keys,
        [
            "operators/opinfo:std.unbiased#0/float32.eager.train",
            "operators/opinfo:add#3/float32.eager.forward.out",
            "operators/module:nn.Conv2d#0/float32.eager.train",
            "operators/opinfo:add#error2/float32.eager.forward",
        ]
    );
    let again: Vec<_> = cases.iter().filter_map(|case| operator_case(&case.key)).collect();
    assert_eq!(again, operators);
}

#[test]
fn the_manifest_hash_is_that_of_the_recorded_message() {
    let keys = [
        "operators/opinfo:add#0/float32.eager.forward",
        "tier1/timm:resnet18#tiny/float32.compile.forward",
    ];
    let text: String = keys.iter().map(|key| format!("{key}\n")).collect();
    assert_eq!(
        hex::encode(Sha256::digest(text)),
        "97abcd25f732b4f58df0f7905dbdda78752ee8f1153931b09e9cef4e42227322"
    );
}

#[test]
fn shards_part_the_plan_and_a_new_case_moves_no_other() {
    let keys: Vec<CaseKey> = (0..500)
        .map(|i| format!("operators/opinfo:add#{i}/float32.eager.forward").parse().unwrap())
        .collect();
    let shards: Vec<Shard> = (1..=7).map(|index| Shard { index, total: 7 }).collect();
    for key in &keys {
        assert_eq!(shards.iter().filter(|shard| shard.holds(key)).count(), 1, "{key}");
    }
    for shard in shards {
        let held = keys.iter().filter(|key| shard.holds(key)).count();
        assert!((30..130).contains(&held), "shard {shard} holds {held} of 500");
    }
}

#[test]
fn a_seed_decides_the_order_and_a_case_that_goes_moves_no_other() {
    let operators: Vec<_> = (0..40).map(|n| operator(&format!("op{n}"), false)).collect();
    let cases = plan_cases(&axes(&[Suite::Operators]), &operators, &[]).unwrap();
    let order = |cases: &[PlannedCase], seed| {
        let mut cases = cases.to_vec();
        shuffle(&mut cases, seed);
        cases.into_iter().map(|case| case.key).collect::<Vec<_>>()
    };
    let planned: Vec<_> = cases.iter().map(|case| case.key.clone()).collect();
    let (first, second) = (order(&cases, 1), order(&cases, 2));
    assert_eq!(order(&cases, 1), first);
    assert_ne!(first, planned);
    assert_ne!(first, second);
    let same_cases = |mut keys: Vec<CaseKey>| {
        keys.sort_unstable();
        keys
    };
    assert_eq!(same_cases(first.clone()), same_cases(planned));
    let without: Vec<_> = first.iter().filter(|key| **key != cases[7].key).cloned().collect();
    let fewer: Vec<_> = cases.iter().filter(|c| c.key != cases[7].key).cloned().collect();
    assert_eq!(order(&fewer, 1), without);
}

#[test]
fn a_wrong_shard_is_refused_in_words() {
    for bad in ["", "1", "0/3", "4/3", "1/0", "a/b", "1/2/3", "-1/3"] {
        assert!(bad.parse::<Shard>().is_err(), "{bad:?}");
    }
    assert_eq!("2/8".parse::<Shard>().unwrap().to_string(), "2/8");
}

#[test]
fn an_empty_choice_is_an_error_that_names_the_filter() {
    let cases = plan_cases(&axes(&[Suite::Tier1]), &[], &[model("A", false)]).unwrap();
    let filter = Filter::parse(&["aten::nosuch".to_owned()]).unwrap();
    let error = select(cases, &filter).unwrap_err();
    assert_eq!(error.exit(), crate::exit::Exit::NothingSelected);
    assert!(error.to_string().contains("`aten::nosuch`"), "{error}");
}

#[test]
fn forms_of_a_dynamism_case_are_cases_of_their_own() {
    let axes = Axes { dynamic_forms: DynamicForm::ALL.to_vec(), ..axes(&[Suite::Dynamism]) };
    let mut batch_only = model("B", true);
    batch_only.dimensions[0].name = "batch".to_owned();
    let cases = plan_cases(&axes, &[], &[model("A", true), batch_only]).unwrap();
    let sizes = |case: &PlannedCase| match &case.task {
        Task::Dynamism { sweep, .. } => sweep.iter().map(|sizes| sizes["sequence"]).collect(),
        Task::Operator { .. } | Task::Model { .. } => vec![],
    };
    let keys: Vec<&str> = cases.iter().map(|case| case.key.as_str()).collect();
    let of = |id: &str, form: &str| {
        format!("dynamism/transformers:{id}#tiny/float32.compile.forward{form}")
    };
    // Nothing is decoded where no dimension is a length.
    assert_eq!(keys.len(), 6 + 4);
    assert_eq!((keys[0], keys[1]), (of("A", "").as_str(), of("A", ".padded_left").as_str()));
    assert!(!keys.contains(&of("B", ".static_cache").as_str()), "{keys:?}");
    let decoding = cases.iter().find(|case| case.key.as_str().ends_with(".static_cache")).unwrap();
    assert_eq!(sizes(decoding), [2, 3, 4, 5, 6, 7, 8, 9]);
}
