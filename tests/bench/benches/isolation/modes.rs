//! The hostile modes: plugins, users of the cluster, and a scraper of the admin port.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use pilothouse_testkit::http;
use pilothouse_tests::guests;
use pilothouse_tests::plugins::{self, Manifest};
use serde_json::{Value, json};

use super::neighbour::Neighbour;
use super::user::Changing;

const NAME: &str = "hostile";
/// Objects in the namespace of the hostile plugin, each of which it reconciles.
const OBJECTS: usize = 64;
/// A user changes one of them so often, so that a hostile plugin is called without end.
const PACE: Duration = Duration::from_millis(20);
/// The same for large objects: faster, and the server of the bench would be what is measured.
const LARGE_PACE: Duration = Duration::from_millis(500);
/// Concurrent reconciles that the manifest of a hostile plugin grants, and the memory of each, in MiB.
const CONCURRENT: u32 = 16;
const MEMORY_MIB: u32 = 64;

/// Longest time that a response of the admin port may take.
const ANSWER: Duration = Duration::from_secs(10);

/// Log of the host in a second: two plugins at the default of `logBytes` with their bursts, as JSON.
pub(crate) const LOG_KIB_S: f64 = 4.0 * 1024.0;

/// Something hostile.
pub(crate) struct Mode {
    pub(crate) name: &'static str,
    act: Act,
    /// Memory of the instances that it may have, in MiB.
    pub(crate) instances_mib: f64,
}

enum Act {
    /// A plugin of this fixture with this configuration; a user changes its objects to this data.
    Plugin { guest: &'static str, config: Value, data: Value, pace: Duration },
    /// Threads that read the admin port in a loop.
    Scrape { threads: usize },
}

/// What acts until it is stopped.
pub(crate) enum Acting {
    Plugin(Changing),
    Scrape { stop: Arc<AtomicBool>, threads: Vec<JoinHandle<()>> },
}

/// Modes of the fixture `hostile`.
const HOSTILE: [&str; 16] = [
    "many-pointers",
    "whole-objects",
    "large-answer",
    "kept-handles",
    "kept-pages",
    "greedy-cursor",
    "stale-handle",
    "replaced-handle",
    "refused-writes",
    "unknown-versions",
    "forged-line",
    "forged-failure",
    "log-flood",
    "active-describe",
    "queueing-describe",
    "forged-describe",
];

/// All modes.
pub(crate) fn all() -> Vec<Mode> {
    let plugin = |name, guest, config, (data, pace)| Mode {
        name,
        act: Act::Plugin { guest, config, data, pace },
        instances_mib: f64::from(CONCURRENT * MEMORY_MIB),
    };
    let probe = |name, mode: &str, more: Value, data| {
        let mut config = json!({
            "kind": "v1/ConfigMap", "namespaces": [NAME], "mode": mode, "maxConcurrentReconciles": CONCURRENT,
            "targetKind": "v1/ConfigMap", "targetKey": "hostile/object-0",
        });
        if let (Some(config), Value::Object(more)) = (config.as_object_mut(), more) {
            config.extend(more);
        }
        plugin(name, "probe", config, data)
    };
    let few = || (json!({"last": "1"}), PACE);
    let mut modes = vec![
        probe("spin", "spin", json!({}), few()),
        probe("hog", "hog", json!({}), few()),
        probe("trap", "trap", json!({}), few()),
        plugin("again", "noop", json!({"again": true}), few()),
        probe("read", "read", json!({}), few()),
        probe("requeue-at-once", "requeue-after", json!({"delay": "0s"}), few()),
        probe("queue-flood", "flood", json!({"count": 100_000}), few()),
        // Users of the cluster.
        probe("large-objects", "log", json!({}), (json!({"large": "x".repeat(900 << 10)}), LARGE_PACE)),
        probe(
            "many-values",
            "log",
            json!({"index": {"name": "refs", "path": "/data/refs"}}),
            (json!({"refs": (0..100_000).map(|n| n.to_string()).collect::<Vec<_>>().join(",")}), LARGE_PACE),
        ),
    ];
    modes.extend(HOSTILE.map(|mode| {
        let config = json!({"mode": mode, "namespaces": [NAME]});
        plugin(mode, "hostile", config, (json!({"large": "x".repeat(10 << 10)}), PACE))
    }));
    modes.push(Mode { name: "scrape", act: Act::Scrape { threads: 8 }, instances_mib: 0.0 });
    modes
}

impl Mode {
    /// Starts to act, and waits until it does.
    pub(crate) fn start(&self, neighbour: &Neighbour) -> anyhow::Result<Acting> {
        match &self.act {
            Act::Plugin { guest, config, data, pace } => {
                populate(neighbour)?;
                let Neighbour { runtime, client, .. } = neighbour;
                let changing = Changing::start(runtime, client, NAME, OBJECTS, data.clone(), *pace);
                let manifest = Manifest::new(NAME)
                    .config(config.clone())
                    .limits(
                        json!({"memory": format!("{MEMORY_MIB}Mi"), "maxConcurrentReconciles": CONCURRENT}),
                    )
                    .grant(&["configmaps"], &["get", "list", "watch"], &["*"]);
                neighbour.host.install(NAME, &guests::wasm(guest)?, Some(&manifest.to_string()))?;
                // One whose `describe` attacks is refused.
                plugins::wait_until(&neighbour.host, NAME, "called", |status| {
                    status.calls > 0 || status.state == "failed"
                })?;
                Ok(Acting::Plugin(changing))
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
            Acting::Plugin(changing) => {
                drop(changing);
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
