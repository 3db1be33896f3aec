//! [`ConnectionPool`]: the keep-alive connections of one generation of a plugin, at most [`MAX_CONNECTIONS`] including
//! idle ones.
//!
//! A request acquires a permit before it gets a connection, and releases it when its response is read or dropped. A
//! connection returns to the pool only after both sides completed the exchange; otherwise it is closed.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::connection::Connection;
use super::destination::Destination;
use super::{IDLE_TIMEOUT, MAX_CONNECTIONS};

/// The connections of one generation.
pub(super) struct ConnectionPool {
    permits: Arc<Semaphore>,
    idle: Mutex<IdleConnections>,
}

#[derive(Default)]
struct IdleConnections {
    /// Ordered by idle time; the longest first.
    connections: Vec<(Destination, Connection, Instant)>,
    /// Whether a task is running that closes connections when they become too old.
    swept: bool,
}

impl ConnectionPool {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { permits: Arc::new(Semaphore::new(MAX_CONNECTIONS)), idle: Mutex::default() })
    }

    /// Waits for the permit to make a request.
    pub(super) async fn permit(&self) -> Result<OwnedSemaphorePermit, AcquireError> {
        Arc::clone(&self.permits).acquire_owned().await
    }

    /// Takes an idle connection to a destination: the most recently used one, which the server is least likely to close
    /// now.
    pub(super) fn take(&self, to: &Destination) -> Option<Connection> {
        let mut idle = self.idle.lock();
        idle.connections.retain(|(_, connection, since)| {
            !connection.sender.is_closed() && since.elapsed() < IDLE_TIMEOUT
        });
        let found = idle.connections.iter().rposition(|(destination, ..)| destination == to)?;
        Some(idle.connections.remove(found).1)
    }

    /// Closes the oldest idle connections until the limit allows another one. The caller must hold a permit.
    pub(super) fn make_room(&self) {
        let mut idle = self.idle.lock();
        let in_use = MAX_CONNECTIONS - self.permits.available_permits();
        let keep = MAX_CONNECTIONS.saturating_sub(in_use);
        let excess = idle.connections.len().saturating_sub(keep);
        idle.connections.drain(..excess);
    }

    /// Stores a connection for the next request. The caller must be in the runtime of the connections.
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

    /// Closes connections that were idle for too long. Returns the start of the longest idle time that remains.
    fn sweep(&self) -> Option<Instant> {
        let mut idle = self.idle.lock();
        idle.connections.retain(|(_, _, since)| since.elapsed() < IDLE_TIMEOUT);
        let oldest = idle.connections.first().map(|(_, _, since)| *since);
        idle.swept = oldest.is_some();
        oldest
    }
}
