use std::collections::BTreeMap;

use protocol::Dtype;
use protocol::worker_link::ModelSpec;

use super::*;

/// A folder with one golden, and what finds it.
struct World {
    folder: tempfile::TempDir,
    store: Store,
    case: CaseKey,
    made: Made,
}

/// A safetensors file with one leaf.
fn outputs(value: f32) -> Vec<u8> {
    let structure = r#"[{\"path\":\"0\",\"kind\":\"tensor\",\"dtype\":\"float32\",\"shape\":[1]}]"#;
    let header = format!(
        r#"{{"__metadata__":{{"structure":"{structure}"}},"0":{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}}}"#
    );
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(&value.to_le_bytes());
    bytes
}

fn comparison() -> Comparison {
    Comparison {
        label: String::new(),
        held: true,
        rule: "close".to_owned(),
        tolerance_id: "1+0".to_owned(),
        reference: "cpu float64".to_owned(),
        tensors: Vec::new(),
        findings: Vec::new(),
        addends: None,
        spread: None,
    }
}

fn world() -> World {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(&folder.path().join("goldens")).unwrap();
    let case: CaseKey = "tier2/timm:a#tiny/float32.eager.forward".parse().unwrap();
    let model = ModelSpec {
        source: "timm".to_owned(),
        id: "a".to_owned(),
        revision: None,
        checkpoint: None,
        size: "tiny".to_owned(),
        overrides: serde_json::Map::new(),
        batch: 2,
        sequence: 16,
    };
    let versions = BTreeMap::from([("torch".to_owned(), "2.9.0".to_owned())]);
    let made = Made { model, dtype: Dtype::Float32, seed: 7, versions };
    let world = World { folder, store, case, made };
    world.keep(1.0);
    world
}

impl World {
    fn keep(&self, value: f32) {
        let path = |name: &str, value| {
            let path = self.folder.path().join(name);
            std::fs::write(&path, outputs(value)).unwrap();
            path
        };
        let (outputs, wide) = (path("outputs", value), path("wide", value + 1.0));
        let origin = Origin {
            run: "r".to_owned(),
            device: "cuda".to_owned(),
            device_kind: "H100".to_owned(),
            simulated: false,
            versions: BTreeMap::from([("driver".to_owned(), "570".to_owned())]),
        };
        let kept = ToKeep {
            outputs: &outputs,
            wide: Some(&wide),
            fingerprint: "f00d",
            comparison: &comparison(),
        };
        self.store.keep(&self.case, self.made.clone(), origin, kept).unwrap();
    }

    fn find(&self) -> Result<Golden, Unusable> {
        self.store.find(&self.case, &self.made)
    }

    fn spoil(&self, path: &str, change: impl FnOnce(Vec<u8>) -> Vec<u8>) {
        let bytes = std::fs::read(path).unwrap();
        std::fs::write(path, change(bytes)).unwrap();
    }
}

#[test]
fn what_is_kept_is_found_with_its_bytes_and_says_where_it_is_from() {
    let world = world();
    let golden = world.find().unwrap();
    assert!(golden.id.starts_with("golden cuda "), "{}", golden.id);
    assert_eq!(golden.fingerprint, "f00d");
    assert_eq!(std::fs::read(&golden.outputs).unwrap(), outputs(1.0));
    assert_eq!(std::fs::read(golden.wide.unwrap()).unwrap(), outputs(2.0));
    let verified = world.store.verify().unwrap();
    assert_eq!((verified.entries, verified.problems.len()), (1, 0), "{verified:?}");
    // By its address too, and under the same name from wherever it is read.
    let url = format!("file://{}", world.store.root.display());
    assert_eq!(
        Store::open(&url, &Cache::default()).unwrap().find(&world.case, &world.made).unwrap().id,
        golden.id
    );
}

#[test]
fn recording_again_replaces_it_and_its_name() {
    let world = world();
    let before = world.find().unwrap();
    world.keep(3.0);
    let after = world.find().unwrap();
    assert_ne!(before.id, after.id);
    assert_eq!(std::fs::read(after.outputs).unwrap(), outputs(3.0));
}

#[test]
fn a_missing_or_stale_golden_says_which() {
    let world = world();
    let other: CaseKey = "tier2/timm:b#tiny/float32.eager.forward".parse().unwrap();
    let missing = world.store.find(&other, &world.made).unwrap_err();
    assert_eq!(missing.class(), "golden-missing");
    assert!(missing.to_string().contains("timm:b"), "{missing}");
    let mut now = world.made.clone();
    now.versions.insert("torch".to_owned(), "2.10.0".to_owned());
    now.seed = 8;
    let stale = world.store.find(&world.case, &now).unwrap_err();
    assert_eq!(stale.class(), "golden-stale");
    assert!(stale.to_string().contains("seed 7 and now 8; torch 2.9.0 and now 2.10.0"), "{stale}");
}

#[test]
fn any_damage_is_found_before_use_and_by_verifying() {
    type Damage = fn(&World, &Golden);
    let damages: [(&str, Damage); 7] = [
        ("one byte", |world, golden| {
            world.spoil(&golden.outputs, |mut bytes| {
                *bytes.last_mut().unwrap() ^= 1;
                bytes
            });
        }),
        ("cut", |world, golden| {
            world.spoil(golden.wide.as_ref().unwrap(), |bytes| bytes[..bytes.len() - 1].to_vec());
        }),
        ("gone", |_, golden| std::fs::remove_file(&golden.outputs).unwrap()),
        ("entry cut", |world, _| {
            let path = world.store.entry(&world.case).display().to_string();
            world.spoil(&path, |bytes| bytes[..40].to_vec());
        }),
        ("entry of another case", |world, _| {
            let path = world.store.entry(&world.case).display().to_string();
            world.spoil(&path, |bytes| {
                String::from_utf8(bytes).unwrap().replace("tier2/timm:a#", "tier2/timm:z#").into()
            });
        }),
        ("a path for a hash", |world, golden| {
            let path = world.store.entry(&world.case).display().to_string();
            let sha256 =
                Path::new(&golden.outputs).file_stem().unwrap().to_str().unwrap().to_owned();
            world.spoil(&path, |bytes| {
                let text = String::from_utf8(bytes).unwrap();
                text.replace(&sha256, &format!("../../../{}", &sha256[9..])).into()
            });
        }),
        ("another format", |world, _| {
            let path = world.store.entry(&world.case).display().to_string();
            world.spoil(&path, |bytes| {
                String::from_utf8(bytes).unwrap().replace("\"format\": 1", "\"format\": 2").into()
            });
        }),
    ];
    for (name, damage) in damages {
        let world = world();
        damage(&world, &world.find().unwrap());
        let unusable = world.find().unwrap_err();
        assert_eq!(unusable.class(), "golden-corrupt", "{name}: {unusable}");
        let problems = world.store.verify().unwrap().problems;
        assert_eq!(problems.len(), 1, "{name}: {problems:?}");
        // Recording again mends it.
        world.keep(1.0);
        assert!(world.find().is_ok(), "{name}");
        assert!(world.store.verify().unwrap().problems.is_empty(), "{name}");
    }
}

#[tokio::test]
async fn a_place_that_cannot_hold_goldens_is_refused_by_name() {
    for (location, word) in [
        ("ftp://host/goldens", "ftp://host/goldens"),
        ("file://host/goldens", "names no host"),
        ("/nowhere/at/all", "No such file"),
        ("/tmp", "no folder of goldens"),
    ] {
        let error = Store::open(location, &Cache::default()).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
        assert!(!error.hint().is_empty(), "{location}");
    }
}
