//! kube-rs' reflector, as the benchmark of `pilothouse-cache` runs it: lists and watches all pods into a store and says
//! how it fares, in the words of `tests/peers/clientgo/usage.go`.
//!
//! `kube-rs-peer KUBECONFIG [--dynamic] [--watch-list] [--strip] [--cache]`: `--cache` lists from the server's watch cache
//! instead of in pages.
//!
//! `kube-rs-peer decode …` reads without a cache, see [`decode`]; `kube-rs-peer apply …` writes, see [`apply`]; `kube-rs-peer
//! sample …` is a whole controller, see [`sample`]; `kube-rs-peer controller …` reconciles pods, see [`controller`].
//!
//! Its store has no indexes, so there is none on namespaces or nodes.

mod apply;
mod controller;
mod decode;
mod sample;
mod usage;

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, bail};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::reflector::{ObjectRef, Store, store::Writer};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Config, Resource, ResourceExt};
use usage::Latencies;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// As `tests/peers/clientgo/pods` writes it.
const SENT_ANNOTATION: &str = "bench.example.com/sent";

#[derive(Default)]
struct Options {
    dynamic: bool,
    watch_list: bool,
    strip: bool,
    cache: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let begun = Instant::now();
    let mut args = std::env::args().skip(1).peekable();
    if args.next_if(|arg| arg == "decode").is_some() {
        return decode::run(&args.collect::<Vec<_>>()).await;
    }
    if args.next_if(|arg| arg == "apply").is_some() {
        return apply::run(&args.collect::<Vec<_>>()).await;
    }
    if args.next_if(|arg| arg == "controller").is_some() {
        return controller::run(&args.collect::<Vec<_>>(), begun).await;
    }
    if args.next_if(|arg| arg == "sample").is_some() {
        return sample::run(&args.collect::<Vec<_>>()).await;
    }
    let path = args.next().context("name a kubeconfig")?;
    let mut options = Options::default();
    for arg in args {
        match arg.as_str() {
            "--dynamic" => options.dynamic = true,
            "--watch-list" => options.watch_list = true,
            "--strip" => options.strip = true,
            "--cache" => options.cache = true,
            other => bail!("unknown option {other}"),
        }
    }
    let client = client(&path).await?;
    if options.dynamic {
        let resource = ApiResource::erase::<Pod>(&());
        let api: Api<DynamicObject> = Api::all_with(client, &resource);
        run(api, Writer::new(resource), options, begun).await
    } else {
        let api: Api<Pod> = Api::all(client);
        run(api, Writer::default(), options, begun).await
    }
}

async fn client(kubeconfig: &str) -> anyhow::Result<Client> {
    let kubeconfig = Kubeconfig::read_from(Path::new(kubeconfig))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

async fn run<K>(api: Api<K>, writer: Writer<K>, options: Options, begun: Instant) -> anyhow::Result<()>
where
    K: Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Eq + std::hash::Hash + Clone + Send + Sync,
    ObjectRef<K>: Send,
{
    let mut config = watcher::Config::default();
    if options.watch_list {
        config = config.streaming_lists();
    }
    if options.cache {
        config = config.any_semantic();
    }
    let store: Store<K> = writer.as_reader();
    let events = Arc::new(Latencies::default());
    let came = Arc::clone(&events);
    let strip = options.strip;
    let stream = watcher(api, config)
        .default_backoff()
        .modify(move |object| {
            if strip {
                object.managed_fields_mut().clear();
            }
        })
        .reflect(writer)
        .applied_objects();
    tokio::spawn(async move {
        let mut stream = pin!(stream);
        while let Some(object) = stream.next().await {
            if let Ok(object) = object
                && let Some(sent) = object.annotations().get(SENT_ANNOTATION)
            {
                came.came(sent);
            }
        }
    });
    store.wait_until_ready().await?;
    usage::converse(begun, &events, || store.len()).await
}
