//! Threads that schedule, sleep and end, in every order that a random search finds: no task is left behind.
//!
//! `cargo test -p pilothouse-executor --features shuttle --test interleavings`
#![cfg(feature = "shuttle")]

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Waker};

use pilothouse_executor::{Executor, Group, Threads};
use shuttle::sync::Mutex;

const RUNS: usize = 3000;

fn start(threads: usize) -> (Executor, Threads) {
    Executor::start_explored(NonZeroUsize::new(threads).unwrap())
}

/// Lets other tasks run this often.
async fn yields(times: usize) {
    for _ in 0..times {
        let mut has_yielded = false;
        std::future::poll_fn(|context| {
            if std::mem::replace(&mut has_yielded, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

/// Counts the polls of a group that run at once.
#[derive(Clone, Default)]
struct AtOnce(Arc<Mutex<usize>>);

impl AtOnce {
    fn poll(&self, most: usize) {
        let enter = {
            let mut running = self.0.lock().unwrap();
            *running += 1;
            *running
        };
        assert!(enter <= most, "{enter} polls of one group at once");
        shuttle::thread::yield_now();
        *self.0.lock().unwrap() -= 1;
    }
}

fn spawn_all(group: &Group, tasks: usize, most: usize) -> Vec<pilothouse_executor::JoinHandle<()>> {
    let at_once = AtOnce::default();
    (0..tasks)
        .map(|_| {
            let at_once = at_once.clone();
            group.spawn(async move {
                for _ in 0..2 {
                    at_once.poll(most);
                    yields(1).await;
                }
            })
        })
        .collect()
}

#[test]
fn every_task_ends_and_no_group_holds_all_threads() {
    let explored = || {
        let (executor, threads) = start(3);
        let groups = [executor.group(), executor.group()];
        let tasks: Vec<_> = groups.iter().flat_map(|group| spawn_all(group, 3, 2)).collect();
        for task in tasks {
            assert_eq!(shuttle::future::block_on(task), Some(()));
        }
        drop(threads);
    };
    shuttle::check_random(explored, RUNS);
}

#[test]
fn a_task_woken_by_a_stranger_is_polled() {
    let explored = || {
        let (executor, threads) = start(2);
        let place: Arc<Mutex<(bool, Option<Waker>)>> = Arc::default();
        let waits = executor.group().spawn({
            let place = Arc::clone(&place);
            std::future::poll_fn(move |context| {
                let mut place = place.lock().unwrap();
                place.1 = Some(context.waker().clone());
                if place.0 { Poll::Ready(()) } else { Poll::Pending }
            })
        });
        let stranger = shuttle::thread::spawn(move || {
            let waker = {
                let mut place = place.lock().unwrap();
                place.0 = true;
                place.1.take()
            };
            waker.into_iter().for_each(Waker::wake);
        });
        assert_eq!(shuttle::future::block_on(waits), Some(()));
        stranger.join().unwrap();
        drop(threads);
    };
    shuttle::check_random(explored, RUNS);
}

#[test]
fn a_group_that_goes_with_its_last_task_makes_room_for_another() {
    let explored = || {
        let (executor, threads) = start(2);
        let ended = Arc::new(AtomicUsize::new(0));
        for _ in 0..3 {
            let ended = Arc::clone(&ended);
            // The handle of the group is gone before the task is over.
            let task = executor.group().spawn(async move {
                yields(1).await;
                ended.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(shuttle::future::block_on(task), Some(()));
        }
        assert_eq!(ended.load(Ordering::Relaxed), 3);
        drop(threads);
    };
    shuttle::check_random(explored, RUNS);
}

#[test]
fn threads_end_at_any_moment() {
    let explored = || {
        let (executor, threads) = start(2);
        let group = executor.group();
        let tasks: Vec<_> = (0..3).map(|_| group.spawn(yields(2))).collect();
        // All threads of this test must end: shuttle finds those that do not.
        drop(threads);
        for task in tasks {
            shuttle::future::block_on(task);
        }
    };
    shuttle::check_random(explored, RUNS);
}
