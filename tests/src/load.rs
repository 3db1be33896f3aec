//! [`Load`]: an operation repeated at a steady pace in the background, while a test does something to the host.
//!
//! Invariants: operations are begun at the pace asked for on average, also if some take long, up to
//! `MOST_AT_ONCE` at a time; a failed one is counted and not repeated; after [`Load::stop`] none is under way.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::MissedTickBehavior;

use crate::poll;

/// How many operations may be under way at once.
const MOST_AT_ONCE: usize = 32;

/// What a load has done.
#[derive(Debug, Clone)]
pub struct Tally {
    /// Operations that have ended, well or badly.
    pub done: u64,
    /// Operations that failed.
    pub failed: u64,
    /// What the first of these complained of.
    pub first_failure: Option<String>,
    /// From the first operation to the last.
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

/// A load in the background; it stops when dropped, without waiting for the operations under way.
pub struct Load {
    shared: Arc<Shared>,
    runtime: Handle,
    task: Option<JoinHandle<()>>,
    began: Instant,
}

impl Load {
    /// Begins to run `operation`, which is told its number from 0, so many times a second.
    pub fn start<F, Fut>(runtime: &Handle, per_second: u32, operation: F) -> Load
    where
        F: Fn(u64) -> Fut + Send + 'static,
        Fut: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let shared = Arc::<Shared>::default();
        let task = runtime.spawn(drive(shared.clone(), per_second, operation));
        Load { shared, runtime: runtime.clone(), task: Some(task), began: Instant::now() }
    }

    /// How many operations have begun.
    pub fn begun(&self) -> u64 {
        self.shared.begun.load(Ordering::Relaxed)
    }

    /// Waits until so many operations have begun since the start.
    pub fn wait_begun(&self, count: u64, deadline: Duration) -> anyhow::Result<()> {
        poll::until(&format!("{count} operations of the load"), deadline, || match self.begun() {
            begun if begun >= count => Ok(true),
            begun => Err(format!("{begun} begun")),
        })
    }

    /// Begins no more operations, waits for those under way and tells what was done.
    pub fn stop(mut self) -> Tally {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(task) = self.task.take() {
            // A panic of an operation was caught by its own task.
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
