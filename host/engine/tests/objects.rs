//! Objects at the guest boundary: lists are read lazily, and bodies of partial objects have the partial annotation.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use pilothouse_engine::{
    CacheImports, CacheQuery, CallContext, ClientCall, ClientFuture, ClientImports, ClientVerb, Compiler,
    ConfigImports, Engine, EngineOptions, EventImports, HttpImports, Instance, LogImports, LogLevel,
    MetricImports, ObjectCursor, Outcome, QueueImports, ReasonSet, Refusal, Request, SystemImports,
};
use pilothouse_object::{Gvk, Object, ObjectKey, PARTIAL_ANNOTATION, Projection};
use pilothouse_plugin::Limits;
use pilothouse_testkit::guests;
use serde_json::{Value, json};

/// A host whose cache has one object a thousand times, and which records the guest's updates and log lines.
struct Shelf {
    config: Arc<[u8]>,
    object: Object,
    /// Number of objects that were read from its cursors.
    taken: Arc<AtomicUsize>,
    updates: Mutex<Vec<Vec<u8>>>,
    said: Mutex<Vec<Said>>,
}

/// A log line and its fields.
type Said = (String, Vec<(String, String)>);

/// The cursor.
struct Row {
    object: Object,
    left: usize,
    taken: Arc<AtomicUsize>,
}

impl ObjectCursor for Row {
    fn visit(&mut self, visit: &mut dyn FnMut(Option<Object>) -> ControlFlow<()>) {
        while let Some(left) = self.left.checked_sub(1) {
            self.left = left;
            self.taken.fetch_add(1, Relaxed);
            if visit(Some(self.object.clone())).is_break() {
                break;
            }
        }
    }

    fn remaining(&self, _: &mut dyn FnMut() -> ControlFlow<()>) -> Option<usize> {
        Some(self.left)
    }
}

impl ConfigImports for Shelf {
    fn config(&self) -> Arc<[u8]> {
        Arc::clone(&self.config)
    }
}

impl LogImports for Shelf {
    fn log_enabled(&self, _: LogLevel) -> bool {
        true
    }

    fn log(&self, _: &CallContext, _: LogLevel, message: &str, fields: &[(String, String)]) {
        self.said.lock().unwrap().push((message.to_owned(), fields.to_vec()));
    }
}

impl CacheImports for Shelf {
    fn cache_get(&self, _: &Gvk, _: &ObjectKey) -> Result<Option<Object>, Refusal> {
        Ok(Some(self.object.clone()))
    }

    fn cache_list(&self, _: &Gvk, _: CacheQuery<'_>) -> Result<Box<dyn ObjectCursor>, Refusal> {
        Ok(Box::new(Row { object: self.object.clone(), left: 1000, taken: Arc::clone(&self.taken) }))
    }
}

impl ClientImports for Shelf {
    fn client(&self, call: ClientCall) -> ClientFuture {
        if let ClientVerb::Update(body) = call.verb {
            self.updates.lock().unwrap().push(body);
        }
        Box::pin(async { Err(Refusal::unavailable("this host writes nothing").into()) })
    }
}

impl EventImports for Shelf {}

impl HttpImports for Shelf {}

impl MetricImports for Shelf {}

impl QueueImports for Shelf {}
impl SystemImports for Shelf {}

/// Runs one reconcile of the probe with this configuration on a host with this object.
async fn call(config: Value, object: Object) -> Result<Arc<Shelf>> {
    let dir = tempfile::tempdir()?;
    let options =
        EngineOptions { cache_dir: dir.path().join("cache"), compiler: Compiler::InProcess, instances: 4 };
    let code = Engine::new(options)?.prepare(std::fs::read(guests::wasm("probe")?)?).await?;
    let host = Arc::new(Shelf {
        config: config.to_string().into_bytes().into(),
        object,
        taken: Arc::default(),
        updates: Mutex::default(),
        said: Mutex::default(),
    });
    let mut instance = Instance::new(&code, host.clone(), Limits::default()).await?;
    let key = "a/b".parse()?;
    let outcome = instance
        .reconcile(&Request { key: &key, attempt: 0, reasons: ReasonSet::of_bits(1), priority: 0 }, 1)
        .await?;
    assert_eq!(outcome.ok(), Some(Outcome::Done));
    Ok(host)
}

impl Shelf {
    fn said(&self, message: &str) -> Result<Value> {
        let said = self.said.lock().unwrap();
        let (_, fields) =
            said.iter().find(|(text, _)| text == message).context("the guest did not say it")?;
        Ok(fields.iter().cloned().map(|(name, value)| (name, Value::from(value))).collect())
    }
}

fn object() -> Result<Object> {
    let json = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b", "namespace": "a"},
        "data": {"kept": "1", "left": "2"},
    });
    Ok(Object::decode(json.to_string().as_bytes())?)
}

#[tokio::test]
async fn a_list_is_read_as_the_guest_takes_it() -> Result<()> {
    let host = call(json!({"mode": "list", "count": 3}), object()?).await?;
    // The SDK's iterator has 97 objects of a portion of 100 left, the cursor all the others.
    assert_eq!(host.said("listed")?, json!({"all": "1000", "taken": "3", "remain": "997"}));
    assert_eq!(host.taken.load(Relaxed), 1000, "taken in once, to be sorted by key");
    Ok(())
}

#[tokio::test]
async fn the_body_of_a_partial_object_is_marked_and_that_of_a_whole_one_is_not() -> Result<()> {
    let partial = Projection::parse(["/data/kept"])?.apply(&object()?);
    for (object, said, annotations) in
        [(partial, "true", json!({PARTIAL_ANNOTATION: "true"})), (object()?, "false", Value::Null)]
    {
        let wanted: Value = serde_json::from_slice(object.bytes())?;
        let host = call(json!({"mode": "rewrite"}), object).await?;
        assert_eq!(host.said("rewrote")?["partial"], said);
        let bodies = host.updates.lock().unwrap();
        let mut body: Value = serde_json::from_slice(bodies.first().context("an update")?)?;
        assert_eq!(body["metadata"]["annotations"], annotations);
        body["metadata"].as_object_mut().context("an object")?.remove("annotations");
        assert_eq!(body, wanted, "and nothing else is");
    }
    Ok(())
}
