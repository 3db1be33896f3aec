//! [`Writes`]: how long it takes from a write to the API server until a guest starts to reconcile the object. Both times are of
//! the system clock.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Context;
use jiff::Timestamp;
use pilothouse_client::{ApiResource, Client, WriteParams};
use pilothouse_object::Gvk;
use tokio::time::MissedTickBehavior;

use crate::{Host, loglines};

/// Longest time from the last write until all objects are reconciled.
const RECONCILED: Duration = Duration::from_secs(60);

/// ConfigMaps that were created at a constant rate, and when each request was sent.
#[derive(Debug)]
pub struct Writes {
    sent: HashMap<String, Timestamp>,
}

impl Writes {
    /// Creates `count` ConfigMaps named `PREFIX-NUMBER`, one each `pace`, each after the response to the one before.
    ///
    /// # Errors
    /// When a request fails.
    pub async fn make(
        client: &Client,
        namespace: &str,
        prefix: &str,
        count: usize,
        pace: Duration,
    ) -> anyhow::Result<Writes> {
        let config_maps = ApiResource::new(Gvk::new("", "v1", "ConfigMap"), "configmaps", true);
        let mut pace = tokio::time::interval(pace);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut sent = HashMap::new();
        for number in 0..count {
            pace.tick().await;
            let name = format!("{prefix}-{number}");
            let body = serde_json::to_vec(&serde_json::json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"n": number.to_string()},
            }))?;
            let at = Timestamp::now();
            client.create(&config_maps, Some(namespace), &body, &WriteParams::default()).await?;
            sent.insert(name, at);
        }
        Ok(Writes { sent })
    }

    /// Seconds from each write to the line `begin` of the first reconcile by `plugin`, which is the fixture `probe`. Waits until
    /// there is such a line for each object.
    ///
    /// # Errors
    /// When an object is not reconciled in time.
    pub fn latencies(&self, host: &Host, plugin: &str) -> anyhow::Result<Vec<f64>> {
        host.wait_for("all writes to be reconciled", RECONCILED, || {
            let began = self.began(host, plugin);
            let missing = self.sent.len() - began.len();
            anyhow::ensure!(missing == 0, "{missing} of {} were not reconciled", self.sent.len());
            anyhow::Ok(Some(()))
        })?;
        let began = self.began(host, plugin);
        let seconds = |(name, sent): (&String, &Timestamp)| {
            let at = began.get(name).context("a line that was there is gone")?;
            Ok(at.duration_since(*sent).as_secs_f64())
        };
        self.sent.iter().map(seconds).collect()
    }

    /// When the first reconcile of each object began.
    fn began(&self, host: &Host, plugin: &str) -> HashMap<String, Timestamp> {
        let mut began = HashMap::new();
        for line in loglines::said(host, plugin, "begin") {
            let name = line.key.rsplit('/').next().unwrap_or_default();
            if self.sent.contains_key(name) {
                began.entry(name.to_owned()).or_insert(line.timestamp);
            }
        }
        began
    }
}
