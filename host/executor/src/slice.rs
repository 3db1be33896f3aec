//! [`yield_after_slice`]: lets other tasks run when a poll has taken long.
//!
//! A task that always finds work never returns from its poll by itself. It asks here after each piece of work.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};

/// The longest that a poll goes on with further pieces of work. A guest yields every 10 ms; a hundred short calls are shorter.
const SLICE: Duration = Duration::from_millis(1);

thread_local! {
    /// When the poll of this thread began.
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// A poll begins on this thread.
pub(crate) fn begin() {
    BEGAN.set(Some(Instant::now()));
}

/// Lets other tasks run if this poll has lasted for a millisecond. Outside of an executor it does nothing.
pub async fn yield_after_slice() {
    let is_over = BEGAN.get().is_some_and(|began| began.elapsed() >= SLICE);
    if is_over {
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
}
