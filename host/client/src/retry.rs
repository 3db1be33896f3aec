//! [`RetryPolicy`]: which answers are asked for again, and when.
//!
//! Only what the server itself asks to be sent again: 429 with `Retry-After`, which servers answer before they process a
//! request, and 503 with it to an idempotent verb. A call without a response is never sent again: it may have been
//! processed. `client` calls this.

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, Method, StatusCode};

/// Added to what the server asks for, at least up to this: those who were turned away together must not return together.
const LEAST_JITTER: Duration = Duration::from_millis(100);

/// How often and how long a call waits for a server that asks to come again.
///
/// Applies to responses with a `Retry-After` header, not to watches: 429 to any verb, and 503 to `GET`, `HEAD`, `OPTIONS`,
/// `PUT` and `DELETE`.
/// All of a call, waits and retries together, stays within its timeout, and ends when its future is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Times that a call is sent again; 0 is never.
    pub max_retries: u32,
    /// A server that asks for a longer wait has its answer returned at once.
    pub max_wait: Duration,
}

impl Default for RetryPolicy {
    /// Ten retries, as client-go, each after at most 30 s.
    fn default() -> Self {
        Self { max_retries: 10, max_wait: Duration::from_secs(30) }
    }
}

impl RetryPolicy {
    /// Each answer is returned as it is.
    #[must_use]
    pub const fn none() -> Self {
        Self { max_retries: 0, max_wait: Duration::ZERO }
    }

    /// How long to wait before retry number `retry`, counted from 0; `None` when the answer is final.
    pub(crate) fn wait(
        &self,
        retry: u32,
        method: &Method,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Option<Duration> {
        let unprocessed = status == StatusCode::TOO_MANY_REQUESTS
            || (status == StatusCode::SERVICE_UNAVAILABLE && method.is_idempotent());
        if retry >= self.max_retries || !unprocessed {
            return None;
        }
        let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
        let wait = Duration::from_secs(seconds);
        if wait > self.max_wait {
            return None;
        }
        let jitter = (wait / 4).max(LEAST_JITTER);
        wait.checked_add(jitter.mul_f64(rand::random()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(seconds: &str) -> HeaderMap {
        HeaderMap::from_iter([(RETRY_AFTER, seconds.parse().unwrap())])
    }

    #[test]
    fn only_what_the_server_asks_for_is_sent_again() {
        let policy = RetryPolicy { max_retries: 2, max_wait: Duration::from_secs(8) };
        let wait = |retry, method, status, headers: &HeaderMap| {
            policy.wait(retry, &method, StatusCode::from_u16(status).unwrap(), headers)
        };
        let good = [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT, Method::DELETE];
        for (method, status) in good.into_iter().flat_map(|method| [429, 503].map(|s| (method.clone(), s))) {
            assert!(wait(1, method.clone(), status, &asks("8")).is_some(), "{method} {status}");
            assert_eq!(wait(2, method.clone(), status, &asks("8")), None, "{method}: too often");
            assert_eq!(wait(0, method.clone(), status, &asks("9")), None, "{method}: too long");
            assert_eq!(wait(0, method.clone(), status, &asks("soon")), None, "{method}: not a number");
            assert_eq!(wait(0, method.clone(), status, &HeaderMap::new()), None, "{method}: not asked");
        }
        for method in [Method::POST, Method::PATCH] {
            assert!(wait(0, method.clone(), 429, &asks("1")).is_some(), "{method}");
            assert_eq!(wait(0, method.clone(), 503, &asks("1")), None, "{method} might be done twice");
        }
        for status in [200, 404, 409, 410, 500, 502, 504] {
            assert_eq!(wait(0, Method::GET, status, &asks("1")), None, "{status}");
        }
    }

    #[test]
    fn nobody_returns_before_the_time_nor_all_at_once() {
        let policy = RetryPolicy::default();
        let waits = |seconds: &str| -> Vec<Duration> {
            let headers = asks(seconds);
            let wait = || policy.wait(0, &Method::GET, StatusCode::TOO_MANY_REQUESTS, &headers).unwrap();
            (0..200).map(|_| wait()).collect()
        };
        for (seconds, least, most) in [("0", 0, 100), ("1", 1000, 1250), ("20", 20_000, 25_000)] {
            let waits = waits(seconds);
            let (first, last) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
            assert!(*first >= Duration::from_millis(least) && *last <= Duration::from_millis(most));
            assert!(
                *last - *first > Duration::from_millis((most - least) / 2),
                "{seconds}: {first:?}..{last:?}"
            );
        }
    }
}
