//! The scheduler against a reference that is plain enough to be right: for each queue a list of what is ready, of what runs
//! and of what is delayed.
//!
//! Over random scripts with several queues, delays, limits that change, and queues that come, go, drain and shut down:
//! - a turn is had exactly if a queue has a ready key and runs fewer than it may, and is the next key of such a queue;
//! - no queue has two turns while another that could have had one all the time has none;
//! - no worker sleeps that could work, though each is polled only when it is woken.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use pilothouse_workqueue::{Priority, Queue, Scheduler, Turn};
use proptest::prelude::*;
use tokio::time::advance;

type Key = u8;
type Millis = u64;
type TestScheduler = Scheduler<Key, (), usize>;

/// What a script may do. Numbers that name one of several things are taken modulo how many there are.
#[derive(Debug, Clone)]
enum Step {
    Seat(usize),
    /// Drops the handle of a queue.
    Leave(usize),
    Add(usize, Key),
    AddAfter(usize, Key, Millis),
    CancelDelayed(usize, Key),
    Expedite(usize),
    SetLimit(usize, usize),
    ShutDown(usize),
    Drain(usize),
    Next,
    /// Gives a turn's key back.
    Done(usize),
    Advance(Millis),
}

fn step() -> impl Strategy<Value = Step> {
    let queue = any::<usize>;
    let key = 0..6_u8;
    prop_oneof![
        3 => (0..4_usize).prop_map(Step::Seat),
        1 => queue().prop_map(Step::Leave),
        30 => (queue(), key.clone()).prop_map(|(q, k)| Step::Add(q, k)),
        15 => (queue(), key.clone(), 1..200_u64).prop_map(|(q, k, d)| Step::AddAfter(q, k, d)),
        2 => (queue(), key).prop_map(|(q, k)| Step::CancelDelayed(q, k)),
        1 => queue().prop_map(Step::Expedite),
        3 => (queue(), 0..4_usize).prop_map(|(q, n)| Step::SetLimit(q, n)),
        1 => queue().prop_map(Step::ShutDown),
        1 => queue().prop_map(Step::Drain),
        40 => Just(Step::Next),
        30 => queue().prop_map(Step::Done),
        10 => (0..150_u64).prop_map(Step::Advance),
    ]
}

/// The reference of one queue.
#[derive(Debug, Default)]
struct Model {
    limit: usize,
    ready: Vec<Key>,
    /// Keys in processing, and whether they are to run again.
    running: BTreeMap<Key, bool>,
    /// Deadline, number and key.
    delayed: Vec<(Millis, usize, Key)>,
    shut: bool,
    /// Somebody holds a handle beside those in turns.
    held: bool,
    /// Since when it could have had a turn all the time, counted in turns of all queues.
    able_since: Option<usize>,
    last_turn: usize,
}

impl Model {
    fn add(&mut self, key: Key) {
        match self.running.get_mut(&key) {
            Some(again) => *again = true,
            None if !self.ready.contains(&key) => self.ready.push(key),
            None => {}
        }
    }

    fn promote(&mut self, now: Millis) {
        self.delayed.sort_unstable();
        while self.delayed.first().is_some_and(|(at, _, _)| *at <= now) {
            let (_, _, key) = self.delayed.remove(0);
            self.add(key);
        }
    }

    fn add_after(&mut self, key: Key, at: Millis, number: usize) {
        match self.delayed.iter_mut().find(|(_, _, other)| *other == key) {
            Some(delayed) if at < delayed.0 => *delayed = (at, number, key),
            Some(_) => {}
            None => self.delayed.push((at, number, key)),
        }
    }

    fn done(&mut self, key: Key) {
        if self.running.remove(&key) == Some(true) {
            self.ready.push(key);
        }
    }

    fn is_able(&self) -> bool {
        !self.ready.is_empty() && self.running.len() < self.limit
    }

    fn is_gone(&self) -> bool {
        !self.held && self.running.is_empty()
    }

    fn at_rest(&self) -> bool {
        self.ready.is_empty() && self.running.is_empty() && self.delayed.is_empty()
    }
}

type Drain = Pin<Box<dyn Future<Output = ()>>>;

/// A scheduler and its reference.
struct Pair {
    scheduler: TestScheduler,
    queues: Vec<(Option<Queue<Key>>, Model)>,
    turns: Vec<Turn<Key, (), usize>>,
    drains: Vec<(usize, Drain)>,
    now: Millis,
    /// Of delays that were set.
    number: usize,
    /// Turns that were had.
    taken: usize,
}

impl Pair {
    fn new() -> Self {
        let scheduler = Scheduler::new();
        Self {
            scheduler,
            queues: Vec::new(),
            turns: Vec::new(),
            drains: Vec::new(),
            now: 0,
            number: 0,
            taken: 0,
        }
    }

    /// One of the queues of which there is a handle.
    fn pick(&self, which: usize) -> Option<usize> {
        let held: Vec<usize> = (0..self.queues.len()).filter(|&n| self.queues[n].0.is_some()).collect();
        Some(held[which.checked_rem(held.len())?])
    }

    /// The same, and what is due there is ready, unless it is shut.
    fn open(&mut self, which: usize) -> Option<(&Queue<Key>, &mut Model)> {
        let which = self.pick(which)?;
        let (queue, model) = &mut self.queues[which];
        if !model.shut {
            model.promote(self.now);
        }
        Some((queue.as_ref()?, model))
    }

    /// The same, and what is due there is ready.
    fn queue(&mut self, which: usize) -> Option<(&Queue<Key>, &mut Model)> {
        let now = self.now;
        let (queue, model) = self.open(which)?;
        model.promote(now);
        Some((queue, model))
    }

    fn notice(&mut self) {
        for (_, model) in &mut self.queues {
            match model.able_since {
                None if model.is_able() => model.able_since = Some(self.taken),
                Some(_) if !model.is_able() => model.able_since = None,
                _ => {}
            }
        }
    }

    fn promote(&mut self) {
        self.queues.iter_mut().for_each(|(_, model)| model.promote(self.now));
        self.notice();
    }

    fn take(&mut self, turn: Turn<Key, (), usize>) -> Result<(), TestCaseError> {
        self.taken += 1;
        let owner = *turn.owner();
        let (before, able_before) = (self.queues[owner].1.last_turn, self.queues[owner].1.is_able());
        prop_assert!(able_before, "queue {owner} had nothing to do or ran enough");
        for (other, (_, model)) in self.queues.iter().enumerate() {
            let passed_over = other != owner
                && before > 0
                && model.able_since.is_some_and(|since| since < before)
                && model.last_turn < before;
            prop_assert!(!passed_over, "queue {owner} had two turns, queue {other} none");
        }
        let model = &mut self.queues[owner].1;
        model.last_turn = self.taken;
        prop_assert_eq!(model.ready.remove(0), *turn.key());
        prop_assert_eq!(model.running.insert(*turn.key(), false), None, "with two workers");
        // Its turn is over: it stands at the end from now on.
        model.able_since = None;
        self.turns.push(turn);
        self.notice();
        Ok(())
    }

    /// Does what needs no worker.
    async fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        let now = self.now;
        match step {
            Step::Seat(limit) => {
                let queue = Queue::builder().build_in(&self.scheduler, self.queues.len(), limit);
                self.queues.push((Some(queue), Model { limit, held: true, ..Model::default() }));
            }
            Step::Leave(which) => {
                if let Some(which) = self.pick(which) {
                    self.queues[which].0 = None;
                    self.queues[which].1.held = false;
                    // A drain that is waited for is a handle, too.
                    self.drains.retain(|(other, _)| *other != which);
                }
            }
            Step::Add(which, key) => {
                if let Some((queue, model)) = self.open(which) {
                    queue.add(key);
                    if !model.shut {
                        model.add(key);
                    }
                }
            }
            Step::AddAfter(which, key, delay) => {
                self.number += 1;
                let number = self.number;
                if let Some((queue, model)) = self.open(which) {
                    queue.add_after(key, (), Priority::NORMAL, Duration::from_millis(delay));
                    if !model.shut {
                        model.add_after(key, now + delay, number);
                    }
                }
            }
            Step::CancelDelayed(which, key) => {
                if let Some((queue, model)) = self.queue(which) {
                    let before = model.delayed.len();
                    model.delayed.retain(|(_, _, other)| *other != key);
                    prop_assert_eq!(queue.cancel_delayed(&key), before != model.delayed.len());
                }
            }
            Step::Expedite(which) => {
                if let Some((queue, model)) = self.queue(which) {
                    prop_assert_eq!(queue.expedite_all(|_| true), model.delayed.len());
                    model.promote(Millis::MAX);
                }
            }
            Step::SetLimit(which, limit) => {
                // This looks at no delay.
                if let Some(which) = self.pick(which) {
                    let (queue, model) = &mut self.queues[which];
                    model.limit = limit;
                    queue.as_ref().expect("picked").set_max_concurrent(limit);
                }
            }
            Step::ShutDown(which) => {
                if let Some((queue, model)) = self.queue(which) {
                    queue.shut_down();
                    model.shut = true;
                    model.delayed.clear();
                }
            }
            Step::Drain(which) => {
                let picked = self.pick(which);
                if let Some((queue, model)) = self.queue(which) {
                    let drain = Box::pin(queue.shut_down_with_drain());
                    model.shut = true;
                    self.drains.extend(picked.map(|picked| (picked, drain as _)));
                }
            }
            Step::Next => {}
            Step::Done(which) => {
                if let Some(which) = which.checked_rem(self.turns.len()) {
                    let turn = self.turns.remove(which);
                    self.queues[*turn.owner()].1.done(*turn.key());
                    turn.done();
                }
            }
            Step::Advance(millis) => {
                advance(Duration::from_millis(millis)).await;
                self.now += millis;
            }
        }
        // Queues whose last handle is gone take their keys with them.
        for (_, model) in &mut self.queues {
            if model.is_gone() {
                *model = Model::default();
            }
        }
        self.notice();
        Ok(())
    }

    /// Drains end when their queue is at rest, or was shut down meanwhile.
    fn check_drains(&mut self) -> Result<(), TestCaseError> {
        let mut result = Ok(());
        let queues = &self.queues;
        self.drains.retain_mut(|(queue, drain)| {
            let ended = drain.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
            if queues[*queue].1.at_rest() && !ended {
                result = Err(TestCaseError::fail("a drain goes on that has nothing to wait for"));
            }
            !ended
        });
        result
    }
}

fn on_paused_clock<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime")
        .block_on(future)
}

async fn against_the_model(script: Vec<Step>) -> Result<(), TestCaseError> {
    let mut pair = Pair::new();
    for step in script {
        let is_next = matches!(step, Step::Next);
        pair.step(step).await?;
        if is_next {
            // Whoever looks finds all that came due.
            pair.promote();
            let able = pair.queues.iter().any(|(_, model)| model.is_able());
            let turn = pair.scheduler.try_next();
            prop_assert_eq!(turn.is_some(), able);
            if let Some(turn) = turn {
                pair.take(turn)?;
            }
        }
        pair.check_drains()?;
    }
    Ok(())
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

type Next<'a> = Pin<Box<dyn Future<Output = Option<Turn<Key, (), usize>>> + 'a>>;

/// A `next` with the flag its waker sets.
struct Worker<'a> {
    future: Next<'a>,
    woken: Arc<Flag>,
}

impl<'a> Worker<'a> {
    fn new(scheduler: &'a TestScheduler) -> Self {
        Self { future: Box::pin(scheduler.next()), woken: Arc::new(Flag(AtomicBool::new(true))) }
    }

    fn is_woken(&self) -> bool {
        self.woken.0.load(Ordering::SeqCst)
    }

    fn poll(&mut self) -> Poll<Option<Turn<Key, (), usize>>> {
        self.woken.0.store(false, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&self.woken));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }
}

/// Polls woken workers until none is; each that gets a turn is replaced by a new one if `refill`.
fn settle<'a>(
    pair: &mut Pair,
    scheduler: &'a TestScheduler,
    workers: &mut Vec<Worker<'a>>,
    refill: bool,
) -> Result<(), TestCaseError> {
    while let Some(n) = workers.iter().position(Worker::is_woken) {
        pair.promote();
        if let Poll::Ready(turn) = workers[n].poll() {
            workers.remove(n);
            let Some(turn) = turn else { return Err(TestCaseError::fail("it was not shut down")) };
            pair.take(turn)?;
            if refill {
                workers.push(Worker::new(scheduler));
            }
        }
    }
    Ok(())
}

async fn no_worker_sleeps_in_vain(script: Vec<(Step, bool)>) -> Result<(), TestCaseError> {
    let mut pair = Pair::new();
    let scheduler = pair.scheduler.clone();
    let mut workers: Vec<Worker<'_>> = Vec::new();
    for (step, polled) in script {
        // Time passes a millisecond after another, so that each deadline must wake somebody by itself.
        let steps = match step {
            Step::Advance(millis) => vec![Step::Advance(1); (millis / 4) as usize],
            step => vec![step],
        };
        for step in steps {
            match step {
                // Workers come and give up.
                Step::Next => workers.push(Worker::new(&scheduler)),
                Step::Done(which) if which % 4 == 0 && !workers.is_empty() => {
                    workers.remove(which / 4 % workers.len());
                }
                step => pair.step(step).await?,
            }
            if polled {
                settle(&mut pair, &scheduler, &mut workers, false)?;
                if !workers.is_empty() {
                    pair.promote();
                    let able = pair.queues.iter().position(|(_, model)| model.is_able());
                    prop_assert_eq!(able, None, "this queue has something to do and a worker sleeps");
                }
            }
            pair.check_drains()?;
        }
    }
    // The end: all workers are polled, all that is given back or comes due is served.
    workers.push(Worker::new(&scheduler));
    for _ in 0..250 {
        pair.step(Step::Advance(1)).await?;
        settle(&mut pair, &scheduler, &mut workers, true)?;
        while !pair.turns.is_empty() {
            pair.step(Step::Done(0)).await?;
            settle(&mut pair, &scheduler, &mut workers, true)?;
        }
    }
    for (n, (_, model)) in pair.queues.iter().enumerate() {
        prop_assert!(model.delayed.is_empty(), "the deadlines of queue {n} have passed: {model:?}");
        prop_assert!(model.limit == 0 || model.ready.is_empty(), "queue {n} was forgotten: {model:?}");
    }
    scheduler.shut_down();
    for worker in &mut workers {
        prop_assert!(worker.is_woken() && matches!(worker.poll(), Poll::Ready(None)));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_scheduler_does_what_the_model_does(script in prop::collection::vec(step(), 0..300)) {
        on_paused_clock(against_the_model(script))?;
    }

    #[test]
    fn no_script_leaves_a_worker_asleep_that_could_work(
        script in prop::collection::vec((step(), prop::bool::weighted(0.8)), 0..150),
    ) {
        on_paused_clock(no_worker_sleeps_in_vain(script))?;
    }
}
