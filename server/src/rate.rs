//! How many requests each token may make: a bucket that refills steadily, and 429 with the time to
//! come back when it is empty.

use std::num::NonZeroU32;

use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use crate::error::Error;

/// One bucket per token.
pub struct TokenRate {
    limiter: DefaultKeyedRateLimiter<i64>,
    clock: DefaultClock,
}

impl std::fmt::Debug for TokenRate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenRate").finish_non_exhaustive()
    }
}

impl TokenRate {
    /// Every token may make so many requests in a minute, all at once or spread.
    #[must_use]
    pub fn new(per_minute: NonZeroU32) -> Self {
        let limiter = RateLimiter::keyed(Quota::per_minute(per_minute));
        Self { limiter, clock: DefaultClock::default() }
    }

    /// Takes one request out of the token's bucket.
    pub fn take(&self, token_id: i64, name: &str) -> Result<(), Error> {
        self.limiter.check_key(&token_id).map_err(|until| {
            let wait = until.wait_time_from(self.clock.now());
            Error::TooMany { token: name.to_owned(), retry_after_secs: wait.as_secs() + 1 }
        })
    }
}
