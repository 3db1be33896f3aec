//! [`metered`]: accounts for the work that requests of a plugin cause on the runtime of connections.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use super::client::HttpObserver;

/// Runs `work`, and tells the observer how long each step took.
pub(super) async fn metered<F: Future>(work: F, observer: Arc<dyn HttpObserver>) -> F::Output {
    let mut work = pin!(work);
    std::future::poll_fn(|cx| {
        let began = Instant::now();
        let polled = work.as_mut().poll(cx);
        observer.worked(began.elapsed());
        polled
    })
    .await
}
