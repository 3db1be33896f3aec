//! The hostile modes: plugins, and a scraper of the admin port.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use pilothouse_testkit::http;
use pilothouse_tests::guests;
use pilothouse_tests::plugins::{self, Manifest};
use serde_json::{Value, json};

use super::neighbour::Neighbour;

const NAME: &str = "hostile";
/// Objects in the namespace of the hostile plugin, each of which it reconciles.
const OBJECTS: usize = 64;
/// Concurrent reconciles that the manifest of a hostile plugin grants, and the memory of each, in MiB.
const CONCURRENT: u32 = 16;
const MEMORY_MIB: u32 = 64;

/// Longest time that a response of the admin port may take.
const ANSWER: Duration = Duration::from_secs(10);

/// Something hostile.
pub(crate) struct Mode {
    pub(crate) name: &'static str,
    act: Act,
    /// Memory of the instances that it may have, in MiB.
    pub(crate) instances_mib: f64,
}

enum Act {
    /// A plugin of this fixture with this configuration.
    Plugin { guest: &'static str, config: Value },
    /// Threads that read the admin port in a loop.
    Scrape { threads: usize },
}

/// What acts until it is stopped.
pub(crate) enum Acting {
    Plugin,
    Scrape { stop: Arc<AtomicBool>, threads: Vec<JoinHandle<()>> },
}

/// All modes.
pub(crate) fn all() -> Vec<Mode> {
    let probe = |mode: &str, more: Value| {
        let mut config = json!({
            "kind": "v1/ConfigMap", "namespaces": [NAME], "mode": mode, "maxConcurrentReconciles": CONCURRENT,
            "targetKind": "v1/ConfigMap", "targetKey": "hostile/object-0",
        });
        if let (Some(config), Value::Object(more)) = (config.as_object_mut(), more) {
            config.extend(more);
        }
        ("probe", config)
    };
    let plugin = |name, (guest, config)| Mode {
        name,
        act: Act::Plugin { guest, config },
        instances_mib: f64::from(CONCURRENT * MEMORY_MIB),
    };
    vec![
        plugin("spin", probe("spin", json!({}))),
        plugin("hog", probe("hog", json!({}))),
        plugin("trap", probe("trap", json!({}))),
        plugin("again", ("noop", json!({"again": true}))),
        plugin("read", probe("read", json!({}))),
        plugin("live-reads", probe("requeue-after", json!({"delay": "0s"}))),
        plugin("queue-flood", probe("flood", json!({"count": 100_000}))),
        Mode { name: "scrape", act: Act::Scrape { threads: 8 }, instances_mib: 0.0 },
    ]
}

impl Mode {
    /// Starts to act, and waits until it does.
    pub(crate) fn start(&self, neighbour: &Neighbour) -> anyhow::Result<Acting> {
        match &self.act {
            Act::Plugin { guest, config } => {
                populate(neighbour)?;
                let manifest = Manifest::new(NAME)
                    .config(config.clone())
                    .limits(
                        json!({"memory": format!("{MEMORY_MIB}Mi"), "maxConcurrentReconciles": CONCURRENT}),
                    )
                    .grant(&["configmaps"], &["get", "list", "watch"], &["*"]);
                neighbour.host.install(NAME, &guests::wasm(guest)?, Some(&manifest.to_string()))?;
                plugins::wait_until(&neighbour.host, NAME, "called", |status| status.calls > 0)?;
                Ok(Acting::Plugin)
            }
            Act::Scrape { threads } => {
                let stop = Arc::<AtomicBool>::default();
                let admin = neighbour.host.admin().to_owned();
                let threads = (0..*threads).map(|_| scrape(admin.clone(), Arc::clone(&stop))).collect();
                Ok(Acting::Scrape { stop, threads })
            }
        }
    }
}

impl Acting {
    /// Ends it, and waits until it is gone.
    pub(crate) fn stop(self, neighbour: &Neighbour) -> anyhow::Result<()> {
        match self {
            Acting::Plugin => {
                neighbour.host.remove(NAME)?;
                neighbour.host.wait_for("the hostile plugin to be gone", plugins::LOAD, || {
                    plugins::all(&neighbour.host).map(|all| all.iter().all(|plugin| plugin.name != NAME))
                })
            }
            Acting::Scrape { stop, threads } => {
                stop.store(true, Ordering::Relaxed);
                threads.into_iter().for_each(|thread| drop(thread.join()));
                Ok(())
            }
        }
    }
}

/// Creates the objects that a hostile plugin reconciles, unless they are there.
fn populate(neighbour: &Neighbour) -> anyhow::Result<()> {
    if neighbour.cluster.get("ConfigMap", NAME, "object-0")?.is_some() {
        return Ok(());
    }
    neighbour.cluster.namespace(NAME)?;
    for number in 0..OBJECTS {
        neighbour.cluster.config_map(NAME, &format!("object-{number}"))?;
    }
    Ok(())
}

/// Reads the metrics and the plugins from the admin port until it is told to stop. Refusals are answers too.
fn scrape(admin: String, stop: Arc<AtomicBool>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            for path in ["/metrics", "/plugins"] {
                drop(http::request("GET", &admin, path, ANSWER));
            }
        }
    })
}
