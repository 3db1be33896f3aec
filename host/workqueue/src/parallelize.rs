//! [`parallelize_until`]: numbered pieces of work on a few tasks, client-go's `ParallelizeUntil`.
//!
//! Invariants: a piece is handed out once, in ascending order of chunks; no task outlives the future that started it,
//! but for the piece that a thread is in the middle of; a worker starts no piece between a wake-up of `until` and the
//! caller's answer to it, so a piece that cancels the run is the last its worker starts, even if the caller's task
//! has not been polled since. Independent of the queue; called by users of the crate.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::mem;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker, ready};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::task::coop::consume_budget;

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

    fn chunks(self) -> usize {
        self.count.div_ceil(self.chunk)
    }

    /// The pieces of one chunk, which is below [`chunks`](Self::chunks); the last chunk may be a short one.
    fn of(self, chunk: usize) -> Range<usize> {
        let start = chunk * self.chunk;
        start..start.saturating_add(self.chunk).min(self.count)
    }
}

impl From<usize> for Pieces {
    fn from(count: usize) -> Self {
        Self::chunked(count, 1)
    }
}

/// What became of the pieces; every piece is counted in exactly one of the first three.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "pieces may have panicked, or may not have been run"]
#[non_exhaustive]
pub struct Parallelized {
    /// Pieces whose work came to its end.
    pub finished: usize,
    /// Pieces whose work panicked, in ascending order.
    pub panicked: Vec<PanickedPiece>,
    /// Pieces that were not run: `until` came first, there were no workers, or the runtime was shut down (then also
    /// those it broke off).
    pub unfinished: usize,
    /// Whether `until` came before the last worker had ended. Nothing need be unfinished for that.
    pub cancelled: bool,
}

/// A piece whose work panicked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct PanickedPiece {
    /// Which piece.
    pub piece: usize,
    /// The panic's message; empty if it was raised with something that is no text.
    pub message: String,
}

/// Runs `work(piece)` for every piece from 0 on, on at most `workers` tasks at once, until all have been run or
/// `until` completes.
///
/// - The tasks are spawned on the current runtime and use its threads; there are never more of them than chunks. A
///   piece should not block its thread for long (`tokio::task::spawn_blocking` is for that).
/// - When `until` completes no further piece is started, not even the rest of a chunk; those under way are waited
///   for. If it is complete from the start no piece is run. [`std::future::pending`] is an `until` that never comes.
/// - A panic loses its own piece only and is told in the result. (client-go's ends the process, or, where it is
///   told not to, the worker with all it has taken.)
/// - Without workers no piece is run, as in client-go; the result tells.
/// - Dropping the future starts no further piece and drops those under way at the place where they wait; one that is
///   being polled on another thread at this moment runs on to where it waits next.
///
/// # Panics
/// Outside a tokio runtime, unless there is nothing to do. A panic of `until` is passed on.
///
/// ```
/// use pilothouse_workqueue::{Pieces, parallelize_until};
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let pieces = Pieces::chunked(1_000, 50);
/// let result = parallelize_until(std::future::pending(), 4, pieces, |piece| async move {
///     assert_ne!(piece, 13, "no luck");
/// })
/// .await;
/// assert_eq!((result.finished, result.panicked[0].piece, result.unfinished), (999, 13, 0));
/// # }
/// ```
pub async fn parallelize_until<W, F>(
    until: impl Future<Output = ()>,
    workers: usize,
    pieces: impl Into<Pieces>,
    work: W,
) -> Parallelized
where
    W: Fn(usize) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let pieces = pieces.into();
    let run = Arc::new(Run::new(pieces));
    let cancelled = match workers.min(pieces.chunks()) {
        0 => false,
        workers => conduct(until, workers, &run, Arc::new(work)).await,
    };
    let mut panicked = mem::take(&mut *run.panicked.lock());
    panicked.sort_unstable();
    let finished = run.finished.load(Ordering::Acquire);
    Parallelized { finished, unfinished: pieces.count - finished - panicked.len(), panicked, cancelled }
}

/// Starts the workers, answers for `until` and waits until they have all ended; whether `until` came.
async fn conduct<W, F>(until: impl Future<Output = ()>, workers: usize, run: &Arc<Run>, work: Arc<W>) -> bool
where
    W: Fn(usize) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let (answers, answered) = watch::channel(0);
    let mut tasks = JoinSet::new();
    let _stops_when_dropped = StopOnDrop(run);
    for _ in 0..workers {
        tasks.spawn(worker(Arc::clone(run), Arc::clone(&work), answered.clone()));
    }
    // The tasks' copy goes with the last of them, so that `work` is dropped by the time this returns.
    drop(work);
    let mut until = pin!(until);
    let mut cancelled = false;
    poll_fn(|cx| {
        if !cancelled {
            // Read before the poll: a wake-up in the midst of it has not been answered by it.
            let asked = run.asked.load(Ordering::Acquire);
            let asks = Waker::from(Arc::new(Asks { run: Arc::clone(run), caller: cx.waker().clone() }));
            cancelled = until.as_mut().poll(&mut Context::from_waker(&asks)).is_ready();
            run.stop.fetch_or(cancelled, Ordering::Release);
            answers.send_replace(asked);
        }
        while let Some(ended) = ready!(tasks.poll_join_next(cx)) {
            // Panics of pieces are caught; this would be one of a panic's payload as it is dropped.
            if let Err(error) = ended
                && let Ok(panic) = error.try_into_panic()
            {
                resume_unwind(panic);
            }
        }
        Poll::Ready(())
    })
    .await;
    cancelled
}

/// Takes chunks and runs their pieces until there are none left or the run is stopped.
async fn worker<W, F>(run: Arc<Run>, work: Arc<W>, mut answers: watch::Receiver<u64>)
where
    W: Fn(usize) -> F,
    F: Future<Output = ()>,
{
    let mut tally = Tally { run: &run, finished: 0 };
    let mut answered = 0;
    while let Some(chunk) = run.next_chunk() {
        for piece in chunk {
            // Pieces that never wait would otherwise never let other tasks of the thread run.
            consume_budget().await;
            if !run.goes_on(&mut answers, &mut answered).await {
                return;
            }
            match caught(async { work(piece).await }).await {
                Ok(()) => tally.finished += 1,
                Err(message) => run.panicked.lock().push(PanickedPiece { piece, message }),
            }
        }
    }
}

/// What the caller's task and the workers share.
struct Run {
    pieces: Pieces,
    /// The next chunk to hand out; runs past the last one by a worker's look each.
    next: AtomicUsize,
    /// No further piece is to be started.
    stop: AtomicBool,
    /// How often `until` woke its task. A worker that finds this ahead of the last answer waits for the next one.
    asked: AtomicU64,
    finished: AtomicUsize,
    panicked: Mutex<Vec<PanickedPiece>>,
}

impl Run {
    fn new(pieces: Pieces) -> Self {
        Self {
            pieces,
            next: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            // The first question is open from the start: whether `until` is complete already.
            asked: AtomicU64::new(1),
            finished: AtomicUsize::new(0),
            panicked: Mutex::new(Vec::new()),
        }
    }

    fn next_chunk(&self) -> Option<Range<usize>> {
        let chunk = self.next.fetch_add(1, Ordering::Relaxed);
        (chunk < self.pieces.chunks()).then(|| self.pieces.of(chunk))
    }

    /// Whether another piece may be started; waits for the answer to the latest question that is seen. Later ones are
    /// left for the next piece, or an `until` that wakes itself in each poll would keep all workers from working.
    async fn goes_on(&self, answers: &mut watch::Receiver<u64>, answered: &mut u64) -> bool {
        let asked = self.asked.load(Ordering::Acquire);
        if asked > *answered {
            match answers.wait_for(|answered| *answered >= asked).await {
                Ok(latest) => *answered = *latest,
                // The caller has dropped the run.
                Err(_) => return false,
            }
        }
        !self.stop.load(Ordering::Acquire)
    }
}

/// The waker that `until` is polled with: holds back the workers until the caller has looked.
struct Asks {
    run: Arc<Run>,
    caller: Waker,
}

impl Wake for Asks {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.run.asked.fetch_add(1, Ordering::AcqRel);
        self.caller.wake_by_ref();
    }
}

/// Stops the workers when the caller drops the run: aborting a task does not end it before it waits.
struct StopOnDrop<'a>(&'a Run);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Release);
    }
}

/// Counts for one worker, and adds to the whole when the worker ends, even by a shutdown of the runtime.
struct Tally<'a> {
    run: &'a Run,
    finished: usize,
}

impl Drop for Tally<'_> {
    fn drop(&mut self) {
        self.run.finished.fetch_add(self.finished, Ordering::AcqRel);
    }
}

/// Runs a future to its end, or to its panic, of which it returns the message.
async fn caught(future: impl Future<Output = ()>) -> Result<(), String> {
    let mut future = pin!(future);
    // The future is not polled again after a panic, and what the user's pieces share is theirs to keep whole.
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(poll) => poll.map(Ok),
        Err(panic) => Poll::Ready(Err(message(&*panic))),
    })
    .await
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or_default().to_owned()
}
