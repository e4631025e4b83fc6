//! Element types: their names, sizes and exact widening to `f64`.
//!
//! Every real type widens without loss, except 64-bit integers, which `integer` compares exactly.

use super::float8;

/// A real element type, or the type of the parts of a complex one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Element {
    Float64,
    Float32,
    Bfloat16,
    Float16,
    Float8E4m3fn,
    Float8E5m2,
    Float8E4m3fnuz,
    Float8E5m2fnuz,
    Float8E8m0fnu,
    Int64,
    Int32,
    Int16,
    Int8,
    Uint64,
    Uint32,
    Uint16,
    Uint8,
    Bool,
}

/// How an [`Element`] is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Float,
    Integer,
}

/// One row per element: PyTorch's name, size, kind.
const ELEMENTS: &[(Element, &str, usize, Kind)] = &[
    (Element::Float64, "float64", 8, Kind::Float),
    (Element::Float32, "float32", 4, Kind::Float),
    (Element::Bfloat16, "bfloat16", 2, Kind::Float),
    (Element::Float16, "float16", 2, Kind::Float),
    (Element::Float8E4m3fn, "float8_e4m3fn", 1, Kind::Float),
    (Element::Float8E5m2, "float8_e5m2", 1, Kind::Float),
    (Element::Float8E4m3fnuz, "float8_e4m3fnuz", 1, Kind::Float),
    (Element::Float8E5m2fnuz, "float8_e5m2fnuz", 1, Kind::Float),
    (Element::Float8E8m0fnu, "float8_e8m0fnu", 1, Kind::Float),
    (Element::Int64, "int64", 8, Kind::Integer),
    (Element::Int32, "int32", 4, Kind::Integer),
    (Element::Int16, "int16", 2, Kind::Integer),
    (Element::Int8, "int8", 1, Kind::Integer),
    (Element::Uint64, "uint64", 8, Kind::Integer),
    (Element::Uint32, "uint32", 4, Kind::Integer),
    (Element::Uint16, "uint16", 2, Kind::Integer),
    (Element::Uint8, "uint8", 1, Kind::Integer),
    (Element::Bool, "bool", 1, Kind::Integer),
];

impl Element {
    fn row(self) -> &'static (Self, &'static str, usize, Kind) {
        ELEMENTS.iter().find(|row| row.0 == self).expect("every element has a row")
    }

    /// PyTorch's name.
    pub(super) fn name(self) -> &'static str {
        self.row().1
    }

    /// Bytes of one element.
    pub(super) fn size(self) -> usize {
        self.row().2
    }

    /// Whether it is compared as a float or exactly.
    pub(super) fn kind(self) -> Kind {
        self.row().3
    }

    /// The element type of a name in a safetensors header, and whether it is stored as complex
    /// pairs. Types of which several elements share a byte (`F4`, `F6_…`) are not known here.
    pub(super) fn from_stored(name: &str) -> Option<DataType> {
        let element = match name {
            "BOOL" => Self::Bool,
            "U8" => Self::Uint8,
            "I8" => Self::Int8,
            "U16" => Self::Uint16,
            "I16" => Self::Int16,
            "U32" => Self::Uint32,
            "I32" => Self::Int32,
            "U64" => Self::Uint64,
            "I64" => Self::Int64,
            "F8_E4M3" => Self::Float8E4m3fn,
            "F8_E5M2" => Self::Float8E5m2,
            "F8_E4M3FNUZ" => Self::Float8E4m3fnuz,
            "F8_E5M2FNUZ" => Self::Float8E5m2fnuz,
            "F8_E8M0" => Self::Float8E8m0fnu,
            "F16" => Self::Float16,
            "BF16" => Self::Bfloat16,
            "F32" => Self::Float32,
            "F64" => Self::Float64,
            "C64" => return Some(DataType { element: Self::Float32, complex: true }),
            _ => return None,
        };
        Some(DataType { element, complex: false })
    }

    /// Widens as many elements as `out` holds; `bytes` has exactly that many.
    #[inline(always)]
    pub(super) fn widen(self, bytes: &[u8], out: &mut [f64]) {
        match self {
            Self::Float64 => each(bytes, out, f64::from_le_bytes),
            Self::Float32 => each(bytes, out, |b| f64::from(f32::from_le_bytes(b))),
            Self::Bfloat16 => each(bytes, out, |b: [u8; 2]| {
                f64::from(f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16))
            }),
            Self::Float16 => {
                each(bytes, out, |b| f64::from(widen_half(u16::from_le_bytes(b))));
            }
            Self::Float8E4m3fn
            | Self::Float8E5m2
            | Self::Float8E4m3fnuz
            | Self::Float8E5m2fnuz
            | Self::Float8E8m0fnu => {
                let table = float8::values(self);
                each(bytes, out, |[b]: [u8; 1]| table[usize::from(b)]);
            }
            Self::Int64 => each(bytes, out, |b| widen_i64(i64::from_le_bytes(b))),
            Self::Uint64 => each(bytes, out, |b| widen_u64(u64::from_le_bytes(b))),
            Self::Int32 => each(bytes, out, |b| f64::from(i32::from_le_bytes(b))),
            Self::Uint32 => each(bytes, out, |b| f64::from(u32::from_le_bytes(b))),
            Self::Int16 => each(bytes, out, |b| f64::from(i16::from_le_bytes(b))),
            Self::Uint16 => each(bytes, out, |b| f64::from(u16::from_le_bytes(b))),
            Self::Int8 => each(bytes, out, |b| f64::from(i8::from_le_bytes(b))),
            Self::Uint8 => each(bytes, out, |b| f64::from(u8::from_le_bytes(b))),
            Self::Bool => each(bytes, out, |[b]: [u8; 1]| f64::from(u8::from(b != 0))),
        }
    }

    /// One integer or bool, exactly; `bytes` begins with it. Floats have no integer.
    pub(super) fn integer(self, bytes: &[u8]) -> Option<i128> {
        Some(match self {
            Self::Int64 => i128::from(i64::from_le_bytes(*bytes.first_chunk()?)),
            Self::Uint64 => i128::from(u64::from_le_bytes(*bytes.first_chunk()?)),
            Self::Int32 => i128::from(i32::from_le_bytes(*bytes.first_chunk()?)),
            Self::Uint32 => i128::from(u32::from_le_bytes(*bytes.first_chunk()?)),
            Self::Int16 => i128::from(i16::from_le_bytes(*bytes.first_chunk()?)),
            Self::Uint16 => i128::from(u16::from_le_bytes(*bytes.first_chunk()?)),
            Self::Int8 => i128::from(i8::from_le_bytes(*bytes.first_chunk()?)),
            Self::Uint8 => i128::from(*bytes.first()?),
            Self::Bool => i128::from(*bytes.first()? != 0),
            Self::Float64
            | Self::Float32
            | Self::Bfloat16
            | Self::Float16
            | Self::Float8E4m3fn
            | Self::Float8E5m2
            | Self::Float8E4m3fnuz
            | Self::Float8E5m2fnuz
            | Self::Float8E8m0fnu => return None,
        })
    }

    /// The smallest magnitude that rounds to infinity in this type, where it has infinities: half
    /// a step above its largest finite number.
    pub(super) fn overflows_from(self) -> Option<f64> {
        match self {
            Self::Float32 => Some(f64::from(f32::MAX) + 2f64.powi(127 - 24)),
            Self::Bfloat16 => Some(f64::from_bits(0x47ef_f000_0000_0000)),
            Self::Float16 => Some(65_520.0),
            Self::Float8E5m2 => Some(61_440.0),
            Self::Float64
            | Self::Float8E4m3fn
            | Self::Float8E4m3fnuz
            | Self::Float8E5m2fnuz
            | Self::Float8E8m0fnu
            | Self::Int64
            | Self::Int32
            | Self::Int16
            | Self::Int8
            | Self::Uint64
            | Self::Uint32
            | Self::Uint16
            | Self::Uint8
            | Self::Bool => None,
        }
    }

    /// The smallest normal number; 0 for types without subnormal numbers.
    pub(super) fn smallest_normal(self) -> f64 {
        match self {
            Self::Float64 => f64::MIN_POSITIVE,
            Self::Float32 | Self::Bfloat16 => f64::from(f32::MIN_POSITIVE),
            Self::Float16 | Self::Float8E5m2 => 2f64.powi(-14),
            Self::Float8E5m2fnuz => 2f64.powi(-15),
            Self::Float8E4m3fn => 2f64.powi(-6),
            Self::Float8E4m3fnuz => 2f64.powi(-7),
            Self::Float8E8m0fnu
            | Self::Int64
            | Self::Int32
            | Self::Int16
            | Self::Int8
            | Self::Uint64
            | Self::Uint32
            | Self::Uint16
            | Self::Uint8
            | Self::Bool => 0.0,
        }
    }
}

/// The types that widen to float32 without loss and are common enough to be worth it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Narrow {
    Float32,
    Bfloat16,
    Float16,
}

impl Narrow {
    /// The one that an element is.
    pub(super) fn from_element(element: Element) -> Option<Self> {
        [
            (Element::Float32, Self::Float32),
            (Element::Bfloat16, Self::Bfloat16),
            (Element::Float16, Self::Float16),
        ]
        .into_iter()
        .find_map(|(known, narrow)| (known == element).then_some(narrow))
    }

    /// Widens as many elements as `out` holds; `bytes` has exactly that many.
    #[inline(always)]
    pub(super) fn widen(self, bytes: &[u8], out: &mut [f32]) {
        match self {
            Self::Float32 => each(bytes, out, f32::from_le_bytes),
            Self::Bfloat16 => each(bytes, out, |b: [u8; 2]| {
                f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16)
            }),
            Self::Float16 => each(bytes, out, |b| widen_half(u16::from_le_bytes(b))),
        }
    }
}

/// A real or complex element type, as a leaf names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct DataType {
    /// The element, or the part of a complex one.
    pub(super) element: Element,
    /// Whether elements are pairs of it.
    pub(super) complex: bool,
}

impl DataType {
    /// Reads PyTorch's name, with or without `torch.` in front.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        let name = name.strip_prefix("torch.").unwrap_or(name);
        let complex = |element| Some(Self { element, complex: true });
        match name {
            "complex128" => complex(Element::Float64),
            "complex64" => complex(Element::Float32),
            "complex32" => complex(Element::Float16),
            _ => ELEMENTS
                .iter()
                .find(|row| row.1 == name)
                .map(|row| Self { element: row.0, complex: false }),
        }
    }

    /// PyTorch's name.
    pub(super) fn name(self) -> &'static str {
        match (self.complex, self.element) {
            (true, Element::Float64) => "complex128",
            (true, Element::Float16) => "complex32",
            (true, _) => "complex64",
            (false, element) => element.name(),
        }
    }
}

#[inline(always)]
pub(super) fn each<const SIZE: usize, T>(
    bytes: &[u8],
    out: &mut [T],
    read: impl Fn([u8; SIZE]) -> T,
) {
    let (chunks, _) = bytes.as_chunks::<SIZE>();
    for (out, chunk) in out.iter_mut().zip(chunks) {
        *out = read(*chunk);
    }
}

/// Widens a half by integer operations only, which the compiler turns into vector code everywhere;
/// the conversion of the `half` crate goes through a feature test per element.
#[inline(always)]
fn widen_half(bits: u16) -> f32 {
    let bits = u32::from(bits);
    let sign = (bits & 0x8000) << 16;
    let magnitude = (bits & 0x7fff) << 13;
    // Multiplying by 2^112 moves the exponent's bias and normalises subnormals in one step.
    let scaled = f32::from_bits(magnitude) * f32::from_bits(0x7780_0000);
    let special = if magnitude >= 0x0f80_0000 { magnitude | 0x7f80_0000 } else { scaled.to_bits() };
    f32::from_bits(special | sign)
}

#[expect(clippy::cast_precision_loss, reason = "only figures are made of it, never a verdict")]
fn widen_i64(value: i64) -> f64 {
    value as f64
}

#[expect(clippy::cast_precision_loss, reason = "only figures are made of it, never a verdict")]
fn widen_u64(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;

    #[test]
    fn every_half_widens_as_the_half_crate_says() {
        for bits in 0..=u16::MAX {
            let (ours, theirs) = (widen_half(bits), f16::from_bits(bits).to_f32());
            assert!(ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan());
        }
    }

    /// The names are those of the safetensors library, whose sizes must agree with ours.
    #[test]
    fn stored_names_are_those_of_the_format() {
        use safetensors::Dtype as Stored;
        let mut known = 0;
        for stored in [
            Stored::BOOL,
            Stored::U8,
            Stored::I8,
            Stored::U16,
            Stored::I16,
            Stored::U32,
            Stored::I32,
            Stored::U64,
            Stored::I64,
            Stored::F8_E4M3,
            Stored::F8_E5M2,
            Stored::F8_E4M3FNUZ,
            Stored::F8_E5M2FNUZ,
            Stored::F8_E8M0,
            Stored::F16,
            Stored::BF16,
            Stored::F32,
            Stored::F64,
            Stored::C64,
        ] {
            let name = serde_json::to_value(stored).unwrap();
            let data_type = Element::from_stored(name.as_str().unwrap()).unwrap();
            let bits = data_type.element.size() * 8 * (1 + usize::from(data_type.complex));
            assert_eq!(bits, stored.bitsize(), "{name}");
            known += 1;
        }
        assert_eq!(known, ELEMENTS.len() + 1, "all elements, and one complex type");
    }

    #[test]
    fn every_name_is_read_back_as_itself() {
        for (element, name, ..) in ELEMENTS {
            let data_type = DataType::from_name(&format!("torch.{name}")).unwrap();
            assert_eq!(data_type, DataType { element: *element, complex: false });
            assert_eq!(data_type.name(), *name);
        }
        for name in ["complex32", "complex64", "complex128"] {
            assert_eq!(DataType::from_name(name).unwrap().name(), name);
        }
        assert_eq!(DataType::from_name("quint8"), None);
    }
}
