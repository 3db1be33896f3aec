//! API write → reconcile start: from before the write is sent to the guest's first log line, both by the system clock.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use pilothouse_bench::{Better, Report, quantile};
use pilothouse_client::{ApiResource, WriteParams};
use pilothouse_object::Gvk;
use pilothouse_tests::controlplane::Options;
use pilothouse_tests::host::HostOptions;
use pilothouse_tests::{ControlPlane, Host, guests};

const WRITES: usize = 500;
const RUNS: usize = 5;

pub(crate) fn run(report: &mut Report) -> anyhow::Result<()> {
    let plane = ControlPlane::start(Options::default())?;
    let host = Host::start(HostOptions::new(plane.kubeconfig()))?;
    let config = r#"{ kind: "v1/ConfigMap", namespaces: [default], mode: log }"#;
    host.install("probe", &guests::wasm("probe")?, Some(&super::plugins::manifest("probe", config)))?;
    host.wait_for("the probe to run", Duration::from_secs(120), || {
        super::plugins::states(&host, "running").map(|(count, _)| count == 1)
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut p50, mut p99) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        let written = runtime.block_on(write(&plane, run))?;
        let last = format!("run-{run}-{}", WRITES - 1);
        host.wait_for("the last write to be reconciled", Duration::from_secs(30), || {
            !host.log().matching(&last).is_empty()
        })?;
        let mut latencies = Vec::new();
        for line in host.log().matching(&format!("run-{run}-")) {
            let Ok(line) = serde_json::from_str::<serde_json::Value>(&line) else { continue };
            if line["message"] != "begin" {
                continue;
            }
            let name = line["key"].as_str().and_then(|key| key.split_once('/')).map_or("", |(_, name)| name);
            let at = timestamp(line["timestamp"].as_str().context("a log line without a time")?)?;
            if let Some(sent) = written.get(name) {
                latencies.push((at - sent) * 1e3);
            }
        }
        anyhow::ensure!(latencies.len() >= WRITES, "only {} of {WRITES} writes were seen", latencies.len());
        p50.push(quantile(&mut latencies, 0.5));
        p99.push(quantile(&mut latencies, 0.99));
    }
    report.bound("API write to reconcile start, p50", "ms", Better::Lower, &mut p50, None);
    report.bound("API write to reconcile start, p99", "ms", Better::Lower, &mut p99, None);
    Ok(())
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}

/// Creates ConfigMaps one after the other; when each was sent.
async fn write(plane: &ControlPlane, run: usize) -> anyhow::Result<HashMap<String, f64>> {
    let client = plane.client().await?;
    let config_maps = ApiResource::new(Gvk::new("", "v1", "ConfigMap"), "configmaps", true);
    let mut sent = HashMap::new();
    let mut pace = tokio::time::interval(Duration::from_millis(10));
    for number in 0..WRITES {
        pace.tick().await;
        let name = format!("run-{run}-{number}");
        let body = serde_json::json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"n": number.to_string()},
        });
        let body = serde_json::to_vec(&body)?;
        let at = now();
        client.create(&config_maps, Some("default"), &body, &WriteParams::default()).await?;
        sent.insert(name, at);
    }
    Ok(sent)
}

/// Seconds since the epoch of a log line's RFC 3339 time, of which the day does not matter here.
fn timestamp(text: &str) -> anyhow::Result<f64> {
    let time =
        text.split_once('T').and_then(|(_, time)| time.strip_suffix('Z')).context("no RFC 3339 time")?;
    let parts: Vec<f64> = time.split(':').map(str::parse).collect::<Result<_, _>>()?;
    let [hours, minutes, seconds] = parts[..] else { anyhow::bail!("no RFC 3339 time: {text}") };
    let of_day = hours * 3600.0 + minutes * 60.0 + seconds;
    let day = (now() / 86_400.0).floor() * 86_400.0;
    let guess = day + of_day;
    // Logged before midnight, read after it.
    Ok(if guess > now() + 3600.0 { guess - 86_400.0 } else { guess })
}
