//! [`GuestMetrics`]: the metrics that a plugin declares itself, with bounds on their number.
//!
//! They are shown as `plugin_NAME_METRIC` with the label `plugin`: no metric of the host begins with `plugin_`. They stay over
//! reloads and go with the plugin.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use pilothouse_engine::{GuestMetric, MetricChange, MetricKind, MetricSpec, Refusal};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Most metrics of a plugin.
const MAX_METRICS: usize = 100;

/// Most labels of a metric.
const MAX_LABELS: usize = 8;

/// Maximum length in bytes of the name of a metric or label, of a value of a label, and of the help.
const MAX_NAME: usize = 64;
const MAX_VALUE: usize = 128;
const MAX_HELP: usize = 1 << 10;

/// Most buckets of a histogram.
const MAX_BUCKETS: usize = 32;

/// The buckets of a histogram that names none: those of Prometheus's libraries.
const BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Endings that a metric gets where it is shown.
const ENDINGS: [&str; 4] = ["_bucket", "_count", "_sum", "_created"];

/// The metrics of all guests by their plugins; a cheap clone.
#[derive(Clone, Default)]
pub(crate) struct AllGuestMetrics(Arc<Mutex<BTreeMap<String, Arc<GuestMetrics>>>>);

/// The metrics that one plugin declares.
#[derive(Default)]
pub(crate) struct GuestMetrics {
    metrics: Mutex<BTreeMap<String, Arc<Declared>>>,
    /// Series of all metrics.
    series: Arc<AtomicUsize>,
}

/// One metric.
struct Declared {
    spec: MetricSpec,
    series: Mutex<BTreeMap<Box<[String]>, Series>>,
    /// Series of all metrics of the plugin, and how many there may be.
    all: Arc<AtomicUsize>,
    most: AtomicUsize,
}

/// The value for one set of values of the labels.
enum Series {
    Value(f64),
    Histogram { sum: f64, count: u64, buckets: Box<[u64]> },
}

impl AllGuestMetrics {
    /// The metrics of a plugin.
    pub(crate) fn of(&self, plugin: &str) -> Arc<GuestMetrics> {
        Arc::clone(self.0.lock().entry(plugin.to_owned()).or_default())
    }

    /// The plugin is gone.
    pub(crate) fn remove(&self, plugin: &str) {
        self.0.lock().remove(plugin);
    }
}

impl GuestMetrics {
    /// Declares a metric, or finds the one that was declared alike. `most` are the series that all metrics of the plugin may
    /// have.
    pub(crate) fn declare(&self, spec: MetricSpec, most: usize) -> Result<Arc<dyn GuestMetric>, Refusal> {
        let spec = checked(spec)?;
        let mut metrics = self.metrics.lock();
        if let Some(declared) = metrics.get(&spec.name) {
            if declared.spec.kind != spec.kind
                || declared.spec.labels != spec.labels
                || declared.spec.buckets != spec.buckets
            {
                return Err(Refusal::invalid(format_args!(
                    "metric {:?} was declared with another kind, other labels or other buckets: use another name",
                    spec.name
                )));
            }
            declared.most.store(most, Relaxed);
            return Ok(Arc::clone(declared) as _);
        }
        if metrics.len() == MAX_METRICS {
            return Err(Refusal::over_limit(format_args!(
                "metric {:?}: a plugin may have {MAX_METRICS} metrics: use labels for what differs",
                spec.name
            )));
        }
        let name = spec.name.clone();
        let all = Arc::clone(&self.series);
        let declared =
            Arc::new(Declared { spec, series: Mutex::default(), all, most: AtomicUsize::new(most) });
        metrics.insert(name, Arc::clone(&declared));
        Ok(declared)
    }
}

fn checked(mut spec: MetricSpec) -> Result<MetricSpec, Refusal> {
    let refused =
        |why: &dyn fmt::Display| Refusal::invalid(format_args!("metric {:?}: {why}", shown(&spec.name)));
    if !is_name(&spec.name) {
        return Err(refused(&format_args!(
            "a name has letters, digits and \"_\", begins with a letter, and has at most {MAX_NAME} bytes"
        )));
    }
    if let Some(ending) = ENDINGS.into_iter().find(|ending| spec.name.ends_with(ending)) {
        return Err(refused(&format_args!("a name must not end with {ending:?}, which histograms get")));
    }
    if spec.help.len() > MAX_HELP {
        return Err(refused(&format_args!("the help has more than {MAX_HELP} bytes")));
    }
    if spec.labels.len() > MAX_LABELS {
        return Err(refused(&format_args!(
            "it has {} labels, at most {MAX_LABELS} are allowed",
            spec.labels.len()
        )));
    }
    for (at, label) in spec.labels.iter().enumerate() {
        if !is_name(label) || label == "plugin" || label == "le" || spec.labels[..at].contains(label) {
            return Err(refused(&format_args!(
                "label {:?}: a name has letters, digits and \"_\" and begins with a letter, is neither plugin nor le, and is \
                 there once",
                shown(label)
            )));
        }
    }
    let is_histogram = spec.kind == MetricKind::Histogram;
    let ascends = spec.buckets.windows(2).all(|pair| pair[0] < pair[1]);
    let is_finite = spec.buckets.iter().all(|bound| bound.is_finite());
    if spec.buckets.len() > MAX_BUCKETS
        || !ascends
        || !is_finite
        || (!is_histogram && !spec.buckets.is_empty())
    {
        return Err(refused(&format_args!(
            "buckets: a histogram has at most {MAX_BUCKETS} finite bounds in ascending order, and others have none"
        )));
    }
    if is_histogram && spec.buckets.is_empty() {
        spec.buckets = BUCKETS.into();
    }
    // The ending is added where it is shown.
    if spec.kind == MetricKind::Counter
        && let Some(name) = spec.name.strip_suffix("_total")
    {
        spec.name = name.to_owned();
    }
    Ok(spec)
}

fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.len() <= MAX_NAME
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(is_part)
}

/// The beginning of a text, for a message.
fn shown(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_NAME)]
}

impl GuestMetric for Declared {
    fn change(&self, labels: &[String], change: MetricChange) -> Result<(), Refusal> {
        let refused =
            |why: &dyn fmt::Display| Refusal::invalid(format_args!("metric {:?}: {why}", self.spec.name));
        if labels.len() != self.spec.labels.len() {
            let (given, wanted) = (labels.len(), self.spec.labels.len());
            return Err(refused(&format_args!("{given} values for {wanted} labels")));
        }
        if labels.iter().any(|value| value.len() > MAX_VALUE) {
            return Err(refused(&format_args!("a value of a label has more than {MAX_VALUE} bytes")));
        }
        match (self.spec.kind, change) {
            (_, MetricChange::Remove) => {}
            (MetricKind::Counter, MetricChange::Add(value)) if value.is_finite() && value >= 0.0 => {}
            (MetricKind::Counter, MetricChange::Add(value)) => {
                return Err(refused(&format_args!("{value} cannot be added to a counter, which only grows")));
            }
            (MetricKind::Gauge, MetricChange::Add(_) | MetricChange::Set(_)) => {}
            (MetricKind::Histogram, MetricChange::Observe(value)) if !value.is_nan() => {}
            (kind, change) => return Err(refused(&format_args!("{change:?} has no meaning for a {kind:?}"))),
        }
        let mut series = self.series.lock();
        if change == MetricChange::Remove {
            if series.remove(labels).is_some() {
                self.all.fetch_sub(1, Relaxed);
            }
            return Ok(());
        }
        if let Some(series) = series.get_mut(labels) {
            series.change(change, &self.spec.buckets);
            return Ok(());
        }
        let most = self.most.load(Relaxed);
        if self.all.fetch_update(Relaxed, Relaxed, |all| (all < most).then_some(all + 1)).is_err() {
            return Err(Refusal::over_limit(format_args!(
                "metric {:?}: the plugin's metrics have {most} series (limits.metricSeries): use labels with fewer values, or \
                 remove series",
                self.spec.name
            )));
        }
        let mut new = match self.spec.kind {
            MetricKind::Counter | MetricKind::Gauge => Series::Value(0.0),
            MetricKind::Histogram => {
                let buckets = vec![0; self.spec.buckets.len() + 1].into();
                Series::Histogram { sum: 0.0, count: 0, buckets }
            }
        };
        new.change(change, &self.spec.buckets);
        series.insert(labels.into(), new);
        Ok(())
    }
}

impl Series {
    fn change(&mut self, change: MetricChange, bounds: &[f64]) {
        match (self, change) {
            (Self::Value(value), MetricChange::Add(more)) => *value += more,
            (Self::Value(value), MetricChange::Set(new)) => *value = new,
            (Self::Histogram { sum, count, buckets }, MetricChange::Observe(value)) => {
                *sum += value;
                *count += 1;
                buckets[bounds.partition_point(|bound| *bound < value)] += 1;
            }
            // The kind was checked.
            _ => {}
        }
    }
}

impl fmt::Debug for AllGuestMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AllGuestMetrics").finish_non_exhaustive()
    }
}

impl Collector for AllGuestMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        // Plugins whose names differ in "-" and "." only may have metrics of one name, which must be shown together.
        let mut shown: BTreeMap<String, Vec<(String, Arc<Declared>)>> = BTreeMap::new();
        for (plugin, metrics) in &*self.0.lock() {
            let prefix = plugin.replace(|letter: char| !letter.is_ascii_alphanumeric(), "_");
            for (name, declared) in &*metrics.metrics.lock() {
                let of_name = shown.entry(format!("plugin_{prefix}_{name}")).or_default();
                of_name.push((plugin.clone(), Arc::clone(declared)));
            }
        }
        for (name, declared) in shown {
            let Some((_, MetricSpec { kind, help, .. })) =
                declared.first().map(|(plugin, first)| (plugin, &first.spec))
            else {
                continue;
            };
            let (kind, metric_type) = match kind {
                MetricKind::Counter => (*kind, MetricType::Counter),
                MetricKind::Gauge => (*kind, MetricType::Gauge),
                MetricKind::Histogram => (*kind, MetricType::Histogram),
            };
            let mut family = encoder.encode_descriptor(&name, &escaped(help), None, metric_type)?;
            for (plugin, declared) in declared.iter().filter(|(_, declared)| declared.spec.kind == kind) {
                declared.encode(plugin, &mut family)?;
            }
        }
        Ok(())
    }
}

impl Declared {
    fn encode(&self, plugin: &str, family: &mut MetricEncoder<'_>) -> fmt::Result {
        let MetricSpec { kind, labels: names, buckets: bounds, .. } = &self.spec;
        for (values, series) in &*self.series.lock() {
            let mut labels = vec![("plugin", plugin.to_owned())];
            labels.extend(names.iter().map(String::as_str).zip(values.iter().cloned()));
            let mut metric = family.encode_family(&labels)?;
            match series {
                Series::Value(value) if *kind == MetricKind::Counter => {
                    metric.encode_counter::<NoLabelSet, _, f64>(value, None)?;
                }
                Series::Value(value) => metric.encode_gauge(value)?,
                Series::Histogram { sum, count, buckets } => {
                    let bounds = bounds.iter().copied().chain([f64::INFINITY]);
                    let buckets: Vec<(f64, u64)> = bounds.zip(buckets.iter().copied()).collect();
                    metric.encode_histogram::<NoLabelSet>(*sum, *count, &buckets, None)?;
                }
            }
        }
        Ok(())
    }
}

/// A help text as the format wants it; the encoder writes it as it is.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}

#[cfg(test)]
mod tests;
