//! Users of the cluster beside the plugins: one who creates many objects, a hostile one who changes objects without end, and
//! one who looks at a Lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pilothouse_client::{ApiResource, Client, Patch, WriteParams};
use pilothouse_object::{Gvk, ObjectKey};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};

/// Requests under way at once.
const AT_ONCE: usize = 32;

fn config_maps() -> ApiResource {
    ApiResource::new(Gvk::new("", "v1", "ConfigMap"), "configmaps", true)
}

/// Creates so many ConfigMaps.
pub(crate) async fn create_many(
    client: &Client,
    namespace: &'static str,
    count: usize,
) -> anyhow::Result<()> {
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    let mut creating = JoinSet::new();
    for number in 0..count {
        let permit = Arc::clone(&permits).acquire_owned().await?;
        let client = client.clone();
        creating.spawn(async move {
            let object = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "data": {"number": number.to_string()},
                "metadata": {"name": format!("many-{number}"), "labels": {"app": format!("app-{}", number % 100)}},
            });
            let body = serde_json::to_vec(&object)?;
            client.create(&config_maps(), Some(namespace), &body, &WriteParams::default()).await?;
            drop(permit);
            anyhow::Ok(())
        });
        while let Some(created) = creating.try_join_next() {
            created??;
        }
    }
    creating.join_all().await.into_iter().collect()
}

/// Changes objects at a rate until it is dropped.
pub(crate) struct Changing(AbortHandle);

impl Changing {
    /// Sets this data in the objects `NAMESPACE/object-0` and on, one after the other.
    pub(crate) fn start(
        runtime: &Runtime,
        client: &Client,
        namespace: &'static str,
        objects: usize,
        data: Value,
        pace: Duration,
    ) -> Self {
        let client = client.clone();
        let changing = runtime.spawn(async move {
            let mut pace = tokio::time::interval(pace);
            for number in 0_usize.. {
                pace.tick().await;
                let patch =
                    json!({"data": data, "metadata": {"annotations": {"changed": number.to_string()}}});
                let Ok(key) = ObjectKey::new(Some(namespace), &format!("object-{}", number % objects)) else {
                    return;
                };
                let patch = patch.to_string().into_bytes();
                // A server that is too slow for this pace is no fault of the host.
                let _ =
                    client.patch(&config_maps(), &key, Patch::Merge(&patch), &WriteParams::default()).await;
            }
        });
        Self(changing.abort_handle())
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The renewals of a Lease.
pub(crate) struct Renewals {
    longest: Arc<AtomicU64>,
    watching: AbortHandle,
}

impl Renewals {
    /// Looks at the Lease ten times a second from its first renewal by the present holder.
    pub(crate) fn watch(
        runtime: &Runtime,
        client: &Client,
        namespace: &'static str,
        name: &'static str,
    ) -> Self {
        let longest = Arc::<AtomicU64>::default();
        let (client, most) = (client.clone(), Arc::clone(&longest));
        let watching = runtime.spawn(async move {
            let leases = ApiResource::new(Gvk::new("coordination.k8s.io", "v1", "Lease"), "leases", true);
            let mut pace = tokio::time::interval(Duration::from_millis(100));
            let mut last: Option<(String, String, Instant)> = None;
            let Ok(key) = ObjectKey::new(Some(namespace), name) else { return };
            loop {
                pace.tick().await;
                let Ok(lease) = client.get(&leases, &key, None).await else { continue };
                let field = |pointer: &str| lease.get_string(pointer).map(String::from).unwrap_or_default();
                let (holder, renewed) = (field("/spec/holderIdentity"), field("/spec/renewTime"));
                match &last {
                    Some((by, at, since)) if *by == holder => {
                        if *at == renewed {
                            continue;
                        }
                        let passed = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
                        most.fetch_max(passed, Ordering::Relaxed);
                    }
                    // Taken over: the time of the one before does not count.
                    _ => {}
                }
                last = Some((holder, renewed, Instant::now()));
            }
        });
        Self { longest, watching: watching.abort_handle() }
    }

    /// The longest time between two renewals in milliseconds.
    pub(crate) fn longest(&self) -> f64 {
        self.longest.load(Ordering::Relaxed) as f64
    }
}

impl Drop for Renewals {
    fn drop(&mut self) {
        self.watching.abort();
    }
}
