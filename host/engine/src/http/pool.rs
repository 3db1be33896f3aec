//! [`Pool`]: the connections of one generation of a plugin, kept alive between requests and never more than
//! [`MAX_CONNECTIONS`], idle ones included.
//!
//! A request holds a permit from before it has a connection until its response is read or dropped. A connection goes back only after
//! an exchange that both sides finished; any other is closed.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::connection::Connection;
use super::destination::Destination;
use super::{IDLE_TIMEOUT, MAX_CONNECTIONS};

/// The connections of one generation.
pub(super) struct Pool {
    permits: Arc<Semaphore>,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle {
    /// The one that has been idle longest comes first.
    connections: Vec<(Destination, Connection, Instant)>,
    /// A task waits for the oldest to become too old.
    swept: bool,
}

impl Pool {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { permits: Arc::new(Semaphore::new(MAX_CONNECTIONS)), idle: Mutex::default() })
    }

    /// Waits until another request may begin.
    pub(super) async fn permit(&self) -> Result<OwnedSemaphorePermit, AcquireError> {
        Arc::clone(&self.permits).acquire_owned().await
    }

    /// An idle connection to a destination: the one used last, which is the least likely to be closed by the server at this moment.
    pub(super) fn take(&self, to: &Destination) -> Option<Connection> {
        let mut idle = self.idle.lock();
        idle.connections.retain(|(_, connection, since)| {
            !connection.sender.is_closed() && since.elapsed() < IDLE_TIMEOUT
        });
        let found = idle.connections.iter().rposition(|(destination, ..)| destination == to)?;
        Some(idle.connections.remove(found).1)
    }

    /// Closes idle connections so that the caller, who holds a permit, can open another one.
    pub(super) fn make_room(&self) {
        let mut idle = self.idle.lock();
        let in_use = MAX_CONNECTIONS - self.permits.available_permits();
        let keep = MAX_CONNECTIONS.saturating_sub(in_use);
        let excess = idle.connections.len().saturating_sub(keep);
        idle.connections.drain(..excess);
    }

    /// Keeps a connection for the next request; called within the runtime of the connections.
    pub(super) fn keep(self: &Arc<Self>, to: Destination, connection: Connection) {
        let mut idle = self.idle.lock();
        idle.connections.push((to, connection, Instant::now()));
        if !std::mem::replace(&mut idle.swept, true) {
            let pool = Arc::downgrade(self);
            tokio::spawn(async move {
                while let Some(oldest) = pool.upgrade().and_then(|pool| pool.sweep()) {
                    tokio::time::sleep_until(oldest + IDLE_TIMEOUT).await;
                }
            });
        }
    }

    /// Closes what has been idle for too long; since when the oldest that remains is.
    fn sweep(&self) -> Option<Instant> {
        let mut idle = self.idle.lock();
        idle.connections.retain(|(_, _, since)| since.elapsed() < IDLE_TIMEOUT);
        let oldest = idle.connections.first().map(|(_, _, since)| *since);
        idle.swept = oldest.is_some();
        oldest
    }
}
