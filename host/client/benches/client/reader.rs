//! Our own reader process: one list or one watch over TLS and HTTP/2, without a cache.
//!
//! It says the same as `tests/peers/clientgo/decode.go`: a line when it is ready, and one with what the reading cost. A list begins
//! when a line comes; a watch is open before the first line.

use std::io::BufRead;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use pilothouse_bench::usage::{cpu, kilobytes};
use pilothouse_client::{
    ApiResource, Client, ClientOptions, ListParams, WatchEvent, WatchParams, WatchStream,
};
use pilothouse_object::{Gvk, Object};
use serde::{Deserialize, Serialize};

/// First word of the command line of such a process: `reader KUBECONFIG pages|whole|watch OBJECTS`.
pub(crate) const COMMAND: &str = "reader";

/// What one reading has cost.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Cost {
    /// Processor time of the process from the request, or from the open watch, to the last object.
    pub(crate) cpu_us: f64,
    /// How many objects or events came.
    pub(crate) objects: usize,
    /// Memory before.
    pub(crate) before_kb: f64,
    /// Memory with all objects of a list held; of a peer with a collector, after it has run.
    pub(crate) after_kb: f64,
    /// Highest memory since `before_kb`.
    pub(crate) peak_kb: f64,
    /// Lengths of all versions, so that each object is looked at.
    pub(crate) sum: usize,
}

/// Runs one reading.
pub(crate) fn run(args: &[String]) -> anyhow::Result<()> {
    let [kubeconfig, what, objects] = args else { bail!("reader KUBECONFIG pages|whole|watch OBJECTS") };
    let objects = objects.parse()?;
    // As the host's runtime for the network on the machine of the figures, and on any of up to seven cores.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        // As the host does: the calls are made where the connections are.
        let (kubeconfig, what) = (kubeconfig.clone(), what.clone());
        tokio::spawn(async move { read(Path::new(&kubeconfig), &what, objects).await }).await?
    })
}

async fn read(kubeconfig: &Path, what: &str, objects: usize) -> anyhow::Result<()> {
    let options = ClientOptions { kubeconfig: Some(kubeconfig.to_owned()), ..ClientOptions::default() };
    let client = Client::new(options).await?;
    let pods = ApiResource::new(Gvk::new("", "v1", "Pod"), "pods", true);
    // The connection is there, and what is set up at the first use.
    let one = ListParams { limit: 1, ..ListParams::default() };
    let first = client.list_page(&pods, None, &one, &mut |_| {}).await?;
    match what {
        "pages" => collect(&client, &pods, &ListParams::default()).await,
        "whole" => {
            let cached = ListParams { resource_version: Some("0".to_owned()), ..ListParams::default() };
            collect(&client, &pods, &cached).await
        }
        "watch" => {
            let params = WatchParams {
                resource_version: Some(first.resource_version),
                timeout_seconds: Some(600),
                ..WatchParams::default()
            };
            follow(client.watch(&pods, None, &params).await?, objects).await
        }
        other => bail!("unknown reading {other:?}"),
    }
}

async fn collect(client: &Client, pods: &ApiResource, params: &ListParams) -> anyhow::Result<()> {
    let mut cost = ready()?;
    std::io::stdin().lock().lines().next().context("nobody told to begin")??;
    let start = cpu();
    let list = client.list_all(pods, None, params).await?;
    cost.sum = list.items.iter().map(|object| object.resource_version().len()).sum();
    cost.cpu_us = (cpu() - start).as_secs_f64() * 1e6;
    cost.objects = list.items.len();
    tell(cost, &list.items)
}

async fn follow(mut events: WatchStream, count: usize) -> anyhow::Result<()> {
    let mut cost = ready()?;
    let start = cpu();
    while cost.objects < count {
        let Some(WatchEvent::Modified(object)) = events.next().await.transpose()? else {
            bail!("something else after {} events", cost.objects);
        };
        cost.sum += object.resource_version().len();
        cost.objects += 1;
    }
    cost.cpu_us = (cpu() - start).as_secs_f64() * 1e6;
    tell(cost, &[])
}

/// Says that it is ready, with the memory of now; the peak is counted from here.
fn ready() -> anyhow::Result<Cost> {
    std::fs::write("/proc/self/clear_refs", "5")?;
    let now = Cost { before_kb: kilobytes("smaps_rollup", "Rss"), ..Cost::default() };
    ensure!(now.before_kb > 0.0, "no memory figures");
    say(&now)?;
    Ok(now)
}

/// Says what it cost, while the objects are held.
fn tell(mut cost: Cost, held: &[Object]) -> anyhow::Result<()> {
    cost.peak_kb = kilobytes("status", "VmHWM");
    cost.after_kb = kilobytes("smaps_rollup", "Rss");
    std::hint::black_box(held);
    say(&cost)
}

#[allow(clippy::print_stdout, reason = "the conversation with the benchmark")]
fn say(cost: &Cost) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string(cost)?);
    Ok(())
}
