//! [`OneObject`]: the imports of a host whose cache has one ConfigMap, and where nothing can be written.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use pilothouse_engine::{
    CacheImports, ClientImports, ConfigImports, EventImports, GuestMetric, HttpImports, LogImports,
    MetricChange, MetricImports, MetricSpec, QueueImports, Refusal, SystemImports,
};
use pilothouse_object::{Gvk, Object, ObjectKey};
use serde_json::{Map, Value, json};

/// Entries of the ConfigMap, of which one is binary.
pub(crate) const ENTRIES: usize = 11;

/// Where the number of entries is written.
pub(crate) const ANNOTATION: &str = "key-counter.example.com/keys";

/// A host with one ConfigMap. A guest that wants to write it fails, since there is no cluster.
pub(crate) struct OneObject {
    kind: Gvk,
    object: Object,
    reads: AtomicU64,
}

impl OneObject {
    /// The ConfigMap has [`ENTRIES`] entries, and this number of them in its annotation.
    pub(crate) fn new(annotated: usize) -> anyhow::Result<Arc<Self>> {
        let data: Map<String, Value> =
            (1..ENTRIES).map(|entry| (format!("entry-{entry}"), json!("x".repeat(40)))).collect();
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": data, "binaryData": {"picture": "AAEC"},
            "metadata": {
                "namespace": "default", "name": "a-name-of-usual-length-5d4f8c7b9-x2x4z",
                "uid": "5f2c1d3e-8a47-4c0b-9d6e-0b1a2c3d4e5f", "resourceVersion": "123456",
                "labels": {"key-counter.example.com/count": "true"},
                "annotations": {ANNOTATION: annotated.to_string()},
            },
        });
        let object = Object::decode(object.to_string().as_bytes())?;
        Ok(Arc::new(Self { kind: object.gvk(), object, reads: AtomicU64::new(0) }))
    }

    /// The key of the ConfigMap.
    pub(crate) fn key(&self) -> &ObjectKey {
        self.object.key()
    }

    /// The kind of the ConfigMap.
    pub(crate) fn kind(&self) -> &Gvk {
        &self.kind
    }

    /// How often the ConfigMap was read.
    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Relaxed)
    }
}

impl CacheImports for OneObject {
    fn cache_get(&self, kind: &Gvk, key: &ObjectKey) -> Result<Option<Object>, Refusal> {
        if *kind != self.kind || key != self.object.key() {
            return Ok(None);
        }
        self.reads.fetch_add(1, Relaxed);
        Ok(Some(self.object.clone()))
    }
}

/// A metric that takes no value.
struct Unused;

impl GuestMetric for Unused {
    fn change(&self, _: &[String], _: MetricChange) -> Result<(), Refusal> {
        Err(Refusal::unavailable("no writes are counted here"))
    }
}

impl MetricImports for OneObject {
    fn metric_declare(&self, _: MetricSpec) -> Result<Arc<dyn GuestMetric>, Refusal> {
        Ok(Arc::new(Unused))
    }
}

impl ClientImports for OneObject {}
impl ConfigImports for OneObject {}
impl EventImports for OneObject {}
impl HttpImports for OneObject {}
impl LogImports for OneObject {}
impl QueueImports for OneObject {}
impl SystemImports for OneObject {}
