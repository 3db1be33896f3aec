//! [`HttpMetrics`]: what plugins send over `wasi:http`, by result, and how many bytes of bodies that moves. Part of
//! [`Metrics`](crate::observe::metrics::Metrics).

use std::time::Duration;

use pilothouse_engine::{HttpObserver, HttpResult};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use super::cpu::HostTime;
use super::families::PluginFamilies;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PluginResult {
    plugin: String,
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Plugin {
    plugin: String,
}

/// What all plugins send.
#[derive(Debug)]
pub(crate) struct HttpMetrics {
    requests: Family<PluginResult, Counter>,
    sent: Family<Plugin, Counter>,
    received: Family<Plugin, Counter>,
}

/// What one plugin sends. Its series appear with its first request: most plugins make none.
#[derive(Debug, Clone)]
pub(crate) struct PluginHttpMetrics {
    plugin: String,
    host_time: HostTime,
    requests: Family<PluginResult, Counter>,
    sent: Family<Plugin, Counter>,
    received: Family<Plugin, Counter>,
}

const RESULTS: [&str; 8] = ["1xx", "2xx", "3xx", "4xx", "5xx", "denied", "error", "other"];

/// The word for a result.
fn word(result: HttpResult) -> &'static str {
    match result {
        HttpResult::Status(status @ 100..=599) => RESULTS[usize::from(status / 100) - 1],
        HttpResult::Status(_) => "other",
        HttpResult::Denied => "denied",
        HttpResult::Error => "error",
    }
}

impl HttpMetrics {
    pub(crate) fn register(families: &mut PluginFamilies) -> Self {
        fn plugin(name: &str) -> Vec<Plugin> {
            vec![Plugin { plugin: name.to_owned() }]
        }
        fn results(name: &str) -> Vec<PluginResult> {
            RESULTS.map(|result| PluginResult { plugin: name.to_owned(), result }).into()
        }
        Self {
            requests: families.family(
                "pilothouse_guest_http_requests",
                "HTTP requests of plugins by class of the status, denied by the manifest, or failed without a response",
                results,
            ),
            sent: families.family(
                "pilothouse_guest_http_sent_bytes",
                "Bytes of request bodies of plugins whose request got a response",
                plugin,
            ),
            received: families.family(
                "pilothouse_guest_http_received_bytes",
                "Bytes of response bodies that plugins read",
                plugin,
            ),
        }
    }

    pub(crate) fn plugin(&self, name: &str, host_time: HostTime) -> PluginHttpMetrics {
        PluginHttpMetrics {
            plugin: name.to_owned(),
            host_time,
            requests: self.requests.clone(),
            sent: self.sent.clone(),
            received: self.received.clone(),
        }
    }
}

impl HttpObserver for PluginHttpMetrics {
    fn request(&self, result: HttpResult) {
        self.requests
            .get_or_create(&PluginResult { plugin: self.plugin.clone(), result: word(result) })
            .inc();
    }

    fn moved(&self, sent: u64, received: u64) {
        let plugin = Plugin { plugin: self.plugin.clone() };
        self.sent.get_or_create(&plugin).inc_by(sent);
        self.received.get_or_create(&plugin).inc_by(received);
    }

    fn worked(&self, time: Duration) {
        self.host_time.add_elsewhere(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_result_has_a_word_that_is_removed_with_the_plugin() {
        for result in
            [HttpResult::Denied, HttpResult::Error].into_iter().chain((0..1000).map(HttpResult::Status))
        {
            assert!(RESULTS.contains(&word(result)));
        }
        assert_eq!(word(HttpResult::Status(503)), "5xx");
    }
}
