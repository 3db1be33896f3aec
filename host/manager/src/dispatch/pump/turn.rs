//! [`Turn`]: the right to call the handler of one watch.
//!
//! A watch has a pump for each informer of its kind, and the contract promises one call of a watch at a time. A generation
//! takes over the turns of watches by their names, so calls do not overlap over a reload either.
//!
//! Invariant: a pump that waits for its turn has no lease of an instance, since the pump whose turn it is may wait for one.

use std::sync::Arc;

use tokio::sync::{Mutex, MutexGuard};

use crate::dispatch::instance_pool::WarmInstance;

/// Shared by the pumps of a watch; a clone is the same turn.
#[derive(Clone, Default)]
pub(crate) struct Turn(Arc<Mutex<()>>);

impl Turn {
    /// Waits until no other pump of the watch calls; they come in the order in which they began to wait. Cancel-safe.
    pub(super) async fn take(&self, warm: &mut WarmInstance) -> MutexGuard<'_, ()> {
        if let Ok(turn) = self.0.try_lock() {
            return turn;
        }
        warm.release();
        self.0.lock().await
    }
}
