//! [`HttpCounters`]: what a plugin sends over `wasi:http`, by result, and how many bytes of bodies that moves. Part of
//! [`PluginMetrics`].

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use pilothouse_engine::{HttpObserver, HttpResult};

use super::atomics::AtomicCounter;
use super::of_plugin::PluginMetrics;
use super::scraped::{Figure, Value};

pub(super) static REQUESTS: [Figure<u64>; 1] = [Figure {
    name: "pilothouse_guest_http_requests",
    help: "HTTP requests of plugins by class of the status, denied by the manifest, or failed without a response",
    value: Value::Counter(|count| *count),
}];

/// Of bytes that were sent and received.
pub(super) static MOVED: [Figure<(u64, u64)>; 2] = [
    Figure {
        name: "pilothouse_guest_http_sent_bytes",
        help: "Bytes of request bodies of plugins whose request got a response",
        value: Value::Counter(|(sent, _)| *sent),
    },
    Figure {
        name: "pilothouse_guest_http_received_bytes",
        help: "Bytes of response bodies that plugins read",
        value: Value::Counter(|(_, received)| *received),
    },
];

/// What one plugin sends. Its series appear with its first request: most plugins make none.
#[derive(Debug, Default)]
pub(super) struct HttpCounters {
    /// In the order of [`RESULTS`].
    requests: [AtomicCounter; RESULTS.len()],
    sent: AtomicCounter,
    received: AtomicCounter,
    has_moved: AtomicBool,
}

const RESULTS: [&str; 8] = ["1xx", "2xx", "3xx", "4xx", "5xx", "denied", "error", "other"];

/// The place of a result in [`RESULTS`].
fn place(result: HttpResult) -> usize {
    match result {
        HttpResult::Status(status @ 100..=599) => usize::from(status / 100) - 1,
        HttpResult::Denied => 5,
        HttpResult::Error => 6,
        HttpResult::Status(_) => 7,
    }
}

impl HttpCounters {
    /// The results that there were.
    pub(super) fn by_result(&self) -> Vec<(&'static str, u64)> {
        let counts = RESULTS.into_iter().zip(self.requests.iter().map(AtomicCounter::get));
        counts.filter(|(_, count)| *count > 0).collect()
    }

    /// Bytes that were sent and received; none before the first exchange.
    pub(super) fn moved(&self) -> Option<(u64, u64)> {
        self.has_moved.load(Relaxed).then(|| (self.sent.get(), self.received.get()))
    }
}

impl HttpObserver for PluginMetrics {
    fn request(&self, result: HttpResult) {
        self.http.requests[place(result)].inc();
    }

    fn moved(&self, sent: u64, received: u64) {
        self.http.sent.inc_by(sent);
        self.http.received.inc_by(received);
        self.http.has_moved.store(true, Relaxed);
    }

    fn worked(&self, time: Duration) {
        self.host_time.add_elsewhere(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_result_has_a_word() {
        for (result, word) in [
            (HttpResult::Status(100), "1xx"),
            (HttpResult::Status(503), "5xx"),
            (HttpResult::Status(99), "other"),
            (HttpResult::Status(600), "other"),
            (HttpResult::Denied, "denied"),
            (HttpResult::Error, "error"),
        ] {
            assert_eq!(RESULTS[place(result)], word, "{result:?}");
        }
        for status in 0..=u16::MAX {
            assert!(place(HttpResult::Status(status)) < RESULTS.len());
        }
    }
}
