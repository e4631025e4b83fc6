//! How many requests each token may make, and how many unknown tokens each address may try: buckets
//! that refill steadily, and 429 with the time to come back when one is empty.

use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;

use axum::extract::ConnectInfo;
use axum::http::{HeaderName, request};
use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use crate::error::Error;

/// Addresses remembered before those are forgotten whose buckets are full again.
const MANY_ADDRESSES: usize = 10_000;

/// One bucket for each key.
struct Buckets<K: Clone + Eq + Hash> {
    limiter: DefaultKeyedRateLimiter<K>,
    clock: DefaultClock,
}

impl<K: Clone + Eq + Hash> Buckets<K> {
    fn new(per_minute: NonZeroU32) -> Self {
        let limiter = RateLimiter::keyed(Quota::per_minute(per_minute));
        Self { limiter, clock: DefaultClock::default() }
    }

    /// Takes one out of the bucket; from an empty one there is nothing for so many seconds.
    fn take(&self, key: &K) -> Result<(), u64> {
        self.limiter
            .check_key(key)
            .map_err(|until| until.wait_time_from(self.clock.now()).as_secs() + 1)
    }
}

impl<K: Clone + Eq + Hash> std::fmt::Debug for Buckets<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buckets").finish_non_exhaustive()
    }
}

/// One bucket per token.
#[derive(Debug)]
pub struct TokenRate(Buckets<i64>);

impl TokenRate {
    /// Every token may make so many requests in a minute, all at once or spread.
    #[must_use]
    pub fn new(per_minute: NonZeroU32) -> Self {
        Self(Buckets::new(per_minute))
    }

    /// Takes one request out of the token's bucket.
    pub fn take(&self, token_id: i64, name: &str) -> Result<(), Error> {
        self.0
            .take(&token_id)
            .map_err(|retry_after_secs| Error::TooMany { token: name.to_owned(), retry_after_secs })
    }
}

/// One bucket per address that sends tokens which nobody has. Only those take from it: whoever
/// shares the address and has a token that is known is not held up.
#[derive(Debug)]
pub struct UnknownRate {
    buckets: Buckets<IpAddr>,
    /// Header in which a proxy says who asks.
    header: Option<HeaderName>,
}

impl UnknownRate {
    /// Every address may try so many in a minute, all at once or spread.
    #[must_use]
    pub fn new(per_minute: NonZeroU32, header: Option<HeaderName>) -> Self {
        Self { buckets: Buckets::new(per_minute), header }
    }

    /// What to answer to an unknown token: 401, or 429 when its address has tried too many.
    #[must_use]
    pub fn refuse(&self, parts: &request::Parts) -> Error {
        if self.buckets.limiter.len() > MANY_ADDRESSES {
            self.buckets.limiter.retain_recent();
        }
        match self.buckets.take(&self.address(parts)) {
            Ok(()) => Error::Unauthorized("the token is unknown or revoked"),
            Err(retry_after_secs) => Error::TooManyUnknown { retry_after_secs },
        }
    }

    fn address(&self, parts: &request::Parts) -> IpAddr {
        // The proxy adds what it has seen at the end; what stands before it is the sender's word.
        let told = self.header.as_ref().and_then(|name| {
            let last = parts.headers.get_all(name).iter().next_back()?;
            last.to_str().ok()?.rsplit(',').next()?.trim().parse().ok()
        });
        let connected = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        let address = told.or_else(|| connected.map(|ConnectInfo(address)| address.ip()));
        network_of(address.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED)))
    }
}

/// One host has a whole /64 of version 6, so that is what counts as an address.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(connected: &str, told: &[&str], header: Option<&'static str>) -> String {
        let mut builder = axum::http::Request::builder();
        for value in told {
            builder = builder.header("x-forwarded-for", *value);
        }
        let (mut parts, ()) = builder.body(()).unwrap().into_parts();
        let connected = SocketAddr::new(connected.parse().unwrap(), 5);
        parts.extensions.insert(ConnectInfo(connected));
        let one = NonZeroU32::new(1).unwrap();
        UnknownRate::new(one, header.map(HeaderName::from_static)).address(&parts).to_string()
    }

    #[test]
    fn the_last_address_counts_that_a_trusted_proxy_tells() {
        const HEADER: Option<&str> = Some("x-forwarded-for");
        for (connected, told, header, found) in [
            ("192.0.2.1", &[][..], None, "192.0.2.1"),
            ("192.0.2.1", &["198.51.100.7"][..], None, "192.0.2.1"),
            ("192.0.2.1", &["198.51.100.7"][..], HEADER, "198.51.100.7"),
            ("192.0.2.1", &["1.1.1.1, 198.51.100.7"][..], HEADER, "198.51.100.7"),
            ("192.0.2.1", &["1.1.1.1", "198.51.100.7"][..], HEADER, "198.51.100.7"),
            ("192.0.2.1", &["unknown"][..], HEADER, "192.0.2.1"),
            ("::ffff:192.0.2.1", &[][..], None, "192.0.2.1"),
            ("2001:db8:1:2:3:4:5:6", &[][..], None, "2001:db8:1:2::"),
        ] {
            assert_eq!(from(connected, told, header), found, "{connected} {told:?}");
        }
    }
}
