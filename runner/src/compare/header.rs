//! The header of an output file, checked: what is stored, and where.
//!
//! It is parsed here and not by the `safetensors` crate, whose sums of declared offsets can overflow,
//! and which would accept a header of 100 MB.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};

use super::elements::{DataType, Element};
use super::error::CompareError;

/// Longest header accepted, in bytes. A header takes about 200 bytes a tensor.
const MAX_HEADER_BYTES: usize = 16 * 1024 * 1024;
/// Most tensors or leaves in one file.
pub(super) const MAX_LEAVES: usize = 100_000;
/// Where a tensor's elements are, and what they are.
#[derive(Debug, Clone)]
pub(super) struct StoredTensor {
    /// Element type; complex only for a file's own complex type.
    pub(super) data_type: DataType,
    /// Shape as stored.
    pub(super) shape: Vec<u64>,
    pub(super) range: Range<usize>,
}

/// One entry of a header, as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// The JSON at the beginning of a file.
#[derive(Default)]
pub(super) struct Header {
    pub(super) metadata: HashMap<String, String>,
    pub(super) tensors: HashMap<String, Entry>,
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

/// Ranges of the header's JSON and of the data that follows it.
pub(super) fn split_header(bytes: &[u8]) -> Result<(Range<usize>, Range<usize>), String> {
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

pub(super) fn read_entries(
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
pub(super) fn shorten(text: &str) -> String {
    text.chars().take(80).collect()
}
