//! What a client process says about itself; the same of every client (`tests/peers/clientgo/usage.go`).

use std::time::Instant;

use parking_lot::Mutex;
use pilothouse_bench::usage::{cpu, kilobytes};
use serde::{Deserialize, Serialize};

/// One look at a client.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Usage {
    /// Processor time of the process, user and system, in microseconds.
    pub(crate) cpu_us: f64,
    /// Since the process began.
    pub(crate) wall_us: f64,
    /// Resident memory in KiB.
    pub(crate) rss_kb: f64,
    /// The same, with shared pages by their share.
    pub(crate) pss_kb: f64,
    /// Highest resident memory since the last reset.
    pub(crate) peak_kb: f64,
    /// Objects in the store.
    pub(crate) objects: usize,
    /// Events since the last reset.
    pub(crate) events: usize,
    /// Half of the events came sooner.
    pub(crate) p50_us: f64,
    /// All but one in a hundred came sooner.
    pub(crate) p99_us: f64,
}

/// How late the events since the last reset came, in microseconds.
#[derive(Default)]
pub(crate) struct Latencies(pub(crate) Mutex<Vec<f64>>);

impl Usage {
    /// Of this process.
    pub(crate) fn now(begun: Instant, events: &Latencies, objects: usize) -> Self {
        // First what reading the rest would add to.
        let cpu_us = cpu().as_secs_f64() * 1e6;
        let wall_us = begun.elapsed().as_secs_f64() * 1e6;
        let mut latencies = events.0.lock().clone();
        // JSON has no number for the middle of nothing.
        let mut late = |fraction| match latencies.is_empty() {
            true => 0.0,
            false => pilothouse_bench::quantile(&mut latencies, fraction),
        };
        let (p50_us, p99_us) = (late(0.5), late(0.99));
        Self {
            cpu_us,
            wall_us,
            rss_kb: kilobytes("smaps_rollup", "Rss"),
            pss_kb: kilobytes("smaps_rollup", "Pss"),
            peak_kb: kilobytes("status", "VmHWM"),
            objects,
            events: latencies.len(),
            p50_us,
            p99_us,
        }
    }
}
