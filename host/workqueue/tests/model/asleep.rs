//! No script leaves a waiting `get` asleep that has something to take.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use pilothouse_workqueue::{Item, Priority, Queue, Verdict};
use proptest::prelude::*;
use tokio::time::advance;

use crate::{Bits, Key, Millis, on_paused_clock, priority};

/// What a script of waiting workers may do.
#[derive(Debug, Clone)]
enum Move {
    Get,
    DropGet(usize),
    /// Polls a `get` that was woken, as a runtime would.
    PollWoken(usize),
    /// Polls any `get`, as a `select!` would.
    Poll(usize),
    Add(Key, Priority),
    AddAfter(Key, Millis),
    TryGet,
    Done(usize),
    Finish(usize, Millis),
    CancelDelayed(Key),
    Expedite,
    Advance(Millis),
    ShutDown,
    Drain,
}

fn next_move() -> impl Strategy<Value = Move> {
    let key = 0..6_u16;
    prop_oneof![
        12 => Just(Move::Get),
        5 => any::<usize>().prop_map(Move::DropGet),
        12 => any::<usize>().prop_map(Move::PollWoken),
        4 => any::<usize>().prop_map(Move::Poll),
        12 => (key.clone(), priority()).prop_map(|(k, p)| Move::Add(k, p)),
        12 => (key.clone(), 1..30_u64).prop_map(|(k, d)| Move::AddAfter(k, d)),
        2 => Just(Move::TryGet),
        12 => any::<usize>().prop_map(Move::Done),
        6 => (any::<usize>(), 0..30_u64).prop_map(|(n, d)| Move::Finish(n, d)),
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

/// The keys in processing.
type Processing = BTreeMap<Key, Item<Key, Bits>>;

/// Takes note of a key handed out; it must not be in processing already.
fn hand_out(processing: &mut Processing, output: Output) -> Result<(), TestCaseError> {
    if let Some(item) = output {
        let key = item.key;
        prop_assert!(processing.insert(key, item).is_none(), "key {key} is with two workers");
    }
    Ok(())
}

/// Of the keys in processing, the one at this place.
fn running(processing: &mut Processing, which: usize) -> Option<Item<Key, Bits>> {
    let key = which.checked_rem(processing.len()).and_then(|n| processing.keys().nth(n).copied())?;
    processing.remove(&key)
}

/// Polls a new future, which joins the others if it waits.
fn begin<'a>(
    future: impl Future<Output = Output> + 'a,
    getters: &mut Vec<Getter<'a>>,
    processing: &mut Processing,
) -> Result<(), TestCaseError> {
    let mut getter = Getter { future: Box::pin(future), woken: Arc::new(Flag(AtomicBool::new(false))) };
    match getter.poll() {
        Poll::Ready(output) => hand_out(processing, output)?,
        Poll::Pending => getters.push(getter),
    }
    Ok(())
}

/// Polls every woken `get` until none is.
fn settle(getters: &mut Vec<Getter<'_>>, processing: &mut Processing) -> Result<(), TestCaseError> {
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
    let mut processing = Processing::new();
    let mut drains = Vec::new();
    for next in script {
        match next {
            Move::Get => begin(queue.get(), &mut getters, &mut processing)?,
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
            Move::Poll(which) => {
                if let Some(n) = which.checked_rem(getters.len())
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
                if let Some(item) = running(&mut processing, which) {
                    queue.done(item);
                }
            }
            Move::Finish(which, delay) => {
                if let Some(mut item) = running(&mut processing, which) {
                    queue.finish(&mut item, Verdict::After(Duration::from_millis(delay)));
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
    while let Some((_, item)) = processing.pop_first() {
        queue.done(item);
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
    fn no_script_leaves_a_worker_asleep_that_could_work(script in prop::collection::vec(next_move(), 0..60)) {
        on_paused_clock(no_getter_sleeps_in_vain(script))?;
    }
}
