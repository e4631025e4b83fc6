//! Rows in the binary format of COPY, for what comes in by the thousand. Nothing checks such a
//! statement when it is compiled, so that each stands beside its columns, and every test of ingest
//! executes it.

use chrono::{DateTime, NaiveDate, Utc};
use sqlx::PgConnection;

/// What every copy begins with: a mark, no flags, no extension.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// PostgreSQL counts days and microseconds from here, in days after year 1.
const EPOCH_DAYS: i32 = 730_120;
/// The same in microseconds after 1970.
const EPOCH_MICROSECONDS: i64 = 946_684_800_000_000;

/// Rows that are ready to be sent, column by column in the order of the statement.
#[derive(Debug)]
pub(super) struct Rows {
    bytes: Vec<u8>,
    columns: i16,
}

impl Rows {
    /// No rows yet, of so many columns.
    pub(super) fn new(columns: i16) -> Self {
        Self { bytes: HEADER.to_vec(), columns }
    }

    /// Begins a row; its columns follow.
    pub(super) fn begin(&mut self) -> &mut Self {
        self.bytes.extend(self.columns.to_be_bytes());
        self
    }

    fn value(&mut self, bytes: &[u8]) -> &mut Self {
        let length = i32::try_from(bytes.len()).expect("a request is far smaller than 2 GiB");
        self.bytes.extend(length.to_be_bytes());
        self.bytes.extend_from_slice(bytes);
        self
    }

    fn nothing(&mut self) -> &mut Self {
        self.bytes.extend((-1_i32).to_be_bytes());
        self
    }

    pub(super) fn small(&mut self, value: i16) -> &mut Self {
        self.value(&value.to_be_bytes())
    }

    pub(super) fn integer(&mut self, value: i32) -> &mut Self {
        self.value(&value.to_be_bytes())
    }

    pub(super) fn big(&mut self, value: i64) -> &mut Self {
        self.value(&value.to_be_bytes())
    }

    pub(super) fn maybe_big(&mut self, value: Option<i64>) -> &mut Self {
        match value {
            Some(value) => self.big(value),
            None => self.nothing(),
        }
    }

    pub(super) fn double(&mut self, value: f64) -> &mut Self {
        self.value(&value.to_be_bytes())
    }

    pub(super) fn boolean(&mut self, value: bool) -> &mut Self {
        self.value(&[u8::from(value)])
    }

    pub(super) fn text(&mut self, value: &str) -> &mut Self {
        self.value(value.as_bytes())
    }

    pub(super) fn maybe_text(&mut self, value: Option<&str>) -> &mut Self {
        match value {
            Some(value) => self.text(value),
            None => self.nothing(),
        }
    }

    pub(super) fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.value(value)
    }

    pub(super) fn day(&mut self, value: NaiveDate) -> &mut Self {
        use chrono::Datelike as _;
        self.integer(value.num_days_from_ce() - EPOCH_DAYS)
    }

    pub(super) fn time(&mut self, value: DateTime<Utc>) -> &mut Self {
        self.big(value.timestamp_micros() - EPOCH_MICROSECONDS)
    }

    /// Sends them with a `COPY … FROM STDIN (FORMAT binary)`; answers how many were stored.
    pub(super) async fn send(
        mut self,
        connection: &mut PgConnection,
        statement: &'static str,
    ) -> sqlx::Result<u64> {
        self.bytes.extend((-1_i16).to_be_bytes());
        let mut copy = connection.copy_in_raw(statement).await?;
        copy.send(self.bytes).await?;
        copy.finish().await
    }
}

#[cfg(test)]
mod tests {
    use chrono::Datelike as _;

    use super::*;

    #[test]
    fn the_epoch_is_the_first_of_january_2000() {
        let day = NaiveDate::from_ymd_opt(2000, 1, 1).unwrap();
        assert_eq!(day.num_days_from_ce(), EPOCH_DAYS);
        let midnight = day.and_hms_opt(0, 0, 0).unwrap().and_utc();
        assert_eq!(midnight.timestamp_micros(), EPOCH_MICROSECONDS);
        assert_eq!(HEADER.len(), 19);
    }
}
