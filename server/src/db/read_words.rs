//! Columns that hold a word of a protocol enum, read as that enum.
//!
//! The tables have a CHECK with the same words, so a row that cannot be read is a mistake of ours
//! and fails the query rather than being shown as something else.

use std::fmt::Display;
use std::str::FromStr;

use sqlx::error::BoxDynError;
use sqlx::postgres::{PgTypeInfo, PgValueRef};
use sqlx::{Decode, Postgres, Type};

/// A word read from a text column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word<T>(pub T);

impl<T> Type<Postgres> for Word<T> {
    fn type_info() -> PgTypeInfo {
        <String as Type<Postgres>>::type_info()
    }

    fn compatible(ty: &PgTypeInfo) -> bool {
        <String as Type<Postgres>>::compatible(ty)
    }
}

impl<'r, T> Decode<'r, Postgres> for Word<T>
where
    T: FromStr,
    T::Err: Display,
{
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        let text = <&str as Decode<Postgres>>::decode(value)?;
        text.parse().map(Self).map_err(|error: T::Err| error.to_string().into())
    }
}
