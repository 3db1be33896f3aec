//! Tests that cross files: one a rule, named after the rule; the clock is paused and no sleep waits for anything.

mod availability;
mod controller;
mod delta_fifo;
mod factory;
mod handlers;
mod handover;
mod indexer;
mod invariants;
mod joining;
mod keyed;
mod listeners;
mod lister;
mod long_life;
mod packing;
mod projections;
mod queues;
mod random_servers;
mod reflector_list;
mod reflector_objects;
mod reflector_watch;
mod reflector_watch_list;
mod resync;
mod shared_informer;
mod snapshots;

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::testing::{FakeControllerSource, config_maps};
use crate::{InformerOptions, ReflectorOptions, SharedInformer};

/// An informer that runs.
struct Running {
    informer: SharedInformer,
    cancel: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    /// Runs an informer on a server.
    fn on(server: &FakeControllerSource) -> Self {
        Self::with(server, ReflectorOptions::default())
    }

    fn with(server: &FakeControllerSource, reflector: ReflectorOptions) -> Self {
        let options = InformerOptions { reflector, ..InformerOptions::default() };
        Self::of(SharedInformer::new(server.source(), config_maps(), None, options))
    }

    fn of(informer: SharedInformer) -> Self {
        let cancel = CancellationToken::new();
        let (run, token) = (informer.clone(), cancel.clone());
        let task = tokio::spawn(async move { run.run(token).await });
        Self { informer, cancel, task }
    }

    /// Waits until the store has what the server has.
    async fn caught_up(&self, server: &FakeControllerSource) {
        soon(self.informer.indexer().wait_until_seen(&server.version())).await;
    }

    /// Cancels it; checks that it ends without waiting for anything.
    async fn stop(self) {
        let before = Instant::now();
        self.cancel.cancel();
        self.task.await.expect("the run does not panic");
        assert_eq!(before.elapsed(), Duration::ZERO, "cancelling took time");
    }
}

fn server() -> FakeControllerSource {
    FakeControllerSource::new(config_maps())
}

/// Bounds a wait by far more (paused) time than anything may take.
async fn soon<T>(wait: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(3600), wait).await.expect("it never came")
}
