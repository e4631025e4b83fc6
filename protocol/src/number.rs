//! The agreed spelling of numbers that JSON cannot write.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A figure that may be non-finite. On the wire a finite value is a JSON number and the others are
/// the texts `"nan"`, `"inf"` and `"-inf"`; a bare `NaN` token is not JSON and is refused.
#[derive(Debug, Clone, Copy, Default)]
pub struct Number(pub f64);

impl PartialEq for Number {
    /// Bit equality but for NaN payloads, so that a replayed message equals itself.
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits() || (self.0.is_nan() && other.0.is_nan())
    }
}

impl Eq for Number {}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        Self(value)
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = self.0;
        if value == 0.0 || (1e-3..1e6).contains(&value.abs()) || !value.is_finite() {
            write!(f, "{value}")
        } else {
            write!(f, "{value:.3e}")
        }
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_finite() {
            serializer.serialize_f64(self.0)
        } else if self.0.is_nan() {
            serializer.serialize_str("nan")
        } else if self.0 > 0.0 {
            serializer.serialize_str("inf")
        } else {
            serializer.serialize_str("-inf")
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Number;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a finite number, \"nan\", \"inf\" or \"-inf\"")
            }
            fn visit_f64<E>(self, value: f64) -> Result<Number, E> {
                Ok(Number(value))
            }
            #[expect(clippy::cast_precision_loss, reason = "a figure, not an identifier")]
            fn visit_i64<E>(self, value: i64) -> Result<Number, E> {
                Ok(Number(value as f64))
            }
            #[expect(clippy::cast_precision_loss, reason = "a figure, not an identifier")]
            fn visit_u64<E>(self, value: u64) -> Result<Number, E> {
                Ok(Number(value as f64))
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Number, E> {
                match text {
                    "nan" => Ok(Number(f64::NAN)),
                    "inf" => Ok(Number(f64::INFINITY)),
                    "-inf" => Ok(Number(f64::NEG_INFINITY)),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                }
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(feature = "schema")]
impl utoipa::PartialSchema for Number {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Type};
        let words = ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(["nan", "inf", "-inf"]));
        OneOfBuilder::new()
            .item(ObjectBuilder::new().schema_type(Type::Number))
            .item(words)
            .description(Some("A number; one that is not finite is a word"))
            .into()
    }
}

#[cfg(feature = "schema")]
impl utoipa::ToSchema for Number {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_finite_numbers_survive_the_wire() {
        for (value, text) in [
            (f64::NAN, "\"nan\""),
            (f64::INFINITY, "\"inf\""),
            (f64::NEG_INFINITY, "\"-inf\""),
            (-0.0, "-0.0"),
            (1.5, "1.5"),
        ] {
            let number = Number(value);
            assert_eq!(serde_json::to_string(&number).unwrap(), text);
            assert_eq!(serde_json::from_str::<Number>(text).unwrap(), number);
        }
    }

    #[test]
    fn a_bare_nan_or_another_word_is_refused_and_never_becomes_null() {
        for text in ["NaN", "Infinity", "\"NaN\"", "null", "true"] {
            assert!(serde_json::from_str::<Number>(text).is_err(), "{text}");
        }
    }
}
