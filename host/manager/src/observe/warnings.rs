//! [`Warnings`]: what an operator should know about a generation that runs: permissions that it asks for and does not have, and
//! objects of the cluster that exceed one of its data limits.
//!
//! Invariants: one text for each subject, so their number is bounded by the descriptor; a flood of objects beyond a limit is
//! counted, and becomes one line and one Event a minute for each subject. Called inside informers: nothing here waits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pilothouse_object::ObjectKey;

use crate::observe::host_events::Reporter;
use crate::observe::metrics::PluginMetrics;

/// Least time between two lines, and two Events, about the same subject.
const REPEAT: Duration = Duration::from_secs(60);

/// A limit of what data of the cluster may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DataLimit {
    IndexValues,
    SplitBytes,
    MappedKeys,
}

impl DataLimit {
    /// All of them, in the order of the metric's series.
    pub(crate) const ALL: [Self; 3] = [Self::IndexValues, Self::SplitBytes, Self::MappedKeys];

    /// The name in `spec.limits`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::IndexValues => "indexValues",
            Self::SplitBytes => "splitBytes",
            Self::MappedKeys => "mappedKeys",
        }
    }

    fn consequence(self) -> &'static str {
        match self {
            Self::IndexValues | Self::SplitBytes => "the index does not find it",
            Self::MappedKeys => "only the first keys are reconciled",
        }
    }
}

/// The warnings about one generation.
pub(crate) struct Warnings {
    plugin: Arc<str>,
    reporter: Arc<Reporter>,
    metrics: Arc<PluginMetrics>,
    subjects: Mutex<BTreeMap<String, Warning>>,
}

struct Warning {
    text: String,
    reported: Option<Instant>,
}

impl Warnings {
    pub(crate) fn new(plugin: Arc<str>, reporter: Arc<Reporter>, metrics: Arc<PluginMetrics>) -> Self {
        Self { plugin, reporter, metrics, subjects: Mutex::default() }
    }

    /// Sets the warning about a subject.
    pub(crate) fn set(&self, subject: &str, text: String) {
        self.subjects.lock().insert(subject.to_owned(), Warning { text, reported: None });
    }

    /// An object exceeds a limit; `subject` is the index or watch that has the limit.
    pub(crate) fn exceeded(&self, limit: DataLimit, most: usize, subject: &str, object: &ObjectKey) {
        self.metrics.limits_exceeded[limit as usize].inc();
        let name = limit.name();
        let text =
            format!("{subject}: object {object} exceeds limits.{name} ({most}): {}", limit.consequence());
        let now = Instant::now();
        let is_due = {
            let mut subjects = self.subjects.lock();
            let warning = subjects
                .entry(subject.to_owned())
                .or_insert_with(|| Warning { text: String::new(), reported: None });
            let is_due = warning.reported.is_none_or(|at| now.saturating_duration_since(at) >= REPEAT);
            if is_due {
                warning.reported = Some(now);
            }
            warning.text.clone_from(&text);
            is_due
        };
        if is_due {
            tracing::warn!(event = "data_limit_exceeded", plugin = &*self.plugin, limit = name, "{text}");
            self.reporter.limit_exceeded(&text);
        }
    }

    /// The texts, by subject.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.subjects.lock().values().map(|warning| warning.text.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::host_events::HostEvents;
    use crate::observe::metrics::atomics::AtomicCounter;

    #[test]
    fn each_limit_has_the_counter_at_its_place_and_each_subject_one_text() {
        let plugin: Arc<str> = "p".into();
        let metrics = PluginMetrics::of_test();
        let reporter = Arc::new(HostEvents::default().of(Arc::clone(&plugin)));
        let warnings = Warnings::new(plugin, reporter, Arc::clone(&metrics));
        warnings.set("permissions", "1 permission not granted".to_owned());
        let object = "ns/x".parse().unwrap();
        for (times, limit) in DataLimit::ALL.into_iter().enumerate() {
            for _ in 0..=times {
                warnings.exceeded(limit, 5, limit.name(), &object);
            }
        }
        assert_eq!(metrics.limits_exceeded.each_ref().map(AtomicCounter::get), [1, 2, 3]);
        let texts = warnings.texts();
        assert_eq!(texts.len(), 4, "{texts:?}");
        assert_eq!(
            texts[1],
            "mappedKeys: object ns/x exceeds limits.mappedKeys (5): only the first keys are reconciled"
        );
    }
}
