//! The log of one thread: what a test sees of the lines that its own code writes.

use std::sync::LazyLock;

use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Subscriber};

/// Gives `subscriber` the lines of this thread until the guard is dropped.
///
/// Other tests of the process may run meanwhile. While there is one subscriber, tracing asks only the thread that comes to a
/// line first whether anybody wants it, and keeps the answer; that may be the thread of a test that wants none. So there is
/// always another one, and tracing asks all.
pub fn subscribe(subscriber: impl Subscriber + Send + Sync + 'static) -> DefaultGuard {
    static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));
    LazyLock::force(&ANOTHER);
    tracing::subscriber::set_default(subscriber)
}
