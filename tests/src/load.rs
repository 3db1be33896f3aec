//! [`Load`]: repeats an operation at a constant rate in the background, while a test acts on the host.
//!
//! Invariants: on average operations begin at the requested rate, also if some take long, with up to `MOST_AT_ONCE`
//! running at a time; a failed operation is counted and not repeated; after [`Load::stop`] none is running.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::MissedTickBehavior;

use crate::poll;

/// Maximum number of concurrent operations.
const MOST_AT_ONCE: usize = 32;

/// The result of a load.
#[derive(Debug, Clone)]
pub struct Tally {
    /// Number of operations that have ended, including failed ones.
    pub done: u64,
    /// Number of failed operations.
    pub failed: u64,
    /// The error of the first failed operation.
    pub first_failure: Option<String>,
    /// Time from the first operation to the last.
    pub elapsed: Duration,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    begun: AtomicU64,
    done: AtomicU64,
    failed: AtomicU64,
    first_failure: Mutex<Option<String>>,
}

/// A running load. Dropping it stops it without waiting for the running operations.
pub struct Load {
    shared: Arc<Shared>,
    runtime: Handle,
    task: Option<JoinHandle<()>>,
    began: Instant,
}

impl Load {
    /// Starts to run `operation` `per_second` times a second. Its argument is its number, from 0.
    pub fn start<F, Fut>(runtime: &Handle, per_second: u32, operation: F) -> Load
    where
        F: Fn(u64) -> Fut + Send + 'static,
        Fut: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let shared = Arc::<Shared>::default();
        let task = runtime.spawn(drive(shared.clone(), per_second, operation));
        Load { shared, runtime: runtime.clone(), task: Some(task), began: Instant::now() }
    }

    /// Number of operations that have begun.
    pub fn begun(&self) -> u64 {
        self.shared.begun.load(Ordering::Relaxed)
    }

    /// Waits until `count` operations have begun since the start.
    pub fn wait_begun(&self, count: u64, deadline: Duration) -> anyhow::Result<()> {
        poll::until(&format!("{count} operations of the load"), deadline, || match self.begun() {
            begun if begun >= count => Ok(true),
            begun => Err(format!("{begun} begun")),
        })
    }

    /// Stops the load, waits for the running operations and returns the result.
    pub fn stop(mut self) -> Tally {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(task) = self.task.take() {
            // An operation runs in its own task, which catches a panic.
            let _ = self.runtime.block_on(task);
        }
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let first = self.shared.first_failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Tally {
            done: count(&self.shared.done),
            failed: count(&self.shared.failed),
            first_failure: first,
            elapsed: self.began.elapsed(),
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

async fn drive<F, Fut>(shared: Arc<Shared>, per_second: u32, operation: F)
where
    F: Fn(u64) -> Fut,
    Fut: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / per_second.max(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let places = Arc::new(Semaphore::new(MOST_AT_ONCE));
    let mut under_way = JoinSet::new();
    while !shared.stop.load(Ordering::Relaxed) {
        ticks.tick().await;
        let Ok(place) = places.clone().acquire_owned().await else { break };
        let number = shared.begun.fetch_add(1, Ordering::Relaxed);
        let work = operation(number);
        let shared = shared.clone();
        under_way.spawn(async move {
            let result = work.await;
            if let Err(error) = result {
                shared.failed.fetch_add(1, Ordering::Relaxed);
                let mut first = shared.first_failure.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert_with(|| format!("operation {number}: {error:#}"));
            }
            shared.done.fetch_add(1, Ordering::Relaxed);
            drop(place);
        });
        while under_way.try_join_next().is_some() {}
    }
    under_way.join_all().await;
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn a_load_keeps_its_pace_and_counts_failures() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let load = Load::start(runtime.handle(), 200, |number| async move {
            if number % 2 == 1 {
                bail!("odd");
            }
            Ok(())
        });
        load.wait_begun(40, Duration::from_secs(20)).unwrap();
        let tally = load.stop();
        assert!(tally.done >= 40 && tally.elapsed >= Duration::from_millis(195), "{tally:?}");
        assert_eq!(tally.failed, tally.done / 2);
        assert_eq!(tally.first_failure.as_deref(), Some("operation 1: odd"));
    }
}
