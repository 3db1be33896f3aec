//! [`RestMetrics`]: the requests of the host's client under client-go's names. The client calls it as its observer.

use std::time::Duration;

use pilothouse_client::{ObservedRequest, RequestObserver};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// How a histogram is divided.
#[derive(Clone, Copy)]
struct Buckets(&'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

/// Seconds; client-go's buckets.
const SECONDS: Buckets = Buckets(&[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0]);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answer {
    code: String,
    method: String,
    host: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Retry {
    code: u16,
    verb: String,
    host: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Verb {
    verb: String,
    host: String,
}

/// Requests of a client.
pub(crate) struct RestMetrics {
    requests: Family<Answer, Counter>,
    retries: Family<Retry, Counter>,
    duration: Family<Verb, Histogram, Buckets>,
    rate_limiter: Family<Verb, Histogram, Buckets>,
}

impl RestMetrics {
    pub(crate) fn register(r: &mut Registry) -> Self {
        let histogram = || Family::new_with_constructor(SECONDS);
        let metrics = Self {
            requests: Family::default(),
            retries: Family::default(),
            duration: histogram(),
            rate_limiter: histogram(),
        };
        r.register("rest_client_requests", "Requests to the API server", metrics.requests.clone());
        r.register(
            "rest_client_request_retries",
            "Requests whose answer asked to come again",
            metrics.retries.clone(),
        );
        r.register_with_unit(
            "rest_client_request_duration",
            "Time from sending a request to the head of its answer",
            Unit::Seconds,
            metrics.duration.clone(),
        );
        r.register_with_unit(
            "rest_client_rate_limiter_duration",
            "Time that a request waited for its turn of the client's own rate limits",
            Unit::Seconds,
            metrics.rate_limiter.clone(),
        );
        metrics
    }
}

fn verb(method: &str, host: &str) -> Verb {
    Verb { verb: method.to_owned(), host: host.to_owned() }
}

impl RequestObserver for RestMetrics {
    fn request(&self, request: &ObservedRequest<'_>) {
        let answer = Answer {
            // client-go's word for a request that got no answer.
            code: request.code.map_or_else(|| "<error>".to_owned(), |code| code.to_string()),
            method: request.method.to_owned(),
            host: request.host.to_owned(),
        };
        self.requests.get_or_create(&answer).inc();
        if !request.watch {
            let verb = verb(request.method, request.host);
            self.duration.get_or_create(&verb).observe(request.duration.as_secs_f64());
        }
    }

    fn rate_limited(&self, method: &str, host: &str, waited: Duration) {
        self.rate_limiter.get_or_create(&verb(method, host)).observe(waited.as_secs_f64());
    }

    fn retried(&self, method: &str, host: &str, code: u16) {
        let retry = Retry { code, verb: method.to_owned(), host: host.to_owned() };
        self.retries.get_or_create(&retry).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_names_dashboards_know() {
        let mut registry = Registry::default();
        let metrics = RestMetrics::register(&mut registry);
        metrics.rate_limited("GET", "h:1", Duration::from_millis(300));
        metrics.retried("PUT", "h:1", 429);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "rest_client_rate_limiter_duration_seconds_bucket{le=\"0.25\",verb=\"GET\",host=\"h:1\"} 0",
            "rest_client_rate_limiter_duration_seconds_bucket{le=\"0.5\",verb=\"GET\",host=\"h:1\"} 1",
            "rest_client_request_retries_total{code=\"429\",verb=\"PUT\",host=\"h:1\"} 1",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
