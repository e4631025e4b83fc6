//! Files from a broken or hostile process: always an error, never a panic, never a pass.
//!
//! Headers that lie in known ways are tested beside the code that reads them; here bytes are
//! changed at random, for a fixed number of seeded rounds, and what `scripts/fuzz` has kept is
//! answered again.

use std::path::Path;

use runner::compare::CompareError;
use serde_json::json;

use crate::harness::*;
use crate::input::Input;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

fn leaves() -> Vec<Leaf> {
    vec![
        tensor("a", "float32", &[2, 3], f32_bytes(&[1.0; 6])),
        tensor("b", "complex64", &[1], f32_bytes(&[1.0; 2])),
        tensor("c.logits", "bfloat16", &[2, 2], vec![0; 8]),
        tensor("d", "int64", &[0], vec![]),
        plain(json!({"path": "e", "kind": "scalar", "dtype": "float", "value": "nan"})),
    ]
}

/// Changes some bytes in a way that a broken writer might.
fn mutate(file: &mut Vec<u8>, header: usize, random: &mut Random) {
    for _ in 0..=random.below(3) {
        // The header is much longer than the data, and both are to be hit.
        let from = if random.below(2) == 0 { header.min(file.len() - 1) } else { 0 };
        let at = from + random.below(file.len() - from);
        match random.below(6) {
            0 => file[at] = u8::try_from(random.below(256)).unwrap(),
            1 => file[at] ^= 1 << random.below(8),
            2 => file.truncate(at.max(1)),
            3 => file.insert(at, b'9'),
            4 => {
                file.remove(at);
            }
            _ => file[at] = b"0123456789[]{},:\"-e."[random.below(20)],
        }
        if file.is_empty() {
            return;
        }
    }
}

#[test]
fn changed_bytes_never_panic() {
    let honest = file_bytes(&leaves());
    let header = 8 + usize::try_from(u64::from_le_bytes(*honest.first_chunk().unwrap())).unwrap();
    let mut random = Random(1);
    let (mut errors, mut compared) = (0, 0);
    for round in 0..3000 {
        let mut file = honest.clone();
        mutate(&mut file, header, &mut random);
        let rule = ["close", "exact", "metadata", "statistical"][round % 4];
        let (actual, expected) = if round % 2 == 0 { (&file, &honest) } else { (&honest, &file) };
        match compare_bytes(actual, expected, rule) {
            Ok(comparison) => {
                compared += 1;
                // What holds in spite of a change was changed where nothing is said, or in data
                // that the rule does not look at.
                let same_header = file.len() == honest.len() && file[..header] == honest[..header];
                if comparison.held && rule == "exact" && same_header {
                    assert!(comparison.findings.iter().all(|line| !line.contains("differ")));
                }
            }
            Err(
                CompareError::Malformed { .. }
                | CompareError::UnsupportedDtype { .. }
                | CompareError::NoTolerance { .. },
            ) => errors += 1,
            Err(error) => panic!("round {round}: {error}"),
        }
    }
    assert!(errors > 500 && compared > 200, "{errors} errors, {compared} comparisons");
}

/// Each reached code that no other did; what must hold of an answer is asked there.
#[test]
fn what_a_fuzzer_found_is_answered_again() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/compare");
    let folder = tempfile::tempdir().unwrap();
    let (mut errors, mut compared) = (0, 0);
    for entry in std::fs::read_dir(corpus).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        match Input::of(&bytes).map(|input| input.compare(folder.path())) {
            Some(Ok(_)) => compared += 1,
            Some(Err(_)) => errors += 1,
            None => {}
        }
    }
    assert!(errors > 100 && compared > 100, "{errors} errors, {compared} comparisons");
}

#[test]
fn nesting_and_numbers_beyond_reason_are_errors() {
    let good = file_bytes(&[float32(&[1.0])]);
    let with_header = |header: &str| {
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend_from_slice(header.as_bytes());
        file
    };
    for header in [
        "[".repeat(100_000),
        format!("{{\"__metadata__\":{{\"structure\":\"{}\"}}}}", "[".repeat(100_000)),
        r#"{"__metadata__":{"structure":"[]"},"x":{"dtype":"F32","shape":[18446744073709551615,2],"data_offsets":[0,8]}}"#.to_owned(),
        r#"{"__metadata__":{"structure":"[]"},"x":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,18446744073709551615]}}"#.to_owned(),
        r#"{"__metadata__":{"structure":"[]"},"x":{"dtype":"F32","shape":[-1],"data_offsets":[0,8]}}"#.to_owned(),
        r#"{"__metadata__":{"structure":"[]"},"x":{"dtype":"F32","shape":[1e30],"data_offsets":[0,8]}}"#.to_owned(),
        r#"{"__metadata__":{"structure":7}}"#.to_owned(),
        "\u{0}\u{0}".to_owned(),
    ] {
        let error = compare_bytes(&with_header(&header), &good, "close").unwrap_err();
        assert!(matches!(error, CompareError::Malformed { .. }), "{error}");
    }
}

#[test]
fn a_leaf_that_lies_about_its_dtype_is_an_error() {
    let mut leaf = float32(&[1.0]);
    leaf.structure["dtype"] = json!("float16");
    let error = compare_bytes(&file_bytes(&[leaf]), &file_bytes(&[float16(&[1.0])]), "close");
    let text = error.unwrap_err().to_string();
    assert!(text.contains("leaf `0` says dtype `float16` and is stored as `float32`"), "{text}");
}

/// Such a scalar would not even be equal to itself.
#[test]
fn a_scalar_without_its_numbers_is_an_error() {
    for (dtype, value) in [
        ("float", json!(null)),
        ("float", json!("text")),
        ("complex", json!([1.0])),
        ("complex", json!(1.0)),
    ] {
        let leaf = json!({"path": "e", "kind": "scalar", "dtype": dtype, "value": value});
        let file = file_bytes(&[plain(leaf)]);
        let error = compare_bytes(&file, &file, "close").unwrap_err().to_string();
        assert!(error.contains(&format!("leaf `e` is of type `{dtype}`")), "{error}");
    }
}

#[test]
fn empty_trees_hold_and_say_nothing() {
    let empty = file_bytes(&[]);
    let comparison = compare_bytes(&empty, &empty, "close").unwrap();
    assert!(comparison.held && comparison.tensors.is_empty());
}

#[test]
fn many_findings_are_cut_and_counted() {
    let side = |value: f32| -> Vec<Leaf> {
        (0..1500).map(|i| tensor(&i.to_string(), "float32", &[1], f32_bytes(&[value]))).collect()
    };
    let comparison = compare_leaves(&side(1.0), &side(2.0), "close");
    assert_eq!(comparison.tensors.len(), 1000);
    assert_eq!(comparison.findings.len(), 201);
    let last = comparison.findings.last().unwrap();
    assert_eq!(last, "note: 1301 further findings are not listed");
}
