//! The queue against a reference that is plain enough to be right: lists that are searched, sets that are copied.
//!
//! Two properties over random scripts: each step of the queue does what the reference does, and no script leaves a
//! waiting `get` asleep that has something to take.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use pilothouse_workqueue::{Item, ItemExponentialFailureRateLimiter, Merge, Priority, Queue};
use proptest::prelude::*;
use tokio::time::advance;

/// The payload: a set of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Bits(u8);

impl Merge for Bits {
    fn merge(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

type Key = u8;
type Millis = u64;

/// What a script may do. Numbers that name one of several things are taken modulo how many there are.
#[derive(Debug, Clone)]
enum Step {
    Add(Key, u8, Priority),
    AddAfter(Key, u8, Priority, Millis),
    AddRateLimited(Key, u8, Priority),
    Forget(Key),
    TryGet,
    Done(usize),
    DoneUnknown(Key),
    Advance(Millis),
    CancelDelayed(Key),
    ExpediteEven,
    ReleaseBackoff,
    Look,
    ShutDown,
    Drain,
}

fn priority() -> impl Strategy<Value = Priority> {
    prop_oneof![4 => Just(Priority::LOW), 4 => Just(Priority::NORMAL), 1 => (-3..3).prop_map(Priority)]
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..12_u8;
    let bit = || (0..8_u8).prop_map(|bit| 1 << bit);
    prop_oneof![
        20 => (key.clone(), bit(), priority()).prop_map(|(k, b, p)| Step::Add(k, b, p)),
        10 => (key.clone(), bit(), priority(), 0..40_u64).prop_map(|(k, b, p, d)| Step::AddAfter(k, b, p, d)),
        8 => (key.clone(), bit(), priority()).prop_map(|(k, b, p)| Step::AddRateLimited(k, b, p)),
        2 => key.clone().prop_map(Step::Forget),
        25 => Just(Step::TryGet),
        20 => any::<usize>().prop_map(Step::Done),
        1 => key.clone().prop_map(Step::DoneUnknown),
        8 => (0..15_u64).prop_map(Step::Advance),
        2 => key.prop_map(Step::CancelDelayed),
        1 => Just(Step::ExpediteEven),
        1 => Just(Step::ReleaseBackoff),
        3 => Just(Step::Look),
        1 => Just(Step::ShutDown),
        1 => Just(Step::Drain),
    ]
}

/// A run that is wanted.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    priority: Priority,
    bits: u8,
    since: Millis,
}

/// A delayed add.
#[derive(Debug, Clone, Copy)]
struct Delayed {
    key: Key,
    at: Millis,
    order: usize,
    priority: Priority,
    bits: u8,
    backoff: bool,
}

/// The group that a key shares its turns with.
fn group(key: Key) -> Key {
    key % 3
}

/// The reference.
#[derive(Debug, Default)]
struct Model {
    now: Millis,
    dirty: BTreeMap<Key, Wanted>,
    /// Dirty keys that are not in processing, in the order in which they joined their priority.
    queue: Vec<Key>,
    /// Keys are in groups that take turns.
    fair: bool,
    /// The order of the groups in each priority.
    turns: BTreeMap<Priority, Vec<Key>>,
    processing: Vec<(Key, Millis)>,
    delayed: Vec<Delayed>,
    orders: usize,
    failures: BTreeMap<Key, u32>,
    run: usize,
    shut: bool,
    adds: u64,
    retries: u64,
}

impl Model {
    fn is_processing(&self, key: Key) -> bool {
        self.processing.iter().any(|(other, _)| *other == key)
    }

    fn want(&mut self, key: Key, bits: u8, priority: Priority, since: Millis) {
        if let Some(wanted) = self.dirty.get_mut(&key) {
            wanted.bits |= bits;
            if wanted.priority < priority {
                wanted.priority = priority;
                if !self.is_processing(key) {
                    self.queue.retain(|other| *other != key);
                    self.push(key);
                }
            }
            return;
        }
        self.adds += 1;
        self.dirty.insert(key, Wanted { priority, bits, since });
        if !self.is_processing(key) {
            self.push(key);
        }
    }

    fn push(&mut self, key: Key) {
        self.queue.push(key);
        self.tidy();
        let turns = self.turns.entry(self.dirty[&key].priority).or_default();
        if !turns.contains(&group(key)) {
            turns.push(group(key));
        }
    }

    /// Queued keys of a priority.
    fn of(&self, priority: Priority) -> impl Iterator<Item = (usize, Key)> {
        let queue = self.queue.iter().copied().enumerate();
        queue.filter(move |(_, key)| self.dirty[key].priority == priority)
    }

    /// The place of the key whose turn it is.
    fn first(&mut self, priority: Priority) -> usize {
        loop {
            let turn = self.turns[&priority][0];
            if let Some((place, _)) = self.of(priority).find(|(_, key)| !self.fair || group(*key) == turn) {
                return place;
            }
            self.turns.get_mut(&priority).expect("it has keys").remove(0);
        }
    }

    /// Priorities without keys have no turns.
    fn tidy(&mut self) {
        let mut turns = std::mem::take(&mut self.turns);
        turns.retain(|&priority, _| self.of(priority).next().is_some());
        self.turns = turns;
    }

    fn promote(&mut self) {
        self.delayed.sort_by_key(|delayed| (delayed.at, delayed.order));
        while let Some(due) = self.delayed.first().copied().filter(|due| due.at <= self.now) {
            self.delayed.remove(0);
            self.want(due.key, due.bits, due.priority, due.at);
        }
    }

    fn add(&mut self, key: Key, bits: u8, priority: Priority) {
        if self.shut {
            return;
        }
        self.promote();
        self.want(key, bits, priority, self.now);
    }

    fn add_after(&mut self, key: Key, bits: u8, priority: Priority, delay: Millis, backoff: bool) {
        if self.shut {
            return;
        }
        self.retries += 1;
        if delay == 0 {
            return self.add(key, bits, priority);
        }
        self.promote();
        self.orders += 1;
        let new = Delayed { key, at: self.now + delay, order: self.orders, priority, bits, backoff };
        let Some(old) = self.delayed.iter_mut().find(|old| old.key == key) else {
            return self.delayed.push(new);
        };
        let (bits, priority) = (old.bits | bits, old.priority.max(priority));
        if new.at < old.at {
            *old = new;
        }
        (old.bits, old.priority) = (bits, priority);
    }

    fn when(&mut self, key: Key) -> Millis {
        let failures = self.failures.entry(key).or_default();
        *failures += 1;
        (1 << (*failures - 1).min(10)).min(64)
    }

    fn take(&mut self) -> Option<(Key, Wanted)> {
        self.promote();
        let mut priorities: Vec<Priority> = self.turns.keys().copied().collect();
        priorities.reverse();
        let Some(&highest) = priorities.first() else {
            self.run = 0;
            return None;
        };
        let place = if priorities.len() == 1 || self.run == 16 {
            self.run = 0;
            let others = if priorities.len() == 1 { &priorities[..] } else { &priorities[1..] };
            let places: Vec<usize> = others.iter().map(|&priority| self.first(priority)).collect();
            // Of equal ones the first, which has the higher priority.
            *places.iter().min_by_key(|&&place| self.dirty[&self.queue[place]].since).expect("not empty")
        } else {
            self.run += 1;
            self.first(highest)
        };
        let key = self.queue.remove(place);
        let wanted = self.dirty[&key];
        let turns = self.turns.get_mut(&wanted.priority).expect("it had a turn");
        turns.retain(|&turn| turn != group(key));
        if self.of(wanted.priority).any(|(_, other)| group(other) == group(key)) {
            self.turns.get_mut(&wanted.priority).expect("it had a turn").push(group(key));
        }
        self.dirty.remove(&key);
        self.tidy();
        self.processing.push((key, self.now));
        Some((key, wanted))
    }

    fn done(&mut self, key: Key) {
        let before = self.processing.len();
        self.processing.retain(|(other, _)| *other != key);
        if before != self.processing.len() && self.dirty.contains_key(&key) {
            self.push(key);
        }
    }

    fn expedite(&mut self, wanted: impl Fn(&Delayed) -> bool) -> usize {
        self.promote();
        let (out, kept): (Vec<Delayed>, Vec<Delayed>) =
            self.delayed.iter().partition(|delayed| wanted(delayed));
        self.delayed = kept;
        for delayed in &out {
            self.want(delayed.key, delayed.bits, delayed.priority, self.now);
        }
        out.len()
    }

    fn shut_down(&mut self, drain: bool) {
        self.promote();
        self.shut = true;
        if !drain {
            self.delayed.clear();
        }
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

async fn against_the_model(script: Vec<Step>, fair: bool) -> Result<(), TestCaseError> {
    let limiter = ItemExponentialFailureRateLimiter::new(Duration::from_millis(1), Duration::from_millis(64));
    let queue = Queue::<Key, Bits>::builder().name("model").rate_limiter(limiter);
    let queue = if fair { queue.fair_by(|key| group(*key)).build() } else { queue.build() };
    let mut model = Model { fair, ..Model::default() };
    let mut drains = Vec::new();
    for step in script {
        match step {
            Step::Add(key, bits, priority) => {
                queue.add_with(key, Bits(bits), priority);
                model.add(key, bits, priority);
            }
            Step::AddAfter(key, bits, priority, delay) => {
                queue.add_after(key, Bits(bits), priority, Duration::from_millis(delay));
                model.add_after(key, bits, priority, delay, false);
            }
            Step::AddRateLimited(key, bits, priority) => {
                let delay = model.when(key);
                prop_assert_eq!(
                    queue.add_rate_limited(key, Bits(bits), priority),
                    Duration::from_millis(delay)
                );
                model.add_after(key, bits, priority, delay, true);
            }
            Step::Forget(key) => {
                prop_assert_eq!(queue.num_requeues(&key), model.failures.get(&key).copied().unwrap_or(0));
                queue.forget(&key);
                model.failures.remove(&key);
            }
            Step::TryGet => {
                let expected = model.take();
                let item = queue.try_get();
                prop_assert_eq!(item.as_ref().map(|item| item.key), expected.map(|(key, _)| key));
                if let (Some(item), Some((_, wanted))) = (item, expected) {
                    prop_assert_eq!(item.payload, Bits(wanted.bits));
                    prop_assert_eq!(item.priority, wanted.priority);
                    prop_assert_eq!(item.queued_for(), Duration::from_millis(model.now - wanted.since));
                }
            }
            Step::Done(which) => {
                if let Some((key, _)) = which.checked_rem(model.processing.len()).map(|n| model.processing[n])
                {
                    queue.done_key(&key);
                    model.done(key);
                }
            }
            Step::DoneUnknown(key) => {
                queue.done_key(&key);
                model.done(key);
            }
            Step::Advance(millis) => {
                advance(Duration::from_millis(millis)).await;
                model.now += millis;
            }
            Step::CancelDelayed(key) => {
                model.promote();
                let before = model.delayed.len();
                model.delayed.retain(|delayed| delayed.key != key);
                prop_assert_eq!(queue.cancel_delayed(&key), before != model.delayed.len());
            }
            Step::ExpediteEven => {
                prop_assert_eq!(
                    queue.expedite_all(|key| key % 2 == 0),
                    model.expedite(|delayed| delayed.key % 2 == 0)
                );
            }
            Step::ReleaseBackoff => {
                model.failures.clear();
                prop_assert_eq!(queue.release_backoff(), model.expedite(|delayed| delayed.backoff));
            }
            Step::Look => {
                model.promote();
                prop_assert_eq!(queue.len(), model.queue.len());
                prop_assert_eq!(queue.len_delayed(), model.delayed.len());
                prop_assert_eq!(queue.shutting_down(), model.shut);
                let stats = queue.stats();
                prop_assert_eq!((stats.adds, stats.retries), (model.adds, model.retries));
                prop_assert_eq!(stats.processing, model.processing.len());
                let running = || model.processing.iter().map(|(_, started)| model.now - started);
                prop_assert_eq!(stats.unfinished_work, Duration::from_millis(running().sum()));
                prop_assert_eq!(stats.longest_running, Duration::from_millis(running().max().unwrap_or(0)));
            }
            Step::ShutDown => {
                queue.shut_down();
                model.shut_down(false);
                drains.clear();
            }
            Step::Drain => {
                drains.push(Box::pin(queue.shut_down_with_drain()));
                model.shut_down(true);
            }
        }
        let at_rest = model.queue.is_empty() && model.delayed.is_empty() && model.processing.is_empty();
        for drain in &mut drains {
            let ended = drain.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
            prop_assert_eq!(ended, at_rest);
        }
        if at_rest {
            drains.clear();
        }
    }
    Ok(())
}

/// What a script of waiting workers may do.
#[derive(Debug, Clone)]
enum Move {
    Get,
    DropGet(usize),
    /// Polls a `get` that was woken, as a runtime would.
    PollWoken(usize),
    Add(Key, Priority),
    AddAfter(Key, Millis),
    TryGet,
    Done(usize),
    CancelDelayed(Key),
    Expedite,
    Advance(Millis),
    ShutDown,
    Drain,
}

fn next_move() -> impl Strategy<Value = Move> {
    let key = 0..6_u8;
    prop_oneof![
        12 => Just(Move::Get),
        5 => any::<usize>().prop_map(Move::DropGet),
        12 => any::<usize>().prop_map(Move::PollWoken),
        12 => (key.clone(), priority()).prop_map(|(k, p)| Move::Add(k, p)),
        12 => (key.clone(), 1..30_u64).prop_map(|(k, d)| Move::AddAfter(k, d)),
        2 => Just(Move::TryGet),
        12 => any::<usize>().prop_map(Move::Done),
        2 => key.prop_map(Move::CancelDelayed),
        1 => Just(Move::Expedite),
        8 => (1..20_u64).prop_map(Move::Advance),
        1 => Just(Move::ShutDown),
        1 => Just(Move::Drain),
    ]
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

type Output = Option<Item<Key, Bits>>;

/// A `get` with the flag its waker sets.
struct Getter<'a> {
    future: Pin<Box<dyn Future<Output = Output> + 'a>>,
    woken: Arc<Flag>,
}

impl Getter<'_> {
    fn poll(&mut self) -> Poll<Output> {
        self.woken.0.store(false, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&self.woken));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    fn is_woken(&self) -> bool {
        self.woken.0.load(Ordering::SeqCst)
    }
}

/// Takes note of a key handed out; it must not be in processing already.
fn hand_out(processing: &mut BTreeSet<Key>, output: Output) -> Result<(), TestCaseError> {
    if let Some(item) = output {
        prop_assert!(processing.insert(item.key), "key {} is with two workers", item.key);
    }
    Ok(())
}

/// Polls every woken `get` until none is.
fn settle(getters: &mut Vec<Getter<'_>>, processing: &mut BTreeSet<Key>) -> Result<(), TestCaseError> {
    while let Some(n) = getters.iter().position(Getter::is_woken) {
        if let Poll::Ready(output) = getters[n].poll() {
            getters.remove(n);
            hand_out(processing, output)?;
        }
    }
    Ok(())
}

async fn no_getter_sleeps_in_vain(script: Vec<Move>) -> Result<(), TestCaseError> {
    let queue: Queue<Key, Bits> = Queue::new();
    let mut getters: Vec<Getter<'_>> = Vec::new();
    let mut processing = BTreeSet::new();
    let mut drains = Vec::new();
    for next in script {
        match next {
            Move::Get => {
                let woken = Arc::new(Flag(AtomicBool::new(false)));
                let mut getter = Getter { future: Box::pin(queue.get()), woken };
                match getter.poll() {
                    Poll::Ready(output) => hand_out(&mut processing, output)?,
                    Poll::Pending => getters.push(getter),
                }
            }
            Move::DropGet(which) => {
                if let Some(n) = which.checked_rem(getters.len()) {
                    getters.remove(n);
                }
            }
            Move::PollWoken(which) => {
                let woken: Vec<usize> = (0..getters.len()).filter(|&n| getters[n].is_woken()).collect();
                if let Some(n) = which.checked_rem(woken.len()).map(|n| woken[n])
                    && let Poll::Ready(output) = getters[n].poll()
                {
                    getters.remove(n);
                    hand_out(&mut processing, output)?;
                }
            }
            Move::Add(key, priority) => queue.add_with(key, Bits(0), priority),
            Move::AddAfter(key, delay) => {
                queue.add_after(key, Bits(0), Priority::NORMAL, Duration::from_millis(delay));
            }
            Move::TryGet => hand_out(&mut processing, queue.try_get())?,
            Move::Done(which) => {
                if let Some(key) =
                    which.checked_rem(processing.len()).and_then(|n| processing.iter().nth(n).copied())
                {
                    processing.remove(&key);
                    queue.done_key(&key);
                }
            }
            Move::CancelDelayed(key) => {
                queue.cancel_delayed(&key);
            }
            Move::Expedite => {
                queue.expedite_all(|key| key % 2 == 0);
            }
            Move::Advance(millis) => advance(Duration::from_millis(millis)).await,
            Move::ShutDown => queue.shut_down(),
            Move::Drain => drains.push(queue.shut_down_with_drain()),
        }
    }
    settle(&mut getters, &mut processing)?;
    prop_assert!(getters.is_empty() || queue.is_empty(), "a key is ready and a worker sleeps");
    // One millisecond after another, so that each deadline must wake somebody by itself.
    for _ in 0..40 {
        advance(Duration::from_millis(1)).await;
        settle(&mut getters, &mut processing)?;
    }
    // Whatever looks at the queue moves what came due and wakes for it; so the first look must find nothing to move.
    let depth = queue.len();
    prop_assert!(
        depth == 0 || getters.is_empty(),
        "{depth} keys came due and {} workers sleep",
        getters.len()
    );
    prop_assert_eq!(queue.len_delayed(), 0, "all deadlines have passed");
    // The end: everything is given back, and a queue that was shut down lets all workers go.
    let was_shut = queue.shutting_down();
    while let Some(key) = processing.pop_first() {
        queue.done_key(&key);
        settle(&mut getters, &mut processing)?;
    }
    prop_assert!(!was_shut || getters.is_empty(), "the queue is shut and a worker sleeps");
    queue.shut_down();
    settle(&mut getters, &mut processing)?;
    prop_assert!(getters.is_empty());
    for drain in &mut drains {
        let drain = std::pin::pin!(drain);
        // Keys that nobody took are still queued in a drain without workers; the shut-down has ended it.
        prop_assert!(drain.poll(&mut Context::from_waker(Waker::noop())).is_ready());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_queue_does_what_the_model_does(
        script in prop::collection::vec(step(), 0..300),
        fair in any::<bool>(),
    ) {
        on_paused_clock(against_the_model(script, fair))?;
    }

    #[test]
    fn no_script_leaves_a_worker_asleep_that_could_work(script in prop::collection::vec(next_move(), 0..60)) {
        on_paused_clock(no_getter_sleeps_in_vain(script))?;
    }
}
