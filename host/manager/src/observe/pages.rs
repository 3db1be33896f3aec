//! [`Pages`]: the large pages of the admin address. Their size is that of all plugins, and a scraper chooses how often they are
//! made: they are made on the threads for such work, one at a time, and not on the thread of the listener.

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::manager::Manager;
use crate::observe::metrics::Metrics;
use crate::observe::recent_log::RecentLog;

/// Makes pages; a cheap clone.
#[derive(Clone)]
pub(crate) struct Pages {
    manager: Manager,
    metrics: Metrics,
    work: Handle,
    turn: Arc<Semaphore>,
}

impl Pages {
    pub(crate) fn new(manager: Manager, metrics: Metrics) -> Self {
        let work = manager.work().clone();
        Self { manager, metrics, work, turn: Arc::new(Semaphore::new(1)) }
    }

    /// All metrics, as text.
    ///
    /// # Errors
    /// While the host ends.
    pub(crate) async fn metrics(&self) -> Result<Bytes, String> {
        let metrics = self.metrics.clone();
        self.make(move || Ok(metrics.encode().into())).await
    }

    /// The status of all plugins, as JSON.
    ///
    /// # Errors
    /// While the host ends.
    pub(crate) async fn plugins(&self) -> Result<Bytes, String> {
        let manager = self.manager.clone();
        self.make(move || json(&manager.status())).await
    }

    /// The status of all plugins with what they have done and use, as JSON.
    ///
    /// # Errors
    /// While the host ends.
    pub(crate) async fn usage(&self) -> Result<Bytes, String> {
        let manager = self.manager.clone();
        self.make(move || json(&manager.usage())).await
    }

    /// The caches, as JSON.
    ///
    /// # Errors
    /// While the host ends.
    pub(crate) async fn caches(&self) -> Result<Bytes, String> {
        let manager = self.manager.clone();
        self.make(move || json(&manager.caches())).await
    }

    /// The lines of the log after that of this number, as JSON.
    ///
    /// # Errors
    /// While the host ends.
    pub(crate) async fn log(&self, log: RecentLog, after: u64) -> Result<Bytes, String> {
        self.make(move || json(&log.after(after))).await
    }

    async fn make(
        &self,
        page: impl FnOnce() -> Result<Bytes, String> + Send + 'static,
    ) -> Result<Bytes, String> {
        let turn = Arc::clone(&self.turn).acquire_owned().await.map_err(|e| e.to_string())?;
        // On a thread of its own: a thousand plugins are some ten milliseconds.
        let making = self.work.spawn_blocking(move || {
            let page = page();
            // A scraper that goes away does not let the next one in before this is done.
            drop(turn);
            page
        });
        making.await.map_err(|e| e.to_string())?
    }
}

fn json(page: &impl Serialize) -> Result<Bytes, String> {
    serde_json::to_vec(page).map(Bytes::from).map_err(|e| e.to_string())
}
