//! [`yield_after_slice`]: lets other tasks run when a poll has taken long.
//!
//! A task that always finds work never returns from its poll by itself. It asks here after each piece of work.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

/// The longest that a poll goes on with further pieces of work. A guest yields every 10 ms; a hundred short calls are shorter.
const SLICE: Duration = Duration::from_millis(1);

/// The most pieces of a poll, more than usually take a millisecond. A test that pauses tokio's clock has this bound alone, so
/// its tasks run in an order that does not depend on the machine.
const MAX_PIECES: u32 = 1000;

thread_local! {
    /// The poll of this thread: when it began, by tokio's clock, and its pieces of work.
    static POLL: Cell<Option<(Instant, u32)>> = const { Cell::new(None) };
}

/// A poll begins on this thread.
pub(crate) fn begin() {
    POLL.set(Some((Instant::now(), 0)));
}

/// Lets other tasks run if this poll has lasted for a millisecond, or for a thousand pieces of work. Outside of an executor it
/// does nothing.
pub async fn yield_after_slice() {
    yield_after_slice_at(Instant::now).await;
}

/// Does the same for a caller that has read the clock when its piece of work ended: `now` returns that.
pub async fn yield_after_slice_at(now: impl FnOnce() -> Instant) {
    let Some((began, pieces)) = POLL.get() else { return };
    POLL.set(Some((began, pieces + 1)));
    if pieces + 1 < MAX_PIECES && now().duration_since(began) < SLICE {
        return;
    }
    let mut has_yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
