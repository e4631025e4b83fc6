//! One output file: its bytes, its header, its leaves. Everything in it is checked here and in
//! `header`, once, so that what follows can index without fear.
//!
//! Files come from a process that may be broken in any way, and a broken file must cost an error and
//! nothing else.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::error::CompareError;
use super::header::{Header, MAX_LEAVES, StoredTensor, read_entries, shorten, split_header};
use super::leaf::Leaf;
use super::tensors::Side;

/// Files up to this size are read, which costs less than mapping and cannot be cut under us.
const READ_UP_TO_BYTES: u64 = 256 * 1024;

/// The bytes of a file.
enum Bytes {
    Read(Vec<u8>),
    Mapped(memmap2::Mmap),
}

impl Bytes {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Read(bytes) => bytes,
            Self::Mapped(map) => map,
        }
    }
}

/// A checked output file.
pub(super) struct OutputFile {
    path: PathBuf,
    bytes: Bytes,
    tensors: HashMap<String, StoredTensor>,
    leaves: Vec<Leaf>,
}

impl OutputFile {
    /// Opens and checks a file.
    pub(super) fn open(path: &Path) -> Result<Self, CompareError> {
        let bytes = read_or_map(path)
            .map_err(|source| CompareError::Unreadable { path: path.to_owned(), source })?;
        let malformed = |problem| CompareError::Malformed { path: path.to_owned(), problem };
        let (header, data) = split_header(bytes.as_slice()).map_err(malformed)?;
        let header: Header = serde_json::from_slice(&bytes.as_slice()[header])
            .map_err(|error| malformed(format!("its header is not understood: {error}")))?;
        let tensors = read_entries(path, header.tensors, data)?;
        let structure = header
            .metadata
            .get("structure")
            .ok_or_else(|| malformed("it has no `structure` in its metadata".to_owned()))?;
        let leaves: Vec<Leaf> = serde_json::from_str(structure)
            .map_err(|error| malformed(format!("its `structure` is not understood: {error}")))?;
        if leaves.len() > MAX_LEAVES {
            return Err(malformed(format!("it has more than {MAX_LEAVES} leaves")));
        }
        let file = Self { path: path.to_owned(), bytes, tensors, leaves };
        file.check_leaves()?;
        Ok(file)
    }

    /// The elements of a tensor leaf, as one side of a pair.
    pub(super) fn side(&self, leaf: &Leaf) -> Result<Side<'_>, CompareError> {
        let tensor = self.tensor(leaf)?;
        Ok(Side {
            element: tensor.data_type.element,
            bytes: &self.bytes.as_slice()[tensor.range.clone()],
            map: match &self.bytes {
                Bytes::Read(_) => None,
                Bytes::Mapped(map) => Some(map),
            },
        })
    }

    /// The leaves in tree order.
    pub(super) fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    /// The stored tensor of a tensor leaf.
    pub(super) fn tensor(&self, leaf: &Leaf) -> Result<&StoredTensor, CompareError> {
        self.tensors
            .get(&leaf.path)
            .ok_or_else(|| self.malformed(format!("leaf `{}` has no stored tensor", leaf.path)))
    }

    /// An error about this file.
    pub(super) fn malformed(&self, problem: String) -> CompareError {
        CompareError::Malformed { path: self.path.clone(), problem }
    }

    /// An error about an element type of this file.
    pub(super) fn unsupported(&self, dtype: &str) -> CompareError {
        CompareError::UnsupportedDtype { path: self.path.clone(), dtype: shorten(dtype) }
    }

    fn check_leaves(&self) -> Result<(), CompareError> {
        let mut seen = std::collections::HashSet::with_capacity(self.leaves.len());
        for leaf in &self.leaves {
            if !seen.insert(leaf.path.as_str()) {
                return Err(self.malformed(format!("leaf `{}` appears twice", leaf.path)));
            }
            if !leaf.has_its_numbers() {
                let is = leaf.dtype.as_deref().unwrap_or("");
                let value = shorten(&leaf.value.to_string());
                return Err(self.malformed(format!(
                    "leaf `{}` is of type `{is}` and has the value {value}",
                    leaf.path
                )));
            }
            if !leaf.is_tensor() {
                continue;
            }
            let stored = self.tensor(leaf)?;
            let data_type = leaf
                .data_type()
                .ok_or_else(|| self.unsupported(leaf.dtype.as_deref().unwrap_or("")))?;
            let pairs = data_type.complex && !stored.data_type.complex;
            let expected_rank = leaf.shape.len() + usize::from(pairs);
            let fits = stored.shape.len() == expected_rank
                && stored.shape.starts_with(&leaf.shape)
                && (!pairs || stored.shape.last() == Some(&2));
            if !fits {
                return Err(self.malformed(format!(
                    "leaf `{}` says shape {:?} and is stored with shape {:?}",
                    leaf.path, leaf.shape, stored.shape
                )));
            }
            if stored.data_type.complex && !data_type.complex {
                return Err(self.malformed(format!(
                    "leaf `{}` says dtype `{}` and is stored as complex",
                    leaf.path,
                    data_type.name()
                )));
            }
        }
        Ok(())
    }
}

fn read_or_map(path: &Path) -> std::io::Result<Bytes> {
    let mut file = File::open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    if metadata.len() <= READ_UP_TO_BYTES {
        let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
        (&mut file).take(READ_UP_TO_BYTES + 1).read_to_end(&mut bytes)?;
        return Ok(Bytes::Read(bytes));
    }
    #[expect(unsafe_code, reason = "mapping a file is unsafe by nature")]
    // SAFETY: the file is private to one case, and its writer has closed it before it is named to
    // us. Should it still be changed, values differ; should it be cut, the process gets a SIGBUS,
    // which is the price of not copying gigabytes.
    let map = unsafe { memmap2::Mmap::map(&file) }?;
    Ok(Bytes::Mapped(map))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(data);
        bytes
    }

    fn problem(bytes: &[u8]) -> String {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.safetensors");
        std::fs::write(&path, bytes).unwrap();
        match OutputFile::open(&path) {
            Ok(_) => "none".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    /// A header of one float32 tensor `0` with these parts, and its leaf.
    fn one(dtype: &str, shape: &str, offsets: &str, leaf: &str) -> String {
        let structure = format!("[{leaf}]").replace('"', "\\\"");
        format!(
            r#"{{"__metadata__":{{"structure":"{structure}"}},"0":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#
        )
    }

    const LEAF: &str = r#"{"path":"0","kind":"tensor","dtype":"float32","shape":[2],"stride":[1]}"#;

    #[test]
    fn an_honest_file_is_accepted() {
        let header = one("F32", "[2]", "[0,8]", LEAF);
        assert_eq!(problem(&file(&header, &[0; 8])), "none");
    }

    #[test]
    fn every_lie_is_refused_by_name() {
        let good = one("F32", "[2]", "[0,8]", LEAF);
        let huge = "[4611686018427387904,8]";
        let cases: Vec<(Vec<u8>, &str)> = vec![
            (vec![], "shorter than a header length"),
            (u64::MAX.to_le_bytes().to_vec(), "header is longer than"),
            (200_000_000u64.to_le_bytes().to_vec(), "header is longer than"),
            (file(&good, &[0; 8])[..40].to_vec(), "ends inside its header"),
            (file(&good, &[0; 4]), "file holds 4 bytes"),
            (file(&good, &[0; 12]), "4 bytes after its last tensor"),
            (file("[]", &[]), "header is not understood"),
            (file("{}", &[]), "no `structure`"),
            (file(&one("F32", "[2]", "[8,0]", LEAF), &[0; 8]), "its offsets are 8 to 0"),
            (file(&one("F32", "[3]", "[0,8]", LEAF), &[0; 8]), "its shape takes 12 bytes"),
            (file(&one("F32", huge, "[0,8]", LEAF), &[0; 8]), "its shape overflows"),
            (file(&one("F32", "[2]", "[4,12]", LEAF), &[0; 12]), "overlap or leave a gap"),
            (file(&one("F4", "[16]", "[0,8]", LEAF), &[0; 8]), "`F4` elements"),
            (file(&one("F99", "[2]", "[0,8]", LEAF), &[0; 8]), "`F99` elements"),
            (file(&one("F32", "[2]", "[0,8]", "7"), &[0; 8]), "`structure` is not understood"),
            (
                file(&one("F32", "[2]", "[0,8]", &LEAF.replace("[2]", "[3]")), &[0; 8]),
                "says shape [3] and is stored with shape [2]",
            ),
            (
                file(&one("F32", "[2]", "[0,8]", &LEAF.replace("float32", "quint8")), &[0; 8]),
                "`quint8` elements",
            ),
            (
                file(&one("F32", "[2]", "[0,8]", &format!("{LEAF},{LEAF}")), &[0; 8]),
                "appears twice",
            ),
            (
                file(&one("F32", "[2]", "[0,8]", &LEAF.replace(r#""0""#, r#""1""#)), &[0; 8]),
                "leaf `1` has no stored tensor",
            ),
        ];
        for (bytes, expected) in cases {
            let problem = problem(&bytes);
            assert!(problem.contains(expected), "{expected:?} was not in {problem:?}");
        }
    }

    #[test]
    fn a_sparse_file_of_declared_zeros_costs_no_memory() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("zeros.safetensors");
        let leaf = LEAF.replace("[2]", "[1073741824]");
        let header = file(&one("F32", "[1073741824]", "[0,4294967296]", &leaf), &[]);
        std::fs::write(&path, &header).unwrap();
        let sparse = File::options().write(true).open(&path).unwrap();
        sparse.set_len(header.len() as u64 + (1 << 32)).unwrap();
        assert!(OutputFile::open(&path).is_ok());
    }

    #[test]
    fn a_directory_or_a_missing_file_is_unreadable() {
        let directory = tempfile::tempdir().unwrap();
        for path in [directory.path().to_owned(), directory.path().join("none")] {
            let error = OutputFile::open(&path).err().unwrap();
            assert!(matches!(error, CompareError::Unreadable { .. }), "{error}");
        }
    }
}
