//! [`LoadSlots`]: how many loads work at once, so that a start of many plugins does not hold all their components in memory.
//!
//! A component whose compilation takes long gives its slot back, so that it does not hold up plugins whose components are
//! quick or in the compile cache. A few such components may go on; others are tried again later.

use std::pin::pin;
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

/// Components that go on without a slot.
const SLOW: usize = 4;

/// Time after which a component gives its slot back.
pub(crate) const SLOW_AFTER: Duration = Duration::from_secs(20);

pub(crate) struct LoadSlots {
    prepare: Semaphore,
    slow: Semaphore,
    describe: Semaphore,
}

/// The slots are as many as cores, and some more, since a load may wait for a disk.
impl Default for LoadSlots {
    fn default() -> Self {
        let count = std::thread::available_parallelism().map_or(4, std::num::NonZero::get).max(4);
        Self { prepare: Semaphore::new(count), slow: Semaphore::new(SLOW), describe: Semaphore::new(count) }
    }
}

impl LoadSlots {
    /// Waits for a slot to prepare a component.
    pub(crate) async fn prepare(&self) -> Result<SemaphorePermit<'_>, String> {
        self.prepare.acquire().await.map_err(|e| e.to_string())
    }

    /// Runs work for which a slot was had. Work that takes long gives the slot back, and goes on among the slow components.
    ///
    /// # Errors
    /// When there are too many of these: the work ends.
    pub(crate) async fn run<T>(
        &self,
        slot: SemaphorePermit<'_>,
        work: impl Future<Output = T>,
    ) -> Result<T, String> {
        let mut work = pin!(work);
        if let Ok(done) = tokio::time::timeout(SLOW_AFTER, &mut work).await {
            return Ok(done);
        }
        let _slow = self.try_slow()?;
        drop(slot);
        Ok(work.await)
    }

    /// A place among the slow components, if one is free.
    fn try_slow(&self) -> Result<SemaphorePermit<'_>, String> {
        self.slow.try_acquire().map_err(|_| format!("{SLOW} other components take long to compile"))
    }

    /// Waits for a slot to call `describe`.
    pub(crate) async fn describe(&self) -> Result<SemaphorePermit<'_>, String> {
        self.describe.acquire().await.map_err(|e| e.to_string())
    }
}
