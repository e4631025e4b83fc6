//! The one source of the present time, so that tests can choose it.

use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};

/// Tells the time. Cheap to clone.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> DateTime<Utc> + Send + Sync>);

impl Clock {
    /// The machine's clock.
    #[must_use]
    pub fn system() -> Self {
        Self(Arc::new(Utc::now))
    }

    /// A clock that a test drives.
    #[must_use]
    pub fn from_fn(now: impl Fn() -> DateTime<Utc> + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The present time.
    #[must_use]
    pub fn now(&self) -> DateTime<Utc> {
        (self.0)()
    }

    /// The present day, in UTC.
    #[must_use]
    pub fn today(&self) -> NaiveDate {
        self.now().date_naive()
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}
