//! [`Flights`]: lets one fetch of a name run at a time.
//!
//! Invariant: a name is in the table only while somebody fetches it or waits to, also when they give up: guests choose
//! names, and their calls have deadlines.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::types::GroupVersion;

/// What is being fetched.
#[derive(Default)]
pub(super) struct Flights {
    /// By what is being fetched; a group's own document has no version.
    names: Mutex<HashMap<GroupVersion, Lock>>,
}

type Lock = Arc<tokio::sync::Mutex<()>>;

/// Somebody who fetches or waits.
struct Passenger<'a> {
    flights: &'a Flights,
    name: &'a GroupVersion,
    lock: Option<Lock>,
}

impl Flights {
    /// Runs a fetch while no other of this name runs.
    pub(super) async fn alone<T>(&self, name: &GroupVersion, fetch: impl Future<Output = T>) -> T {
        let lock = Arc::clone(self.names.lock().entry(name.clone()).or_default());
        let _passenger = Passenger { flights: self, name, lock: Some(Arc::clone(&lock)) };
        // Gone before the passenger is, since it would count.
        let _guard = lock.lock_owned().await;
        fetch.await
    }
}

impl Drop for Passenger<'_> {
    fn drop(&mut self) {
        let mut names = self.flights.names.lock();
        // Under the table's lock, so that of the last two one sees that it is the last.
        drop(self.lock.take());
        if names.get(self.name).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            names.remove(self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const SHORT: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_leaves_no_name() {
        let flights = Flights::default();
        let name = GroupVersion::new("apps", "v1");
        let first = timeout(SHORT, flights.alone(&name, pending::<()>()));
        let waiting = timeout(SHORT * 2, flights.alone(&name, pending::<()>()));
        let during = async {
            tokio::time::sleep(SHORT / 2).await;
            let one = flights.names.lock().len();
            tokio::time::sleep(SHORT).await;
            (one, flights.names.lock().len())
        };
        let (first, waiting, during) = tokio::join!(first, waiting, during);
        assert!(first.is_err() && waiting.is_err());
        assert_eq!(during, (1, 1), "one still waits or fetches");
        assert!(flights.names.lock().is_empty());
        assert_eq!(flights.alone(&name, async { 7 }).await, 7);
        assert!(flights.names.lock().is_empty());
    }
}
