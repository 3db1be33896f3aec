//! [`parallelize_until`]: numbered pieces of work on a few tasks, client-go's `ParallelizeUntil`.
//!
//! Invariants: each piece is handed out once, in ascending order of chunks; a piece starts only while the token is not
//! cancelled; no task outlives the future that started it, except for the piece that a thread is polling. Independent of the
//! queue; called by users of the crate.

use std::future::Future;
use std::mem;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::task::coop::consume_budget;
use tokio_util::sync::CancellationToken;

/// How many pieces of work there are, and how many of them a worker takes at a time.
///
/// A plain number of pieces converts to it, with chunks of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pieces {
    count: usize,
    chunk: usize,
}

impl Pieces {
    /// `count` pieces, taken in chunks of `chunk` neighbours; a chunk of 0 is one of 1, as in client-go.
    #[must_use]
    pub fn chunked(count: usize, chunk: usize) -> Self {
        Self { count, chunk: chunk.max(1) }
    }
}

impl From<usize> for Pieces {
    fn from(count: usize) -> Self {
        Self::chunked(count, 1)
    }
}

/// The result of [`parallelize_until`]; each piece is counted once.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "pieces may have panicked, or may not have been run"]
#[non_exhaustive]
pub struct Parallelized {
    /// Pieces that ended.
    pub finished: usize,
    /// The numbers of the pieces that panicked, in ascending order.
    pub panicked: Vec<usize>,
    /// Pieces that were not run: the token was cancelled, there were no workers, or the runtime was shut down (then also
    /// those it aborted).
    pub unfinished: usize,
}

/// Runs `work(piece)` for every piece from 0 on, on at most `workers` tasks at once, until all have been run or `cancel` is
/// cancelled.
///
/// - The tasks are spawned on the current runtime; there are never more of them than chunks.
/// - Each worker looks at `cancel` before each piece, also within a chunk. Pieces that run are waited for.
/// - A panic loses its own piece only and is reported in the result. (client-go's ends the process or the worker.)
/// - Dropping the future starts no further piece and drops those that run at their next await.
///
/// # Panics
/// Outside a tokio runtime, unless there is nothing to do.
///
/// ```
/// use pilothouse_workqueue::{Pieces, parallelize_until};
/// use tokio_util::sync::CancellationToken;
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let pieces = Pieces::chunked(1_000, 50);
/// let result = parallelize_until(&CancellationToken::new(), 4, pieces, |piece| async move {
///     assert_ne!(piece, 13, "no luck");
/// })
/// .await;
/// assert_eq!((result.finished, &result.panicked[..], result.unfinished), (999, &[13][..], 0));
/// # }
/// ```
pub async fn parallelize_until<W, F>(
    cancel: &CancellationToken,
    workers: usize,
    pieces: impl Into<Pieces>,
    work: W,
) -> Parallelized
where
    W: Fn(usize) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let Pieces { count, chunk } = pieces.into();
    let cancel = cancel.child_token();
    // Aborting a task ends it at its next await only.
    let _cancels_when_dropped = cancel.clone().drop_guard();
    let (starts, finished) = (Mutex::new((0..count).step_by(chunk)), AtomicUsize::new(0));
    let run = Arc::new((work, starts, finished, Mutex::new(Vec::new())));
    let worker = |_| {
        let (run, cancel) = (Arc::clone(&run), cancel.clone());
        async move {
            let (work, starts, finished, panicked) = &*run;
            loop {
                let Some(start) = starts.lock().next() else { return };
                for piece in start..start.saturating_add(chunk).min(count) {
                    // Pieces that never wait would otherwise never let other tasks of the thread run.
                    consume_budget().await;
                    if cancel.is_cancelled() {
                        return;
                    }
                    // The future is not polled again after a panic, and state that pieces share is the caller's.
                    match AssertUnwindSafe(async { work(piece).await }).catch_unwind().await {
                        Ok(()) => drop(finished.fetch_add(1, Ordering::Release)),
                        Err(_) => panicked.lock().push(piece),
                    }
                }
            }
        }
    };
    let mut tasks: JoinSet<()> = (0..workers.min(count.div_ceil(chunk))).map(worker).collect();
    while tasks.join_next().await.is_some() {}
    let (_, _, finished, panicked) = &*run;
    let (finished, mut panicked) = (finished.load(Ordering::Acquire), mem::take(&mut *panicked.lock()));
    panicked.sort_unstable();
    Parallelized { finished, unfinished: count - finished - panicked.len(), panicked }
}
