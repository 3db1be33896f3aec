//! The executor as one task of a tokio runtime, for tests.
//!
//! On a paused clock tokio moves time when no task can run, so the tasks of groups must be polled by tokio itself.

use std::sync::Arc;

use crate::executor::{Shared, Sleep};
use crate::thread::{cpu_clock, poll};

/// Polls tasks, one after the other, and lets other tasks of the runtime run in between.
pub(crate) async fn run(shared: Arc<Shared>) {
    let Sleep::Task(notify) = &shared.sleep else { return };
    loop {
        // A task that is scheduled from here on is noticed by the wait below.
        let scheduled = notify.notified();
        while let Some((group, runnable)) = shared.try_next() {
            let polled = poll(group, runnable, &mut cpu_clock());
            shared.charge(polled);
            tokio::task::yield_now().await;
        }
        scheduled.await;
    }
}
