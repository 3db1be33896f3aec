//! [`Lanes`]: how many compilations run, so that a slow one does not hold the others.
//!
//! Each compilation begins in the quick lane, one at a time. One that takes longer than [`QUICK`] while others wait is
//! ended and starts again in the slow lane, one at a time as well: a component that is made to compile for minutes delays
//! every other one by `QUICK` once, and from then on only those that are slow themselves. At most two compilations
//! run, so that memory and CPU time stay within bounds.

use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

use super::WORKER_TIMEOUT;
use crate::error::LoadError;

/// Time in the quick lane that a compilation has while others wait: many times what a guest with all of k8s-openapi takes
/// in a release build, for the worker has a low priority and the machine may be busy.
const QUICK: Duration = Duration::from_secs(60);

pub(crate) struct Lanes {
    quick: Semaphore,
    slow: Semaphore,
    /// Number of compilations that wait for the quick lane.
    waiting: watch::Sender<usize>,
}

/// Counts a compilation as waiting until it is dropped.
struct Waiting<'a>(&'a watch::Sender<usize>);

impl<'a> Waiting<'a> {
    fn new(count: &'a watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Lanes {
    pub(crate) fn new() -> Self {
        Self { quick: Semaphore::new(1), slow: Semaphore::new(1), waiting: watch::Sender::new(0) }
    }

    /// Runs a compilation when it is its turn; dropping the future of `compile` must end it. It is called a second time
    /// when the first was ended in favour of others.
    pub(crate) async fn run<T, F>(&self, compile: impl Fn() -> F) -> Result<T, LoadError>
    where
        F: Future<Output = Result<T, LoadError>>,
    {
        let closed = |e: tokio::sync::AcquireError| LoadError::Stopped(e.to_string());
        {
            let waiting = Waiting::new(&self.waiting);
            let _turn = self.quick.acquire().await.map_err(closed)?;
            drop(waiting);
            tokio::select! {
                done = timeout(WORKER_TIMEOUT, compile()) => return done.map_err(|_| too_slow())?,
                () = self.others_wait() => {}
            }
        }
        let _turn = self.slow.acquire().await.map_err(closed)?;
        timeout(WORKER_TIMEOUT, compile()).await.map_err(|_| too_slow())?
    }

    /// Returns when the time in the quick lane is over and another compilation waits for it.
    async fn others_wait(&self) {
        sleep(QUICK).await;
        // The sender is not dropped meanwhile.
        let _ = self.waiting.subscribe().wait_for(|count| *count > 0).await;
    }
}

fn too_slow() -> LoadError {
    LoadError::Stopped(format!("stopped after {WORKER_TIMEOUT:?}"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use tokio::time::Instant;

    use super::*;

    /// A compilation that takes this time; returns when it ended, and how often it began.
    async fn compiled(lanes: &Lanes, takes: Duration) -> (Result<(), LoadError>, Duration, usize) {
        let (began, tries) = (Instant::now(), AtomicUsize::new(0));
        let outcome = lanes
            .run(|| async {
                tries.fetch_add(1, Relaxed);
                sleep(takes).await;
                Ok(())
            })
            .await;
        (outcome, began.elapsed(), tries.load(Relaxed))
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn alone_a_slow_compilation_is_let_finish() {
        let (outcome, took, tries) = compiled(&Lanes::new(), 100 * SECOND).await;
        assert!(outcome.is_ok());
        assert_eq!((took, tries), (100 * SECOND, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn bombs_delay_the_others_by_their_time_in_the_quick_lane_alone() {
        let lanes = Lanes::new();
        let bomb = || compiled(&lanes, 10_000 * SECOND);
        let small = || compiled(&lanes, SECOND);
        let (first, second, one, two) = tokio::join!(bomb(), bomb(), small(), small());
        assert!(one.0.is_ok() && two.0.is_ok());
        assert_eq!((one.1, two.1), (2 * QUICK + SECOND, 2 * QUICK + 2 * SECOND));
        // Both are stopped at last, one after the other.
        assert!(first.0.is_err() && second.0.is_err());
        assert_eq!((first.1, first.2), (QUICK + WORKER_TIMEOUT, 2));
        assert_eq!((second.1, second.2), (QUICK + 2 * WORKER_TIMEOUT, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_comes_while_a_slow_one_runs_takes_its_place() {
        let lanes = Lanes::new();
        let slow = compiled(&lanes, 100 * SECOND);
        let late = async {
            sleep(60 * SECOND).await;
            compiled(&lanes, SECOND).await
        };
        let (slow, late) = tokio::join!(slow, late);
        assert_eq!((late.1, late.2), (SECOND, 1));
        assert_eq!((slow.1, slow.2), (160 * SECOND, 2));
    }
}
