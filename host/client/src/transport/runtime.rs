//! hyper's tasks and timers on the runtime of the connections, whichever runtime a call comes from: guests run in one of
//! their own, and must not end a connection when it ends. `pool` uses this.

use std::pin::Pin;
use std::time::{Duration, Instant};

use hyper::rt::{Executor, Sleep, Timer};
use hyper_util::rt::TokioTimer;
use tokio::runtime::Handle;

/// Spawns tasks of connections.
#[derive(Clone)]
pub(crate) struct RuntimeExecutor(pub(crate) Handle);

impl<F> Executor<F> for RuntimeExecutor
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, future: F) {
        self.0.spawn(future);
    }
}

/// Timers of the transport's runtime; those of the caller's runtime would end with it.
#[derive(Clone)]
pub(crate) struct RuntimeTimer(pub(crate) Handle);

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
