//! Numbered pieces of work: `parallelize_until`.

use std::future::{pending, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_workqueue::{Parallelized, Pieces, parallelize_until};
use tokio::runtime::Handle;
use tokio::sync::{Barrier, Notify};
use tokio::task::yield_now;
use tokio_util::sync::CancellationToken;

use crate::helpers::Polled;

/// Bounds the wait for another thread, so that a failing test ends.
const PATIENCE: Duration = Duration::from_secs(10);

/// Which pieces were started, in that order.
type Started = Arc<Mutex<Vec<usize>>>;

/// Runs pieces that note their start and cancel the run if they are `cancelling`.
async fn run_until(
    cancelling: usize,
    workers: usize,
    pieces: impl Into<Pieces>,
) -> (Parallelized, Vec<usize>) {
    let started = Started::default();
    let cancel = CancellationToken::new();
    let work = {
        let (started, cancel) = (Arc::clone(&started), cancel.clone());
        move |piece| {
            started.lock().push(piece);
            if piece == cancelling {
                cancel.cancel();
            }
            ready(())
        }
    };
    let result = parallelize_until(&cancel, workers, pieces, work).await;
    let started = started.lock().clone();
    (result, started)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_piece_is_run_exactly_once() {
    for (workers, count, chunk) in
        [(10, 1_000, 1), (10, 1_000, 10), (10, 1_000, 100), (10, 999, 13), (3, 7, 100), (1, 5, 0)]
    {
        let runs: Arc<[AtomicUsize]> = (0..count).map(|_| AtomicUsize::new(0)).collect();
        let seen = Arc::clone(&runs);
        let result = parallelize_until(
            &CancellationToken::new(),
            workers,
            Pieces::chunked(count, chunk),
            move |piece| {
                seen[piece].fetch_add(1, Ordering::SeqCst);
                yield_now()
            },
        )
        .await;
        assert!(runs.iter().all(|runs| runs.load(Ordering::SeqCst) == 1), "{workers} {count} {chunk}");
        assert_eq!((result.finished, result.unfinished), (count, 0));
        assert!(result.panicked.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn as_many_pieces_as_workers_are_under_way_and_never_more() {
    let now = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    // Passed only by three at once.
    let three = Arc::new(Barrier::new(3));
    let work = {
        let (now, most) = (Arc::clone(&now), Arc::clone(&most));
        move |_| {
            let (now, most, three) = (Arc::clone(&now), Arc::clone(&most), Arc::clone(&three));
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                three.wait().await;
                yield_now().await;
                now.fetch_sub(1, Ordering::SeqCst);
            }
        }
    };
    let result = parallelize_until(&CancellationToken::new(), 3, 300, work).await;
    assert_eq!((result.finished, most.load(Ordering::SeqCst)), (300, 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pieces_run_on_several_threads_at_once() {
    // Two pieces that block their threads until they have heard of each other.
    let (to_first, first) = mpsc::channel();
    let (to_second, second) = mpsc::channel();
    let pieces = Mutex::new(vec![(to_first, second), (to_second, first)]);
    let result = parallelize_until(&CancellationToken::new(), 2, 2, move |_| {
        let (other, own) = pieces.lock().pop().expect("two pieces");
        async move {
            other.send(()).expect("the other one listens");
            own.recv_timeout(PATIENCE).expect("the other one runs meanwhile");
        }
    })
    .await;
    assert_eq!(result.finished, 2);
}

#[tokio::test]
async fn there_are_no_more_tasks_than_chunks() {
    let most = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&most);
    let result = parallelize_until(&CancellationToken::new(), 100, Pieces::chunked(5, 2), move |_| {
        seen.fetch_max(Handle::current().metrics().num_alive_tasks(), Ordering::SeqCst);
        yield_now()
    })
    .await;
    assert_eq!((result.finished, most.load(Ordering::SeqCst)), (5, 3));
}

#[tokio::test]
async fn a_worker_takes_the_pieces_of_a_chunk_in_their_order() {
    let (result, started) = run_until(usize::MAX, 1, Pieces::chunked(7, 3)).await;
    assert_eq!((result.finished, started), (7, (0..7).collect()));

    // Two workers that take turns in some order, a chunk of two each.
    let started = Started::default();
    let seen = Arc::clone(&started);
    let result = parallelize_until(&CancellationToken::new(), 2, Pieces::chunked(4, 2), move |piece| {
        seen.lock().push(piece);
        yield_now()
    })
    .await;
    let started = started.lock().clone();
    let place = |piece| started.iter().position(|&started| started == piece);
    assert_eq!((result.finished, &started[..2]), (4, &[0, 2][..]));
    assert!(place(0) < place(1) && place(2) < place(3), "{started:?}");
}

#[tokio::test]
async fn a_piece_that_cancels_is_the_last_that_is_started() {
    let (result, started) = run_until(3, 2, 100).await;
    assert_eq!(started, [0, 1, 2, 3]);
    assert_eq!((result.finished, result.unfinished), (4, 96));
}

#[tokio::test]
async fn cancelling_stops_in_the_midst_of_a_chunk() {
    let (result, started) = run_until(2, 1, Pieces::chunked(100, 10)).await;
    assert_eq!(started, [0, 1, 2]);
    assert_eq!((result.finished, result.unfinished), (3, 97));
}

#[tokio::test]
async fn a_run_that_is_cancelled_from_the_start_runs_nothing() {
    let cancelled = CancellationToken::new();
    cancelled.cancel();
    let started = Started::default();
    let seen = Arc::clone(&started);
    let result = parallelize_until(&cancelled, 4, 100, move |piece| {
        seen.lock().push(piece);
        ready(())
    })
    .await;
    assert_eq!((result.finished, result.unfinished), (0, 100));
    assert!(started.lock().is_empty());
}

#[tokio::test]
async fn pieces_under_way_when_cancelled_are_waited_for() {
    let (cancel, finish) = (CancellationToken::new(), Arc::new(Notify::new()));
    let may_finish = Arc::clone(&finish);
    let mut run = Polled::pending(parallelize_until(&cancel, 2, 100, move |_| {
        let may_finish = Arc::clone(&may_finish);
        async move { may_finish.notified().await }
    }));
    yield_now().await;
    cancel.cancel();
    for _ in 0..10 {
        assert!(run.poll().is_pending(), "two pieces are under way");
        yield_now().await;
    }
    finish.notify_waiters();
    yield_now().await;
    let result = run.output();
    assert_eq!((result.finished, result.unfinished), (2, 98));
}

#[tokio::test]
async fn cancelling_when_all_pieces_are_under_way_leaves_none_unfinished() {
    let (result, _) = run_until(9, 1, 10).await;
    assert_eq!((result.finished, result.unfinished), (10, 0));
}

#[tokio::test]
async fn a_panic_loses_its_piece_only_and_is_told() {
    // One worker and one chunk: what panics must cost neither of them.
    let result = parallelize_until(&CancellationToken::new(), 1, Pieces::chunked(10, 10), |piece| {
        assert_ne!(piece, 7, "before its future is made");
        async move {
            yield_now().await;
            match piece {
                2 => panic!("in the midst of it"),
                4 => std::panic::panic_any(4),
                _ => {}
            }
        }
    })
    .await;
    assert_eq!(result.panicked, [2, 4, 7]);
    assert_eq!((result.finished, result.unfinished), (7, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn panics_are_told_in_the_order_of_their_pieces() {
    let result = parallelize_until(&CancellationToken::new(), 4, 40, |piece| async move {
        yield_now().await;
        assert!(piece % 2 == 0);
    })
    .await;
    assert_eq!(result.panicked, (1..40).step_by(2).collect::<Vec<_>>());
    assert_eq!(result.finished, 20);
}

#[test]
fn nothing_to_do_needs_no_runtime() {
    for (workers, pieces) in [(4, 0), (0, 0)] {
        let open = CancellationToken::new();
        let mut run = Polled::new(parallelize_until(&open, workers, pieces, |_| ready(())));
        let Poll::Ready(result) = run.poll() else { panic!("nothing to wait for") };
        assert_eq!((result.finished, result.unfinished), (0, 0));
    }
}

#[test]
fn without_workers_no_piece_is_run() {
    let open = CancellationToken::new();
    let mut run = Polled::new(parallelize_until(&open, 0, 5, |_| ready(())));
    let Poll::Ready(result) = run.poll() else { panic!("nothing to wait for") };
    assert_eq!((result.finished, result.unfinished), (0, 5));
}

#[tokio::test]
async fn pieces_that_never_wait_let_other_tasks_run() {
    let open = CancellationToken::new();
    let mut run = Polled::pending(parallelize_until(&open, 2, 10_000, |_| ready(())));
    yield_now().await;
    assert!(run.poll().is_pending(), "this task came between the pieces");
}

#[tokio::test]
async fn a_dropped_run_leaves_no_task_behind() {
    let held = Arc::new(());
    let work = {
        let held = Arc::clone(&held);
        move |_| {
            let held = Arc::clone(&held);
            async move {
                let _held = held;
                pending::<()>().await;
            }
        }
    };
    let open = CancellationToken::new();
    let run = Polled::pending(parallelize_until(&open, 3, 100, work));
    yield_now().await;
    assert_eq!((Arc::strong_count(&held), Handle::current().metrics().num_alive_tasks()), (1 + 1 + 3, 3));
    drop(run);
    yield_now().await;
    assert_eq!((Arc::strong_count(&held), Handle::current().metrics().num_alive_tasks()), (1, 0));
}

#[test]
fn a_piece_that_is_being_polled_when_the_run_is_dropped_is_the_last_of_its_worker() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
    let _entered = runtime.enter();
    let (starts, started) = mpsc::channel();
    let (end, ends) = mpsc::channel::<()>();
    let ends = Mutex::new(ends);
    let open = CancellationToken::new();
    let run = Polled::pending(parallelize_until(&open, 1, 100, move |piece| {
        starts.send(piece).expect("the test listens");
        // Blocks its thread until the test has dropped the run; later pieces, if there were any, would not wait.
        let _ = ends.lock().recv_timeout(PATIENCE);
        ready(())
    }));
    assert_eq!(started.recv_timeout(PATIENCE), Ok(0));
    drop(run);
    drop(end);
    let next = started.recv_timeout(PATIENCE);
    assert_eq!(
        next,
        Err(mpsc::RecvTimeoutError::Disconnected),
        "the task is gone, and started no other piece"
    );
}

#[test]
fn pieces_that_a_shutdown_of_the_runtime_breaks_off_are_unfinished() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let open = CancellationToken::new();
    let mut run = {
        let _entered = runtime.enter();
        Polled::pending(parallelize_until(&open, 2, 10, |piece| async move {
            if piece >= 4 {
                pending::<()>().await;
            }
        }))
    };
    runtime.block_on(yield_now());
    drop(runtime);
    let result = run.output();
    assert_eq!((result.finished, result.unfinished), (4, 6));
}
