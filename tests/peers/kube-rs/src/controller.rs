//! One controller of kube-rs that reads three fields of every pod, as `guests/fixtures/pod-reader` does: `kube-rs-peer controller
//! KUBECONFIG OBJECTS`. It says how it fares once it has reconciled so many pods; what it calls objects are reconciles.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::bail;
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};

use crate::usage::{self, Latencies};

#[derive(Default)]
struct Seen {
    reconciles: AtomicUsize,
    events: Latencies,
}

pub async fn run(args: &[String], begun: Instant) -> anyhow::Result<()> {
    let [kubeconfig, objects] = args else { bail!("name a kubeconfig and a number of pods") };
    let (pods, objects) = (Api::<Pod>::all(crate::client(kubeconfig).await?), objects.parse()?);
    let seen = Arc::new(Seen::default());
    let controller = Controller::new(pods, watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(1)), Arc::clone(&seen))
        .for_each(|_| ready(()));
    let mut running = tokio::spawn(controller);
    while seen.reconciles.load(Relaxed) < objects {
        tokio::select! {
            _ = &mut running => bail!("the controller ended"),
            () = tokio::time::sleep(Duration::from_millis(10)) => {}
        }
    }
    usage::converse(begun, &seen.events, || seen.reconciles.load(Relaxed)).await
}

async fn reconcile(pod: Arc<Pod>, seen: Arc<Seen>) -> Result<Action, Infallible> {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let bytes = [Some(&*pod.name_any()), node, phase].into_iter().flatten().map(str::len).sum::<usize>();
    if bytes > 0 {
        seen.reconciles.fetch_add(1, Relaxed);
    }
    if let Some(sent) = pod.annotations().get(crate::SENT_ANNOTATION) {
        seen.events.came(sent);
    }
    Ok(Action::await_change())
}
