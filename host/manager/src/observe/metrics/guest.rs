//! [`GuestMetrics`]: the metrics that a plugin declares itself, with bounds on their number.
//!
//! They are shown as `plugin_NAME__METRIC` with the label `plugin`: no metric of the host begins with `plugin_`, and no two
//! plugins have a name in common, since a metric has no `__`. They stay over reloads and go with the plugin. A generation may
//! declare a metric otherwise than one before it, whose values are then gone. Runs of a plugin in several clusters have the
//! metric in common and differ in the label; its kind is that of the first run, and runs that declare another are left out.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use pilothouse_engine::{GuestMetric, MetricChange, MetricKind, MetricSpec, Refusal};
use pilothouse_plugin::split_run;
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
const ENDINGS: [&str; 5] = ["_total", "_bucket", "_count", "_sum", "_created"];

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

type AllSeries = BTreeMap<Box<[String]>, Series>;

/// One metric.
struct Declared {
    spec: MetricSpec,
    /// The last generation that declared it.
    generation: AtomicU64,
    /// None once another generation has declared it otherwise.
    series: Mutex<Option<AllSeries>>,
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
    /// Declares a metric for a generation, or finds the one that was declared alike. `most` are the series that all metrics of
    /// the plugin may have.
    pub(crate) fn declare(
        &self,
        spec: MetricSpec,
        generation: u64,
        most: usize,
    ) -> Result<Arc<dyn GuestMetric>, Refusal> {
        let spec = checked(spec)?;
        let mut metrics = self.metrics.lock();
        if let Some(declared) = metrics.get(&spec.name) {
            let is_alike = declared.spec.kind == spec.kind
                && declared.spec.labels == spec.labels
                && declared.spec.buckets == spec.buckets;
            if is_alike {
                declared.generation.fetch_max(generation, Relaxed);
                declared.most.store(most, Relaxed);
                return Ok(Arc::clone(declared) as _);
            }
            // An instance of the generation before may still declare its own.
            if declared.generation.load(Relaxed) >= generation {
                return Err(Refusal::invalid(format_args!(
                    "metric {:?} was declared with another kind, other labels or other buckets: use another name",
                    spec.name
                )));
            }
            declared.retire();
            metrics.remove(&spec.name);
        }
        if metrics.len() == MAX_METRICS {
            // Those that this generation does not have any more make room, the oldest first.
            let oldest = metrics.iter().min_by_key(|(_, declared)| declared.generation.load(Relaxed));
            let oldest = oldest.filter(|(_, declared)| declared.generation.load(Relaxed) < generation);
            if let Some(name) = oldest.map(|(name, _)| name.clone())
                && let Some(declared) = metrics.remove(&name)
            {
                declared.retire();
            }
        }
        if metrics.len() == MAX_METRICS {
            return Err(Refusal::over_limit(format_args!(
                "metric {:?}: a plugin may have {MAX_METRICS} metrics: use labels for what differs",
                spec.name
            )));
        }
        let name = spec.name.clone();
        let all = Arc::clone(&self.series);
        let declared = Arc::new(Declared {
            spec,
            generation: AtomicU64::new(generation),
            series: Mutex::new(Some(BTreeMap::new())),
            all,
            most: AtomicUsize::new(most),
        });
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
    // The ending is added where it is shown.
    let shown_name = match spec.kind {
        MetricKind::Counter => spec.name.strip_suffix("_total").unwrap_or(&spec.name).to_owned(),
        MetricKind::Gauge | MetricKind::Histogram => spec.name.clone(),
    };
    if let Some(ending) = ENDINGS.into_iter().find(|ending| shown_name.ends_with(ending)) {
        return Err(refused(&format_args!(
            "its name must not end with {ending:?}, which counters and histograms get"
        )));
    }
    if !is_name(&shown_name) || shown_name.ends_with('_') || shown_name.contains("__") {
        return Err(refused(
            &"its name must not end with \"_\" or have two of them in a row: they part it from the plugin's",
        ));
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
    spec.name = shown_name;
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

impl Declared {
    /// Series, as a scraper counts them, of one set of values.
    fn shown_as(&self) -> usize {
        match self.spec.kind {
            MetricKind::Counter | MetricKind::Gauge => 1,
            // The bucket without a bound, the sum and the count.
            MetricKind::Histogram => self.spec.buckets.len() + 3,
        }
    }

    /// Another generation declares it otherwise: nothing more of it is kept.
    fn retire(&self) {
        let count = self.series.lock().take().map_or(0, |series| series.len());
        self.all.fetch_sub(count * self.shown_as(), Relaxed);
    }
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
        let Some(series) = &mut *series else { return Ok(()) };
        let shown_as = self.shown_as();
        if change == MetricChange::Remove {
            if series.remove(labels).is_some() {
                self.all.fetch_sub(shown_as, Relaxed);
            }
            return Ok(());
        }
        if let Some(series) = series.get_mut(labels) {
            series.change(change, &self.spec.buckets);
            return Ok(());
        }
        let most = self.most.load(Relaxed);
        let more = |all: usize| Some(all + shown_as).filter(|all| *all <= most);
        if self.all.fetch_update(Relaxed, Relaxed, more).is_err() {
            return Err(Refusal::over_limit(format_args!(
                "metric {:?}: the plugin's metrics may have {most} series (limits.metricSeries), and one more set of values \
                 has {shown_as}: use labels with fewer values, or remove series",
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
        let all: Vec<_> =
            self.0.lock().iter().map(|(plugin, metrics)| (plugin.clone(), Arc::clone(metrics))).collect();
        let mut families = BTreeMap::<String, Vec<(String, Arc<Declared>)>>::new();
        for (run, metrics) in all {
            // Names of plugins are DNS names, some with a namespace: these letters are all that a metric's name has not.
            let prefix = split_run(&run).0.replace('-', "_").replace(['.', '/'], ":");
            for declared in metrics.metrics.lock().values() {
                let family = families.entry(format!("plugin_{prefix}__{}", declared.spec.name)).or_default();
                family.push((run.clone(), Arc::clone(declared)));
            }
        }
        for (name, runs) in &families {
            // A family has a run.
            let MetricSpec { kind, help, .. } = &runs[0].1.spec;
            let metric_type = match kind {
                MetricKind::Counter => MetricType::Counter,
                MetricKind::Gauge => MetricType::Gauge,
                MetricKind::Histogram => MetricType::Histogram,
            };
            let mut family = encoder.encode_descriptor(name, &escaped(help), None, metric_type)?;
            for (run, declared) in runs.iter().filter(|(_, declared)| declared.spec.kind == *kind) {
                declared.encode(run, &mut family)?;
            }
        }
        Ok(())
    }
}

impl Declared {
    fn encode(&self, plugin: &str, family: &mut MetricEncoder<'_>) -> fmt::Result {
        let MetricSpec { kind, labels: names, buckets: bounds, .. } = &self.spec;
        for (values, series) in self.series.lock().iter().flatten() {
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
