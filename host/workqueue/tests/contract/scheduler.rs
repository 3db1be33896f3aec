//! Many queues, few workers: turns, limits, and what is left of a queue that is gone.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pilothouse_workqueue::{Priority, Queue, Scheduler, Turn};

use crate::helpers::{Polled, Reasons, add_all};

pub(crate) type TestScheduler = Scheduler<&'static str, Reasons, &'static str>;

/// A queue of `scheduler`'s.
pub(crate) fn seat(
    scheduler: &TestScheduler,
    owner: &'static str,
    limit: usize,
) -> Queue<&'static str, Reasons> {
    Queue::builder().build_in(scheduler, owner, limit)
}

type TestTurn = Turn<&'static str, Reasons, &'static str>;

/// The next turn, which there must be.
fn turn(scheduler: &TestScheduler) -> TestTurn {
    scheduler.try_next().expect("a queue has something to do")
}

fn of(turn: &TestTurn) -> (&'static str, &'static str) {
    (*turn.owner(), *turn.key())
}

/// Takes turns and ends each before the next, until there is none.
pub(crate) fn serve(scheduler: &TestScheduler) -> Vec<(&'static str, &'static str)> {
    std::iter::from_fn(|| scheduler.try_next().map(|turn| of(&turn))).collect()
}

#[test]
fn queues_take_turns_a_key_each_in_the_order_in_which_they_got_something_to_do() {
    let scheduler = TestScheduler::new();
    let [a, b, c] = ["a", "b", "c"].map(|owner| seat(&scheduler, owner, 1));
    for (queue, keys) in [(&b, &["1", "2", "3"][..]), (&a, &["1"][..]), (&c, &["1", "2"][..])] {
        keys.iter().for_each(|key| queue.add(key));
    }
    let expected = [("b", "1"), ("a", "1"), ("c", "1"), ("b", "2"), ("c", "2"), ("b", "3")];
    assert_eq!(serve(&scheduler), expected);
}

#[test]
fn a_queue_with_many_keys_delays_another_by_one_turn() {
    let scheduler: Scheduler<u32, (), &'static str> = Scheduler::new();
    let noisy = Queue::builder().build_in(&scheduler, "noisy", 8);
    let quiet = Queue::builder().build_in(&scheduler, "quiet", 1);
    noisy.add_batch((0..100_000).map(|key| (key, (), Priority::NORMAL)));
    for round in 0..100 {
        scheduler.try_next().expect("noisy").done();
        quiet.add(round);
        let owners = [(); 2].map(|()| *scheduler.try_next().expect("both").owner());
        assert!(owners.contains(&"quiet"), "round {round}: {owners:?}");
    }
}

#[test]
fn a_queue_hands_out_so_many_keys_at_once_and_others_go_on() {
    let scheduler = TestScheduler::new();
    let [a, b] = [("a", 2), ("b", 1)].map(|(owner, limit)| seat(&scheduler, owner, limit));
    for key in ["1", "2", "3"] {
        a.add(key);
        b.add(key);
    }
    let turns: Vec<_> = std::iter::from_fn(|| scheduler.try_next()).collect();
    assert_eq!(turns.iter().map(of).collect::<Vec<_>>(), [("a", "1"), ("b", "1"), ("a", "2")]);
    let Ok([first_of_a, first_of_b, _second_of_a]) = <[TestTurn; 3]>::try_from(turns) else { unreachable!() };
    first_of_b.done();
    let second_of_b = turn(&scheduler);
    assert_eq!(of(&second_of_b), ("b", "2"));
    assert!(scheduler.try_next().is_none(), "both are at their limits");
    first_of_a.done();
    let third_of_a = turn(&scheduler);
    assert_eq!(of(&third_of_a), ("a", "3"));
}

#[test]
fn a_queue_at_its_limit_has_no_turn_until_a_key_is_given_back() {
    let scheduler = TestScheduler::new();
    let queue = seat(&scheduler, "a", 1);
    queue.add("1");
    let running = turn(&scheduler);
    let mut next = Polled::pending(scheduler.next());
    queue.add("2");
    assert!(!next.woken(), "nothing could be done");
    running.done();
    assert_eq!(of(&next.output().expect("not shut down")), ("a", "2"));
}

#[test]
fn a_key_that_is_added_while_it_runs_gets_its_turn_when_it_is_given_back() {
    let scheduler = TestScheduler::new();
    let queue = seat(&scheduler, "a", 4);
    queue.add("1");
    let running = turn(&scheduler);
    queue.add("1");
    let mut next = Polled::pending(scheduler.next());
    running.done();
    assert_eq!(of(&next.output().expect("not shut down")), ("a", "1"));
}

#[test]
fn a_limit_that_is_raised_lets_more_keys_out_at_once() {
    let scheduler = TestScheduler::new();
    let queue = seat(&scheduler, "a", 0);
    add_all(&queue, ["1", "2", "3"]);
    let mut first = Polled::pending(scheduler.next());
    queue.set_max_concurrent(2);
    let _first = first.output();
    let _second = turn(&scheduler);
    assert!(scheduler.try_next().is_none());
    queue.set_max_concurrent(3);
    assert_eq!(of(&turn(&scheduler)), ("a", "3"));
}

#[test]
fn a_limit_that_is_lowered_lets_nothing_out_until_fewer_run() {
    let scheduler = TestScheduler::new();
    let queue = seat(&scheduler, "a", 3);
    add_all(&queue, ["1", "2", "3", "4"]);
    let (first, second) = (turn(&scheduler), turn(&scheduler));
    // A turn was announced before this; it must not be had.
    queue.set_max_concurrent(1);
    assert!(scheduler.try_next().is_none());
    first.done();
    assert!(scheduler.try_next().is_none(), "one runs still");
    second.done();
    let _third = turn(&scheduler);
    assert!(scheduler.try_next().is_none());
    queue.set_max_concurrent(0);
    queue.set_max_concurrent(2);
    assert_eq!(of(&turn(&scheduler)), ("a", "4"));
}

#[test]
fn each_turn_wakes_one_worker_the_longest_waiting_first() {
    let scheduler = TestScheduler::new();
    let [a, b] = ["a", "b"].map(|owner| seat(&scheduler, owner, 1));
    let mut workers = [(); 3].map(|()| Polled::pending(scheduler.next()));
    a.add("1");
    b.add("1");
    a.add("2");
    assert_eq!(workers.each_ref().map(Polled::woken), [true, true, false]);
    let turns = [0, 1].map(|n| workers[n].output().expect("not shut down"));
    assert_eq!(turns.each_ref().map(of), [("a", "1"), ("b", "1")]);
}

#[test]
fn a_dropped_next_loses_no_turn_and_passes_its_wake_up_on() {
    let scheduler = TestScheduler::new();
    let queue = seat(&scheduler, "a", 1);
    let first = Polled::pending(scheduler.next());
    let mut second = Polled::pending(scheduler.next());
    queue.add("1");
    assert!(first.woken() && !second.woken());
    drop(first);
    assert_eq!(of(&second.output().expect("not shut down")), ("a", "1"));
    let unpolled = scheduler.next();
    queue.add("2");
    drop(unpolled);
    assert_eq!(of(&turn(&scheduler)), ("a", "2"));
}

#[test]
fn a_turn_that_is_dropped_or_whose_holder_panics_gives_its_key_back() {
    let scheduler = TestScheduler::new();
    let queue = seat(&scheduler, "a", 1);
    queue.add("1");
    drop(turn(&scheduler));
    assert_eq!(queue.stats().processing, 0);
    queue.add("2");
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _turn = turn(&scheduler);
        queue.add("2");
        std::panic::resume_unwind(Box::new("a worker's panic"));
    }));
    assert!(panicked.is_err());
    assert_eq!(serve(&scheduler), [("a", "2")], "it was added while it ran");
    assert_eq!((queue.len(), queue.stats().processing), (0, 0));
}

#[test]
fn shut_down_ends_every_next_and_leaves_the_queues_as_they_are() {
    let scheduler = TestScheduler::new();
    let queue = seat(&scheduler, "a", 2);
    queue.add("1");
    let held = turn(&scheduler);
    let mut waiting = [(); 2].map(|()| Polled::pending(scheduler.next()));
    scheduler.shut_down();
    scheduler.shut_down();
    for next in &mut waiting {
        assert!(next.output().is_none());
    }
    queue.add("2");
    assert!(scheduler.try_next().is_none() && Polled::new(scheduler.next()).poll().is_ready());
    held.done();
    assert!(!queue.shutting_down());
    assert_eq!(queue.try_get().expect("still queued").key, "2");
}

#[test]
fn a_queue_that_drains_is_served_to_its_end() {
    let scheduler = TestScheduler::new();
    let [a, b] = ["a", "b"].map(|owner| seat(&scheduler, owner, 1));
    add_all(&a, ["1", "2"]);
    b.add("1");
    let mut drain = Polled::pending(a.shut_down_with_drain());
    let running = turn(&scheduler);
    a.add("3");
    running.done();
    assert_eq!(serve(&scheduler), [("b", "1"), ("a", "2")]);
    drain.output();
}

#[test]
fn a_queue_in_the_seat_of_one_that_is_gone_has_no_turn_of_it() {
    let scheduler = TestScheduler::new();
    let [a, b] = ["a", "b"].map(|owner| seat(&scheduler, owner, 1));
    a.add("1");
    // Turns of queues that are gone are forgotten once they could be most: this leaves one.
    for _ in 0..99 {
        seat(&scheduler, "gone", 1).add("1");
    }
    let next = seat(&scheduler, "next", 1);
    b.add("1");
    next.add("1");
    assert_eq!(serve(&scheduler), [("a", "1"), ("b", "1"), ("next", "1")]);
}

#[test]
fn a_queue_that_is_dropped_leaves_no_turn_no_seat_and_no_owner() {
    let scheduler: Scheduler<u32, (), Arc<str>> = Scheduler::new();
    let owner: Arc<str> = Arc::from("owner");
    let kept = Queue::builder().build_in(&scheduler, Arc::clone(&owner), 1);
    let gone = Queue::builder().build_in(&scheduler, Arc::clone(&owner), 1);
    gone.add(1);
    kept.add(2);
    assert_eq!(format!("{scheduler:?}"), "Scheduler { queues: 2, turns: 2, alarms: 0 }");
    drop(gone);
    assert_eq!(format!("{scheduler:?}"), "Scheduler { queues: 1, turns: 1, alarms: 0 }");
    assert_eq!(Arc::strong_count(&owner), 2);
    let turn = scheduler.try_next().expect("the other's");
    assert_eq!(*turn.key(), 2);
    drop((turn, kept));
    assert_eq!(format!("{scheduler:?}"), "Scheduler { queues: 0, turns: 0, alarms: 0 }");
    assert_eq!(Arc::strong_count(&owner), 1);
}

#[test]
fn a_turn_keeps_its_queue_in_the_scheduler() {
    let scheduler = TestScheduler::new();
    let queue = seat(&scheduler, "a", 1);
    add_all(&queue, ["1", "2"]);
    let running = turn(&scheduler);
    drop(queue);
    running.queue().add("3");
    running.done();
    assert_eq!(serve(&scheduler), [], "that was the last handle");
}

#[test]
fn a_queue_that_gets_the_seat_of_another_has_no_turn_of_it() {
    let scheduler = TestScheduler::new();
    let gone = seat(&scheduler, "gone", 1);
    gone.add("1");
    drop(gone);
    let next = Polled::pending(scheduler.next());
    let queue = seat(&scheduler, "new", 1);
    assert!(!next.woken());
    drop(next);
    queue.add("2");
    assert_eq!(serve(&scheduler), [("new", "2")]);
}

#[test]
fn a_queue_outlives_its_scheduler() {
    let scheduler = TestScheduler::new();
    let queue = seat(&scheduler, "a", 1);
    drop(scheduler);
    queue.add("1");
    assert_eq!(queue.try_get().expect("added").key, "1");
}

/// An owner that counts how often a turn of its queue was taken, whether that yielded a key or not.
struct Counted(Arc<AtomicUsize>);

impl Clone for Counted {
    fn clone(&self) -> Self {
        self.0.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }
}

#[test]
fn ten_thousand_idle_queues_are_not_looked_at_while_one_works() {
    let scheduler: Scheduler<u32, (), Counted> = Scheduler::new();
    let [looks_at_idle, looks_at_busy] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let idle: Vec<Queue<u32>> = (0..10_000)
        .map(|_| Queue::builder().build_in(&scheduler, Counted(Arc::clone(&looks_at_idle)), 1))
        .collect();
    let busy = Queue::builder().build_in(&scheduler, Counted(Arc::clone(&looks_at_busy)), 1);
    let mut workers = [(); 4].map(|()| Polled::pending(scheduler.next()));
    for key in 0..1_000 {
        busy.add(key);
        let worker = workers.iter_mut().find(|worker| worker.woken()).expect("one was woken");
        worker.output().expect("not shut down").done();
        *worker = Polled::pending(scheduler.next());
        let woken = workers.iter().filter(|worker| worker.woken()).count();
        assert_eq!(woken, 0, "one key wakes one worker");
    }
    assert_eq!(looks_at_busy.load(Ordering::Relaxed), 1_000, "a turn for each key");
    assert_eq!(looks_at_idle.load(Ordering::Relaxed), 0);
    idle[7].add(1);
    assert_eq!(scheduler.try_next().map(|turn| *turn.key()), Some(1));
    assert_eq!(looks_at_idle.load(Ordering::Relaxed), 1);
}
