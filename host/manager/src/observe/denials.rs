//! [`Denials`]: what a plugin was denied: counted, in lines of the log, and as Events of the host.
//!
//! Invariants: each denial is counted; a guest that tries again and again gets a bounded number of lines, and the next one
//! says how many were left out.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use crate::imports::token_bucket::TokenBucket;
use crate::observe::host_events::Reporter;
use crate::observe::metrics::PluginMetrics;

/// Lines at once, and seconds until one more.
const LINES: f64 = 10.0;
const LINE_EVERY: f64 = 6.0;

/// What was denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denied {
    /// A live call.
    Live,
    /// A cached read.
    Cache,
    /// A read that the manifest grants, and that the ServiceAccount may not do.
    Account,
    /// A Kubernetes Event.
    Event,
    /// A request over HTTP.
    Http,
}

impl Denied {
    /// All of them, in the order of the metric's series.
    pub(crate) const ALL: [Self; 5] = [Self::Live, Self::Cache, Self::Account, Self::Event, Self::Http];

    /// The word in the log and in the metric.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Cache => "cache",
            Self::Account => "account",
            Self::Event => "event",
            Self::Http => "http",
        }
    }
}

/// The denials of one plugin.
pub(crate) struct Denials {
    plugin: Arc<str>,
    reporter: Arc<Reporter>,
    metrics: Arc<PluginMetrics>,
    lines: Mutex<Lines>,
}

struct Lines {
    bucket: TokenBucket,
    left_out: u64,
}

impl Lines {
    /// Whether a line may be written, and how many were not since the last.
    fn take(&mut self) -> Option<u64> {
        if self.bucket.take(Instant::now()) {
            return Some(std::mem::take(&mut self.left_out));
        }
        self.left_out += 1;
        None
    }
}

impl Denials {
    pub(crate) fn new(plugin: Arc<str>, reporter: Arc<Reporter>, metrics: Arc<PluginMetrics>) -> Self {
        let bucket = TokenBucket::new(1.0 / LINE_EVERY, LINES);
        Self { plugin, reporter, metrics, lines: Mutex::new(Lines { bucket, left_out: 0 }) }
    }

    /// Records a denial; the message names the plugin and the remedy.
    pub(crate) fn record(&self, what: Denied, message: &str) {
        self.metrics.denied[what as usize].inc();
        self.reporter.denied(message);
        // The engine has written a line about a request.
        if what == Denied::Http {
            return;
        }
        if let Some(left_out) = self.lines.lock().take() {
            let left_out = (left_out > 0).then_some(left_out);
            let (plugin, what) = (&*self.plugin, what.name());
            tracing::warn!(event = "plugin_denied", plugin, what, left_out, "denied: {message}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::host_events::HostEvents;
    use crate::observe::metrics::atomics::AtomicCounter;

    #[test]
    fn each_denial_is_counted_under_its_name_and_few_become_lines() {
        let plugin: Arc<str> = "p".into();
        let metrics = PluginMetrics::of_test();
        let reporter = Arc::new(HostEvents::default().of(Arc::clone(&plugin)));
        let denials = Denials::new(plugin, reporter, Arc::clone(&metrics));
        for (times, what) in Denied::ALL.into_iter().enumerate() {
            (0..=times).for_each(|_| denials.record(what, "no"));
        }
        assert_eq!(metrics.denied.each_ref().map(AtomicCounter::get), [1, 2, 3, 4, 5]);
        let mut lines = Lines { bucket: TokenBucket::new(0.0, 2.0), left_out: 0 };
        assert_eq!([lines.take(), lines.take(), lines.take(), lines.take()], [Some(0), Some(0), None, None]);
        lines.bucket = TokenBucket::new(0.0, 1.0);
        assert_eq!((lines.take(), lines.take()), (Some(2), None));
    }
}
