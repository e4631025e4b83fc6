//! One macro: an enum whose text form is written once.
//!
//! Hand-kept `Display`/`FromStr` pairs drift apart; here one table gives both, the serde form, and
//! the list of all variants that tests walk over.

/// A text that is none of the words of an enum.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {noun} `{text}`: it must be one of {allowed}")]
pub struct UnknownWord {
    /// What was being read, for example `outcome`.
    pub noun: &'static str,
    /// The text that was found.
    pub text: String,
    /// The words that would have been understood, comma separated.
    pub allowed: String,
}

/// Declares an enum with exactly one text per variant.
#[macro_export]
macro_rules! words {
    ($(#[$meta:meta])* $name:ident as $noun:literal { $($(#[$vmeta:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$vmeta])* $variant,)+ }

        impl $name {
            /// Every variant, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The one text form, used on the wire, in the database and on pages.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::UnknownWord;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($text => Ok(Self::$variant),)+
                    _ => Err($crate::UnknownWord {
                        noun: $noun,
                        text: text.chars().take(80).collect(),
                        allowed: Self::ALL.iter().map(|w| w.as_str()).collect::<Vec<_>>().join(", "),
                    }),
                }
            }
        }

        $crate::words_schema!($name, $noun);

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

/// The schema of such an enum, for documents about an API.
#[cfg(feature = "schema")]
#[doc(hidden)]
#[macro_export]
macro_rules! words_schema {
    ($name:ident, $noun:literal) => {
        impl $crate::utoipa::PartialSchema for $name {
            fn schema() -> $crate::utoipa::openapi::RefOr<$crate::utoipa::openapi::schema::Schema> {
                $crate::utoipa::openapi::schema::ObjectBuilder::new()
                    .schema_type($crate::utoipa::openapi::schema::Type::String)
                    .enum_values(Some(Self::ALL.iter().map(|word| word.as_str())))
                    .description(Some($noun))
                    .into()
            }
        }

        impl $crate::utoipa::ToSchema for $name {}
    };
}

/// Nothing, where nobody documents an API.
#[cfg(not(feature = "schema"))]
#[doc(hidden)]
#[macro_export]
macro_rules! words_schema {
    ($name:ident, $noun:literal) => {};
}
