//! What recording a call costs: CPU time and bytes of the file, for a reconcile that does nothing, for one that lists three objects, and
//! for the same while values of Secrets are looked for; and what a plugin costs that reads one new Secret in each call.
//!
//! `cargo bench -p pilothouse-recording --bench cost`

#[expect(dead_code, reason = "the tests use all of it")]
#[path = "../tests/replay/host.rs"]
mod host;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use pilothouse_bench::{Better, Report, usage};
use pilothouse_engine::{HostImports, Instance, ReasonSet, Request};
use pilothouse_plugin::Limits;
use serde_json::{Value, json};

use host::{Bounds, Cluster, Stage, secret};

/// Calls of one run, and runs.
const CALLS: u32 = 2000;
const RUNS: usize = 5;

/// How many values of Secrets are known in the last scenario.
const SECRETS: u32 = 200;

/// How many Secrets a plugin reads one by one.
const NEW_SECRETS: u32 = 300;

fn with_secrets(cluster: Cluster, count: u32) -> Result<Cluster> {
    let mut secrets = (0..count).map(|n| secret(&format!("s{n}"), &format!("value-of-secret-{n}")));
    secrets.try_fold(cluster, |cluster, secret| cluster.with(&secret))
}

fn cluster(config: &Value) -> Result<Cluster> {
    // About as large as a Pod.
    let filler: Vec<String> =
        (0..80).map(|number| format!("a line of a specification {number:04}")).collect();
    (0..3).try_fold(Cluster::new(config), |cluster, number| {
        cluster.with(&json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{number}"), "namespace": "a"},
            "data": {"filler": filler.join("\n")},
        }))
    })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut report = Report::new("recording", "cargo bench -p pilothouse-recording --bench cost");
    let list = json!({"mode": "list", "count": 3});
    for (scenario, guest, config, secrets) in [
        ("a reconcile that does nothing", "noop", json!({}), 0),
        ("a reconcile that lists three objects of 3 KB", "probe", list.clone(), 0),
        ("the same beside 200 values of Secrets", "probe", list, SECRETS),
    ] {
        let (mut plain, mut recorded, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..RUNS {
            let stage = Stage::new(guest, Bounds { max_bytes: u64::MAX, ..Bounds::default() }).await?;
            let host: Arc<dyn HostImports> = Arc::new(cluster(&config)?);
            let mut instance = Instance::new(&stage.code, host, Limits::default()).await?;
            let key = "a/m1".parse()?;
            let request = Request { key: &key, attempt: 0, reasons: ReasonSet::of_bits(1), priority: 0 };
            let began = usage::cpu();
            for call in 0..CALLS {
                instance.reconcile(&request, u64::from(call)).await?.ok().context("done")?;
            }
            plain.push(microseconds(began, CALLS));
            if secrets > 0 {
                let config = json!({"mode": "list", "kind": "v1/Secret", "count": secrets});
                let cluster = with_secrets(cluster(&config)?, secrets)?;
                let mut reader = stage.instance(cluster, false, Limits::default()).await?;
                reader.reconcile("a/s1", 1).await?.ok().context("done")?;
            }
            let mut instance = stage.instance(cluster(&config)?, false, Limits::default()).await?;
            let before = std::fs::metadata(stage.path())?.len();
            let began = usage::cpu();
            for call in 0..CALLS {
                instance.reconcile("a/m1", call.into()).await?.ok().context("done")?;
            }
            recorded.push(microseconds(began, CALLS));
            let written = std::fs::metadata(stage.path())?.len() - before;
            bytes.push(f64::from(u32::try_from(written)?) / f64::from(CALLS));
        }
        report.bound(scenario, "µs of CPU a call, not recorded", Better::Lower, &mut plain, None);
        report.bound(scenario, "µs of CPU a call, recorded", Better::Lower, &mut recorded, None);
        report.bound(scenario, "bytes a call", Better::Lower, &mut bytes, None);
    }
    let mut first_reads = Vec::new();
    for _ in 0..RUNS {
        let stage = Stage::new("probe", Bounds { max_bytes: u64::MAX, ..Bounds::default() }).await?;
        let config = json!({"mode": "rewrite", "kind": "v1/Secret"});
        let cluster = with_secrets(Cluster::new(&config), NEW_SECRETS)?;
        let mut instance = stage.instance(cluster, false, Limits::default()).await?;
        let began = usage::cpu();
        for n in 0..NEW_SECRETS {
            instance.reconcile(&format!("a/s{n}"), n.into()).await?.ok().context("done")?;
        }
        first_reads.push(microseconds(began, NEW_SECRETS));
    }
    let scenario = "a reconcile that reads a new Secret and writes it back, 300 times";
    report.bound(scenario, "µs of CPU a call, recorded", Better::Lower, &mut first_reads, None);
    report.finish()
}

/// CPU time of each of `calls` since then.
fn microseconds(began: Duration, calls: u32) -> f64 {
    (usage::cpu() - began).as_secs_f64() * 1e6 / f64::from(calls)
}
