//! Tasks on threads, and on the runtime of a test.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use super::*;
use crate::yield_after_slice;

/// An executor with this many threads, and the runtime whose timers its tasks use.
fn start(threads: usize) -> (Runtime, Executor, Threads) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (executor, guard) =
        Executor::start("guest", NonZeroUsize::new(threads).unwrap(), runtime.handle()).unwrap();
    (runtime, executor, guard)
}

/// Uses this much CPU time of the thread.
fn burn(time: Duration) {
    let began = thread::cpu_clock();
    while thread::cpu_clock() - began < u64::try_from(time.as_nanos()).unwrap() {
        std::hint::spin_loop();
    }
}

#[test]
fn a_task_may_wait_for_timers_and_other_tasks_and_returns_its_result() {
    let (runtime, executor, _threads) = start(2);
    let group = executor.group();
    let (sender, receiver) = oneshot::channel();
    let waits = group.spawn(async { receiver.await.unwrap() + 1 });
    group.spawn(async move {
        tokio::time::sleep(Duration::from_millis(1)).await;
        sender.send(1).unwrap();
    });
    assert_eq!(runtime.block_on(waits), Some(2));
}

#[test]
fn a_group_pays_for_what_its_polls_use() {
    let (runtime, executor, _threads) = start(2);
    let (busy, idle) = (executor.group(), executor.group());
    runtime.block_on(busy.spawn(async { burn(Duration::from_millis(20)) }));
    runtime.block_on(idle.spawn(async { tokio::time::sleep(Duration::from_millis(20)).await }));
    // The charge follows the end of the poll.
    while busy.cpu_time() < Duration::from_millis(20) {
        std::thread::yield_now();
    }
    assert!(idle.cpu_time() < Duration::from_millis(20), "{:?}", idle.cpu_time());
}

#[test]
fn a_panic_ends_its_task_alone_and_is_counted() {
    let (runtime, executor, _threads) = start(1);
    let group = executor.group();
    let dropped = Arc::new(());
    let held = Arc::clone(&dropped);
    let task = group.spawn(async move {
        let _held = held;
        panic!("expected by this test");
    });
    assert_eq!(runtime.block_on(task), None);
    assert_eq!(runtime.block_on(group.spawn(async { 1 })), Some(1), "the thread goes on");
    assert_eq!((group.panics(), Arc::strong_count(&dropped)), (1, 1));
}

#[test]
fn one_group_never_holds_the_last_thread() {
    let (runtime, executor, _threads) = start(2);
    let greedy = executor.group();
    let (stop, stopped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for _ in 0..2 {
        let (stop, stopped) = (Arc::clone(&stop), Arc::clone(&stopped));
        greedy.spawn(async move {
            // Blocks its thread: were there two of these at once, no other task would run.
            while stop.load(Ordering::Acquire) == 0 {
                std::thread::yield_now();
            }
            stopped.fetch_add(1, Ordering::Release);
        });
    }
    assert_eq!(runtime.block_on(executor.group().spawn(async { 1 })), Some(1));
    stop.store(1, Ordering::Release);
    while stopped.load(Ordering::Acquire) < 2 {
        std::thread::yield_now();
    }
}

#[test]
fn a_task_that_always_finds_work_lets_others_run() {
    let (runtime, executor, _threads) = start(1);
    let (busy, other) = (executor.group(), executor.group());
    let endless = busy.spawn(async {
        loop {
            burn(Duration::from_micros(50));
            yield_after_slice().await;
        }
    });
    assert_eq!(runtime.block_on(other.spawn(async { 1 })), Some(1));
    assert!(!endless.is_finished());
    endless.abort();
}

#[test]
fn groups_that_compute_get_equal_time_however_many_tasks_they_have() {
    let (_runtime, executor, _threads) = start(1);
    let (many, one) = (executor.group(), executor.group());
    let endless = |group: &Group| {
        group.spawn(async {
            loop {
                burn(Duration::from_micros(200));
                yield_after_slice().await;
            }
        })
    };
    let tasks: Vec<_> = (0..16).map(|_| endless(&many)).chain([endless(&one)]).collect();
    while many.cpu_time() + one.cpu_time() < Duration::from_millis(200) {
        std::thread::yield_now();
    }
    let (many, one) = (many.cpu_time(), one.cpu_time());
    assert!(many < one * 2 && one < many * 2, "{many:?} {one:?}");
    tasks.into_iter().for_each(JoinHandle::abort);
}

#[test]
fn an_aborted_task_is_dropped_and_one_whose_handle_is_dropped_goes_on() {
    let (runtime, executor, _threads) = start(1);
    let group = executor.group();
    let (held, sender) = (Arc::new(()), mpsc::channel());
    let task = group.spawn({
        let held = Arc::clone(&held);
        async move {
            std::future::pending::<()>().await;
            drop(held);
        }
    });
    drop(task.abort_on_drop());
    drop(group.spawn(async move { sender.0.send(1) }));
    assert_eq!(sender.1.recv(), Ok(1));
    // The next task of the only thread comes after the end of the aborted one.
    runtime.block_on(group.spawn(async {}));
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn threads_end_with_their_guard_and_tasks_that_are_woken_later_are_dropped() {
    let (runtime, executor, threads) = start(2);
    let group = executor.group();
    let (sender, receiver) = oneshot::channel::<()>();
    let waits = group.spawn(async move { receiver.await.is_ok() });
    runtime.block_on(group.spawn(async {}));
    drop(threads);
    let late = group.spawn(async { 1 });
    assert_eq!(runtime.block_on(late), None);
    let _ = sender.send(());
    assert_eq!(runtime.block_on(waits), None);
}

#[tokio::test(start_paused = true)]
async fn on_the_runtime_of_a_test_time_moves_when_no_task_can_run() {
    let executor = Executor::on_current_runtime();
    let group = executor.group();
    let began = tokio::time::Instant::now();
    let first = group.spawn(tokio::time::sleep(Duration::from_secs(60)));
    let second = group.spawn(async { panic!("expected by this test") });
    let () = first.await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 60);
    let second: Option<()> = second.await;
    assert_eq!((second, group.panics()), (None, 1));
}

/// Sends the number of its thread when that ends.
struct AtEnd(mpsc::Sender<usize>, usize);

impl Drop for AtEnd {
    fn drop(&mut self) {
        let _ = self.0.send(self.1);
    }
}

thread_local! {
    static AT_END: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
}

#[test]
fn a_thread_without_tasks_ends_and_another_one_takes_the_next() {
    let body = |shared: &Shared| thread::run(shared, Duration::from_millis(1));
    let (executor, _threads) = Executor::launch("idle", NonZeroUsize::MIN, body).unwrap();
    let group = executor.group();
    let (sender, ended) = mpsc::channel();
    for number in 0..3 {
        let sender = sender.clone();
        group.spawn(async move { AT_END.set(Some(AtEnd(sender, number))) });
        assert_eq!(ended.recv_timeout(Duration::from_secs(60)), Ok(number), "the thread has not ended");
    }
}
