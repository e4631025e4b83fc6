//! One output file: its bytes, its header, its leaves. Everything in it is checked here, once, so
//! that what follows can index without fear.
//!
//! The header is parsed here and not by the `safetensors` crate, whose sums of declared offsets can
//! overflow, and which would accept a header of 100 MB. Files come from a process that may be broken
//! in any way, and a broken file must cost an error and nothing else.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};

use super::elements::{DataType, Element};
use super::error::CompareError;
use super::leaf::Leaf;

/// Longest header accepted, in bytes. A header takes about 200 bytes a tensor.
const MAX_HEADER_BYTES: usize = 16 * 1024 * 1024;
/// Most tensors or leaves in one file.
const MAX_LEAVES: usize = 100_000;
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

/// Where a tensor's elements are, and what they are.
#[derive(Debug, Clone)]
pub(super) struct StoredTensor {
    /// Element type; complex only for a file's own complex type.
    pub(super) data_type: DataType,
    /// Shape as stored.
    pub(super) shape: Vec<u64>,
    range: Range<usize>,
}

/// One entry of a header, as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// The JSON at the beginning of a file.
#[derive(Default)]
struct Header {
    metadata: HashMap<String, String>,
    tensors: HashMap<String, Entry>,
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct HeaderVisitor;
        impl<'de> Visitor<'de> for HeaderVisitor {
            type Value = Header;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let mut header = Header::default();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        header.metadata = map.next_value()?;
                        continue;
                    }
                    let named = |error| format!("tensor `{}`: {error}", shorten(&name));
                    let entry = map.next_value().map_err(|error| A::Error::custom(named(error)))?;
                    if header.tensors.insert(name.clone(), entry).is_some() {
                        let twice = format!("tensor `{}` appears twice", shorten(&name));
                        return Err(A::Error::custom(twice));
                    }
                    if header.tensors.len() > MAX_LEAVES {
                        let many = format!("there are more than {MAX_LEAVES} tensors");
                        return Err(A::Error::custom(many));
                    }
                }
                Ok(header)
            }
        }
        deserializer.deserialize_map(HeaderVisitor)
    }
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

    /// The leaves in tree order.
    pub(super) fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    /// The stored tensor of a tensor leaf, with its elements.
    pub(super) fn tensor(&self, leaf: &Leaf) -> Result<(&StoredTensor, &[u8]), CompareError> {
        let tensor = self
            .tensors
            .get(&leaf.path)
            .ok_or_else(|| self.malformed(format!("leaf `{}` has no stored tensor", leaf.path)))?;
        Ok((tensor, &self.bytes.as_slice()[tensor.range.clone()]))
    }

    /// The mapping, where it was not read.
    pub(super) fn map(&self) -> Option<&memmap2::Mmap> {
        match &self.bytes {
            Bytes::Read(_) => None,
            Bytes::Mapped(map) => Some(map),
        }
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
            let (stored, _) = self.tensor(leaf)?;
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

/// Ranges of the header's JSON and of the data that follows it.
fn split_header(bytes: &[u8]) -> Result<(Range<usize>, Range<usize>), String> {
    let prefix = bytes.first_chunk::<8>().ok_or("it is shorter than a header length")?;
    let length = usize::try_from(u64::from_le_bytes(*prefix))
        .ok()
        .filter(|length| *length <= MAX_HEADER_BYTES)
        .ok_or_else(|| format!("its header is longer than {MAX_HEADER_BYTES} bytes"))?;
    let end = 8 + length;
    if end > bytes.len() {
        return Err("it ends inside its header".to_owned());
    }
    Ok((8..end, end..bytes.len()))
}

fn read_entries(
    path: &Path,
    entries: HashMap<String, Entry>,
    data: Range<usize>,
) -> Result<HashMap<String, StoredTensor>, CompareError> {
    let malformed = |problem| CompareError::Malformed { path: path.to_owned(), problem };
    let mut tensors = HashMap::with_capacity(entries.len());
    for (name, entry) in entries {
        let data_type = Element::from_stored(&entry.dtype).ok_or_else(|| {
            CompareError::UnsupportedDtype { path: path.to_owned(), dtype: shorten(&entry.dtype) }
        })?;
        let range = byte_range(&entry, data_type, &data)
            .map_err(|problem| malformed(format!("tensor `{}`: {problem}", shorten(&name))))?;
        tensors.insert(name, StoredTensor { data_type, shape: entry.shape, range });
    }
    check_contiguous(&tensors, &data).map_err(malformed)?;
    Ok(tensors)
}

/// Where in the file the elements are, if the entry's offsets, shape and dtype agree.
fn byte_range(
    entry: &Entry,
    data_type: DataType,
    data: &Range<usize>,
) -> Result<Range<usize>, String> {
    let size = data_type.element.size() as u64 * (1 + u64::from(data_type.complex));
    let bytes = entry.shape.iter().try_fold(size, |bytes, length| bytes.checked_mul(*length));
    let bytes = if entry.shape.contains(&0) { Some(0) } else { bytes };
    let bytes = bytes.ok_or("its shape overflows")?;
    let (begin, end) = entry.data_offsets;
    if begin > end || end - begin != bytes {
        return Err(format!("its shape takes {bytes} bytes and its offsets are {begin} to {end}"));
    }
    if end > (data.end - data.start) as u64 {
        return Err(format!(
            "its offsets end at {end} and the file holds {} bytes of data",
            data.end - data.start
        ));
    }
    let place = |offset: u64| data.start + usize::try_from(offset).expect("inside the file");
    Ok(place(begin)..place(end))
}

/// The tensors must cover the data without gap and overlap, as the format demands.
fn check_contiguous(
    tensors: &HashMap<String, StoredTensor>,
    data: &Range<usize>,
) -> Result<(), String> {
    let mut ranges: Vec<_> = tensors.values().map(|tensor| &tensor.range).collect();
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut end = data.start;
    for range in ranges {
        if range.start != end {
            return Err("its tensors overlap or leave a gap".to_owned());
        }
        end = range.end;
    }
    if end != data.end {
        return Err(format!("{} bytes after its last tensor belong to none", data.end - end));
    }
    Ok(())
}

/// At most 80 characters of a text from a file, for a message.
fn shorten(text: &str) -> String {
    text.chars().take(80).collect()
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
