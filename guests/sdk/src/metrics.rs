//! Metrics of the plugin, on the host's `/metrics` as `plugin_NAME__METRIC`. A metric is declared once, as a
//! `static`, with the names of its labels; the number of values of a use is checked by the compiler.
//!
//! ```
//! use pilothouse_sdk::prelude::*;
//!
//! static EXPORTED: Counter<1> = Counter::new("exported_total", "Events sent, by result.", ["result"]);
//! static WAITING: Gauge = Gauge::new("waiting", "Events that wait.", []);
//! static SIZE: Histogram = Histogram::new("request_bytes", "Sizes of requests.", [], &[1e3, 1e4, 1e5]);
//!
//! fn sent(ctx: &Context, bytes: usize) {
//!     EXPORTED.inc(ctx, ["ok"]);
//!     WAITING.set(ctx, [], 0.0);
//!     SIZE.observe(ctx, [], bytes as f64);
//! }
//! ```
//!
//! - Names are of letters, digits and `_`. A plugin may have 100 metrics, and 1,000 sets of label values in all: take
//!   values from a small set, never names of objects that come and go. [`Counter::remove`] and its like forget a set.
//! - A refusal of the host does not fail a call: it is logged, once for each metric of an instance.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::sys::{Declaration, MetricUse};
use crate::{Context, Refusal, sys, warn};

/// The kind of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

/// A declared metric, and its handle in this instance.
struct Metric<const LABELS: usize> {
    kind: MetricKind,
    name: &'static str,
    help: &'static str,
    labels: [&'static str; LABELS],
    buckets: &'static [f64],
    /// In native builds each test has a host of its own, so nothing is kept.
    #[cfg_attr(not(target_family = "wasm"), allow(dead_code, reason = "see above"))]
    handle: OnceLock<sys::MetricHandle>,
    complained: AtomicBool,
}

impl<const LABELS: usize> Metric<LABELS> {
    const fn new(
        kind: MetricKind,
        name: &'static str,
        help: &'static str,
        labels: [&'static str; LABELS],
        buckets: &'static [f64],
    ) -> Self {
        Self {
            kind,
            name,
            help,
            labels,
            buckets,
            handle: OnceLock::new(),
            complained: AtomicBool::new(false),
        }
    }

    fn declare(&self, ctx: &Context) -> Result<sys::MetricHandle, Refusal> {
        let Self { kind, name, help, ref labels, buckets, .. } = *self;
        Ok(ctx.host().declare_metric(&Declaration { kind, name, help, labels, buckets })?)
    }

    #[cfg(target_family = "wasm")]
    fn try_use(&self, ctx: &Context, values: [&str; LABELS], what: MetricUse) -> Result<(), Refusal> {
        let handle = match self.handle.get() {
            Some(handle) => handle,
            None => {
                let handle = self.declare(ctx)?;
                self.handle.get_or_init(|| handle)
            }
        };
        Ok(ctx.host().use_metric(handle, &values, what)?)
    }

    #[cfg(not(target_family = "wasm"))]
    fn try_use(&self, ctx: &Context, values: [&str; LABELS], what: MetricUse) -> Result<(), Refusal> {
        Ok(ctx.host().use_metric(&self.declare(ctx)?, &values, what)?)
    }

    fn apply(&self, ctx: &Context, values: [&str; LABELS], what: MetricUse) {
        if let Err(refusal) = self.try_use(ctx, values, what)
            && !self.complained.swap(true, Ordering::Relaxed)
        {
            warn!("metric not recorded: {refusal}", metric = self.name);
        }
    }
}

/// A sum that only grows. See the [module](self).
pub struct Counter<const LABELS: usize = 0>(Metric<LABELS>);

/// A value that goes up and down. See the [module](self).
pub struct Gauge<const LABELS: usize = 0>(Metric<LABELS>);

/// How values are distributed. See the [module](self).
pub struct Histogram<const LABELS: usize = 0>(Metric<LABELS>);

impl<const LABELS: usize> Counter<LABELS> {
    /// Declares a counter. By convention its name ends in `_total`.
    pub const fn new(name: &'static str, help: &'static str, labels: [&'static str; LABELS]) -> Self {
        Self(Metric::new(MetricKind::Counter, name, help, labels, &[]))
    }

    /// Adds one.
    pub fn inc(&self, ctx: &Context, labels: [&str; LABELS]) {
        self.add(ctx, labels, 1.0);
    }

    /// Adds a value, which must not be negative.
    pub fn add(&self, ctx: &Context, labels: [&str; LABELS], value: f64) {
        self.0.apply(ctx, labels, MetricUse::Add(value));
    }

    /// Forgets the series with these values.
    pub fn remove(&self, ctx: &Context, labels: [&str; LABELS]) {
        self.0.apply(ctx, labels, MetricUse::Remove);
    }
}

impl<const LABELS: usize> Gauge<LABELS> {
    /// Declares a gauge.
    pub const fn new(name: &'static str, help: &'static str, labels: [&'static str; LABELS]) -> Self {
        Self(Metric::new(MetricKind::Gauge, name, help, labels, &[]))
    }

    /// Sets the value.
    pub fn set(&self, ctx: &Context, labels: [&str; LABELS], value: f64) {
        self.0.apply(ctx, labels, MetricUse::Set(value));
    }

    /// Adds to the value; a negative number subtracts.
    pub fn add(&self, ctx: &Context, labels: [&str; LABELS], value: f64) {
        self.0.apply(ctx, labels, MetricUse::Add(value));
    }

    /// Forgets the series with these values.
    pub fn remove(&self, ctx: &Context, labels: [&str; LABELS]) {
        self.0.apply(ctx, labels, MetricUse::Remove);
    }
}

impl<const LABELS: usize> Histogram<LABELS> {
    /// Declares a histogram with the upper bounds of its buckets, ascending; without any, those of Prometheus.
    pub const fn new(
        name: &'static str,
        help: &'static str,
        labels: [&'static str; LABELS],
        buckets: &'static [f64],
    ) -> Self {
        Self(Metric::new(MetricKind::Histogram, name, help, labels, buckets))
    }

    /// Adds a value.
    pub fn observe(&self, ctx: &Context, labels: [&str; LABELS], value: f64) {
        self.0.apply(ctx, labels, MetricUse::Observe(value));
    }

    /// Forgets the series with these values.
    pub fn remove(&self, ctx: &Context, labels: [&str; LABELS]) {
        self.0.apply(ctx, labels, MetricUse::Remove);
    }
}
