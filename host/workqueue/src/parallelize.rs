//! [`parallelize_until`]: numbered pieces of work on a few tasks, client-go's `ParallelizeUntil`.
//!
//! Invariants: each piece is handed out once, in ascending order of chunks; a piece starts only while the token is not
//! cancelled; no task outlives the future that started it, except for the piece that a thread is polling. Independent of the
//! queue; called by users of the crate.

use std::future::Future;
use std::iter::StepBy;
use std::mem;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, resume_unwind};
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
    ///
    /// Chunks pay where there are far more pieces than workers and a piece takes less than a microsecond or so.
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
    /// Pieces that panicked, in ascending order.
    pub panicked: Vec<PanickedPiece>,
    /// Pieces that were not run: the token was cancelled, there were no workers, or the runtime was shut down (then also
    /// those it aborted).
    pub unfinished: usize,
}

/// A piece that panicked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct PanickedPiece {
    /// The number of the piece.
    pub piece: usize,
    /// The message of the panic; empty if its payload is no text.
    pub message: String,
}

/// Runs `work(piece)` for every piece from 0 on, on at most `workers` tasks at once, until all have been run or `cancel` is
/// cancelled.
///
/// - The tasks are spawned on the current runtime and use its threads; there are never more of them than chunks. A
///   piece should not block its thread for long (`tokio::task::spawn_blocking` is for that).
/// - Each worker looks at `cancel` before each piece, also within a chunk. Pieces that run are waited for.
/// - A panic loses its own piece only and is reported in the result. (client-go's ends the process or the worker.)
/// - Without workers no piece is run, as in client-go.
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
/// assert_eq!((result.finished, result.panicked[0].piece, result.unfinished), (999, 13, 0));
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
    let starts = Mutex::new((0..count).step_by(chunk));
    let run =
        Arc::new(Run { work, cancel, count, chunk, starts, finished: 0.into(), panicked: Mutex::default() });
    let workers = workers.min(count.div_ceil(chunk));
    let mut tasks: JoinSet<()> = (0..workers).map(|_| Arc::clone(&run).worker()).collect();
    while let Some(ended) = tasks.join_next().await {
        // Panics of pieces are caught; this is one of a panic's payload when it is dropped.
        if let Some(panic) = ended.err().and_then(|error| error.try_into_panic().ok()) {
            resume_unwind(panic);
        }
    }
    let mut panicked = mem::take(&mut *run.panicked.lock());
    panicked.sort_unstable();
    let finished = run.finished.load(Ordering::Acquire);
    Parallelized { finished, unfinished: count - finished - panicked.len(), panicked }
}

/// State that the caller's task and the workers share.
struct Run<W> {
    work: W,
    cancel: CancellationToken,
    count: usize,
    chunk: usize,
    /// The first pieces of the chunks that are still to be handed out.
    starts: Mutex<StepBy<Range<usize>>>,
    finished: AtomicUsize,
    panicked: Mutex<Vec<PanickedPiece>>,
}

impl<W: Fn(usize) -> F, F: Future<Output = ()>> Run<W> {
    /// Takes chunks and runs their pieces until none is left or the run is cancelled.
    async fn worker(self: Arc<Self>) {
        loop {
            let Some(start) = self.starts.lock().next() else { return };
            for piece in start..start.saturating_add(self.chunk).min(self.count) {
                // Pieces that never wait would otherwise never let other tasks of the thread run.
                consume_budget().await;
                if self.cancel.is_cancelled() {
                    return;
                }
                // The future is not polled again after a panic, and state that pieces share is the caller's.
                match AssertUnwindSafe(async { (self.work)(piece).await }).catch_unwind().await {
                    Ok(()) => drop(self.finished.fetch_add(1, Ordering::Release)),
                    Err(panic) => {
                        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
                        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
                        self.panicked.lock().push(PanickedPiece { piece, message: text.unwrap_or_default() });
                    }
                }
            }
        }
    }
}
