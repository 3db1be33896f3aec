//! hyper's tasks and timers on the runtime of the connections, whichever runtime a call comes from: guests run in one of
//! their own, and must not end a connection when it ends. `pool` uses this.

use std::pin::Pin;
use std::time::{Duration, Instant};

use hyper::rt::{Executor, Sleep, Timer};
use hyper_util::rt::TokioTimer;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

/// Spawns the tasks of a connection, which end when `closing` is cancelled.
#[derive(Clone)]
pub(super) struct RuntimeExecutor {
    pub(super) runtime: Handle,
    pub(super) closing: CancellationToken,
}

impl<F> Executor<F> for RuntimeExecutor
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, future: F) {
        self.runtime.spawn(self.closing.clone().run_until_cancelled_owned(future));
    }
}

/// Timers of the transport's runtime; those of the caller's runtime would end with it.
#[derive(Clone)]
pub(super) struct RuntimeTimer(pub(super) Handle);

impl Timer for RuntimeTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        let _in_runtime = self.0.enter();
        TokioTimer::new().sleep(duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        let _in_runtime = self.0.enter();
        TokioTimer::new().sleep_until(deadline)
    }

    fn now(&self) -> Instant {
        let _in_runtime = self.0.enter();
        TokioTimer::new().now()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn Sleep>>, new_deadline: Instant) {
        TokioTimer::new().reset(sleep, new_deadline);
    }
}
