//! [`Registration`]: one listener's place in an informer.

use std::sync::Arc;

use tokio::sync::watch;

use crate::listener::Listener;

/// Takes a listener out of its informer: what a registration needs of it.
pub(crate) trait Remove: Send + Sync {
    /// Returns when no call to the listener is running or will come. From inside a call of a listener it does not wait: a
    /// call that is running, as that of a listener that removes itself, is then the last one.
    fn remove_listener(&self, id: u64);
}

/// One listener's place in an informer. Dropping it takes the listener out.
#[must_use = "dropping it removes the listener"]
pub struct Registration {
    id: u64,
    informer: Arc<dyn Remove>,
    listener: Arc<dyn Listener>,
    /// Whether the initial list has been handed to the listener.
    delivered: watch::Receiver<bool>,
    /// Whether the informer has ended.
    ended: watch::Receiver<bool>,
}

impl Registration {
    pub(crate) fn new(
        id: u64,
        informer: Arc<dyn Remove>,
        listener: Arc<dyn Listener>,
        delivered: watch::Receiver<bool>,
        ended: watch::Receiver<bool>,
    ) -> Self {
        Self { id, informer, listener, delivered, ended }
    }

    /// Whether the listener has been told of everything that was there when it joined, and is done with it.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        *self.delivered.borrow() && self.listener.synced().is_none_or(|synced| *synced.borrow())
    }

    /// Waits for [`has_synced`](Self::has_synced). `false`: the informer ended before.
    pub async fn wait_synced(&self) -> bool {
        let (mut delivered, mut ended) = (self.delivered.clone(), self.ended.clone());
        let synced = async {
            delivered.wait_for(|delivered| *delivered).await.is_ok()
                && match self.listener.synced() {
                    Some(mut synced) => synced.wait_for(|synced| *synced).await.is_ok(),
                    None => true,
                }
        };
        tokio::select! {
            biased;
            synced = synced => synced,
            _ = ended.wait_for(|ended| *ended) => false,
        }
    }

    /// Takes the listener out; when this returns nothing is called any more. (From inside a call of a listener, its own or
    /// another one, this does not wait: a call that is running is then the last one.)
    pub fn remove(self) {}
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.informer.remove_listener(self.id);
    }
}

impl std::fmt::Debug for Registration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Registration").field("id", &self.id).field("synced", &self.has_synced()).finish()
    }
}
