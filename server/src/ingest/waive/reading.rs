//! Fields that TOML writes otherwise than JSON, or that may be one word instead of a list.

use std::fmt;
use std::marker::PhantomData;

use chrono::NaiveDate;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{
    Deserialize, Deserializer, Error, IntoDeserializer as _, MapAccess, SeqAccess, Visitor,
};

/// A day: `2027-03-01`, as text or as the date of TOML.
pub(super) fn day<'de, D: Deserializer<'de>>(deserializer: D) -> Result<NaiveDate, D::Error> {
    struct Day;

    impl<'de> Visitor<'de> for Day {
        type Value = NaiveDate;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a day, as in 2027-03-01")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<NaiveDate, E> {
            text.parse().map_err(|_| E::invalid_value(serde::de::Unexpected::Str(text), &self))
        }

        /// How `toml` hands on a date.
        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<NaiveDate, A::Error> {
            let date = toml::value::Datetime::deserialize(MapAccessDeserializer::new(map))?;
            self.visit_str(&date.to_string())
        }
    }

    deserializer.deserialize_any(Day)
}

/// One word, or a list with something in it: an empty one would read as "nowhere" and mean
/// "everywhere".
pub(super) fn one_or_more<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct OneOrMore<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrMore<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a word, or a list of words")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Vec<T>, E> {
            Ok(vec![T::deserialize(text.into_deserializer())?])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Vec<T>, A::Error> {
            let words: Vec<T> = Vec::deserialize(SeqAccessDeserializer::new(items))?;
            if words.is_empty() {
                return Err(A::Error::custom("the list is empty: leave it out, or name one"));
            }
            Ok(words)
        }
    }

    deserializer.deserialize_any(OneOrMore(PhantomData))
}
