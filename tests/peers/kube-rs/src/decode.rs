//! kube-rs' lists and watches without a cache, as the benchmark of `pilothouse-client` runs them: the words of
//! `tests/peers/clientgo/decode.go`.
//!
//! `kube-rs-peer decode KUBECONFIG pages|whole|watch OBJECTS [--dynamic]`

use std::fmt::Debug;
use std::io::BufRead;
use std::pin::pin;

use anyhow::{Context, bail, ensure};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject, ListParams, VersionMatch, WatchEvent, WatchParams};
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::usage::{cpu_us, kilobytes};

/// As client-go's pager has it.
const PAGE: u32 = 500;

#[derive(Serialize, Default)]
struct Decoded {
    cpu_us: f64,
    objects: usize,
    before_kb: u64,
    after_kb: u64,
    peak_kb: u64,
    /// Lengths of all versions, so that each object is looked at.
    sum: usize,
}

/// Runs one reading.
pub async fn run(args: &[String]) -> anyhow::Result<()> {
    let [kubeconfig, what, objects, rest @ ..] = args else {
        bail!("decode KUBECONFIG pages|whole|watch OBJECTS [--dynamic]");
    };
    let client = crate::client(kubeconfig).await?;
    let objects = objects.parse()?;
    match rest {
        [] => read(Api::<Pod>::all(client), what, objects).await,
        [option] if option == "--dynamic" => {
            let resource = ApiResource::erase::<Pod>(&());
            read(Api::<DynamicObject>::all_with(client, &resource), what, objects).await
        }
        _ => bail!("unknown options {rest:?}"),
    }
}

async fn read<K>(api: Api<K>, what: &str, objects: usize) -> anyhow::Result<()>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    // The connection is there, and what is set up at the first use.
    let first = api.list(&ListParams::default().limit(1)).await?;
    let version = first.metadata.resource_version.context("a list without a version")?;
    match what {
        "pages" => collect(api, true).await,
        "whole" => collect(api, false).await,
        "watch" => follow(api, &version, objects).await,
        other => bail!("unknown reading {other}"),
    }
}

async fn collect<K>(api: Api<K>, pages: bool) -> anyhow::Result<()>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let mut cost = ready()?;
    std::io::stdin().lock().lines().next().context("nobody told to begin")??;
    let start = cpu_us();
    let mut params = match pages {
        true => ListParams::default().limit(PAGE),
        false => ListParams::default().at("0").matching(VersionMatch::NotOlderThan),
    };
    let mut kept = Vec::new();
    loop {
        let page = api.list(&params).await?;
        for mut object in page.items {
            object.managed_fields_mut().clear();
            cost.sum += object.resource_version().map_or(0, |version| version.len());
            kept.push(object);
        }
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            break;
        }
    }
    cost.cpu_us = cpu_us() - start;
    cost.objects = kept.len();
    tell(cost)
}

async fn follow<K>(api: Api<K>, version: &str, count: usize) -> anyhow::Result<()>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let events = api.watch(&WatchParams::default(), version).await?;
    let mut events = pin!(events);
    let mut cost = ready()?;
    let start = cpu_us();
    while cost.objects < count {
        let Some(WatchEvent::Modified(mut object)) = events.next().await.transpose()? else {
            bail!("something else after {} events", cost.objects);
        };
        object.managed_fields_mut().clear();
        cost.sum += object.resource_version().map_or(0, |version| version.len());
        cost.objects += 1;
    }
    cost.cpu_us = cpu_us() - start;
    tell(cost)
}

/// Says that it is ready, with the memory of now; the peak is counted from here.
fn ready() -> anyhow::Result<Decoded> {
    std::fs::write("/proc/self/clear_refs", "5")?;
    let now = Decoded { before_kb: kilobytes("smaps_rollup", "Rss"), ..Decoded::default() };
    ensure!(now.before_kb > 0, "no memory figures");
    println!("{}", serde_json::to_string(&now)?);
    Ok(now)
}

/// Says what it cost, while what was read is held by the caller.
fn tell(mut cost: Decoded) -> anyhow::Result<()> {
    cost.peak_kb = kilobytes("status", "VmHWM");
    cost.after_kb = kilobytes("smaps_rollup", "Rss");
    println!("{}", serde_json::to_string(&cost)?);
    Ok(())
}
