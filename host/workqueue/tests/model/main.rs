//! The queue against a reference that is plain enough to be right.
//!
//! Two properties over random scripts: each step of the queue does what the reference does (here), and no script leaves a
//! waiting `get` asleep that has something to take (`asleep`).

mod asleep;
mod reference;

use std::collections::BTreeMap;
use std::future::Future;
use std::task::{Context, Waker};
use std::time::Duration;

use pilothouse_workqueue::{Item, ItemExponentialFailureRateLimiter, Merge, Priority, Queue, Verdict};
use proptest::prelude::*;
use tokio::time::advance;

use reference::Model;

/// The payload: a set of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Bits(u8);

impl Merge for Bits {
    fn merge(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

type Key = u16;
type Millis = u64;

/// What a script may do. Numbers that name one of several things are taken modulo how many there are.
#[derive(Debug, Clone)]
enum Step {
    Add(Key, u8, Priority),
    AddBatch(Vec<(Key, u8, Priority)>),
    AddAfter(Key, u8, Priority, Millis),
    AddRateLimited(Key, u8, Priority),
    Forget(Key),
    TryGet,
    Done(usize),
    /// As a batch of one.
    DoneBatch(usize),
    /// With the payload of the next run.
    Finish(usize, u8, Verdict),
    /// With the item of another queue.
    DoneForeign(Key),
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

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![
        Just(Verdict::Done),
        (0..40_u64).prop_map(|delay| Verdict::After(Duration::from_millis(delay))),
        prop_oneof![2 => Just(0), 1 => 0..40_u64]
            .prop_map(|least| Verdict::Retry { at_least: Duration::from_millis(least) }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..12_u16;
    let bit = || (0..8_u8).prop_map(|bit| 1 << bit);
    prop_oneof![
        20 => (key.clone(), bit(), priority()).prop_map(|(k, b, p)| Step::Add(k, b, p)),
        2 => prop::collection::vec((key.clone(), bit(), priority()), 0..5).prop_map(Step::AddBatch),
        10 => (key.clone(), bit(), priority(), 0..40_u64).prop_map(|(k, b, p, d)| Step::AddAfter(k, b, p, d)),
        8 => (key.clone(), bit(), priority()).prop_map(|(k, b, p)| Step::AddRateLimited(k, b, p)),
        2 => key.clone().prop_map(Step::Forget),
        25 => Just(Step::TryGet),
        15 => any::<usize>().prop_map(Step::Done),
        5 => any::<usize>().prop_map(Step::DoneBatch),
        10 => (any::<usize>(), bit(), verdict()).prop_map(|(n, b, v)| Step::Finish(n, b, v)),
        1 => key.clone().prop_map(Step::DoneForeign),
        8 => (0..15_u64).prop_map(Step::Advance),
        2 => key.prop_map(Step::CancelDelayed),
        1 => Just(Step::ExpediteEven),
        1 => Just(Step::ReleaseBackoff),
        3 => Just(Step::Look),
        1 => Just(Step::ShutDown),
        1 => Just(Step::Drain),
    ]
}

/// Many steps of one kind, so that slots are allocated and released by the hundred, and compacted in between.
fn burst() -> impl Strategy<Value = Vec<Step>> {
    let keys = || (0..250_u16, 1..250_u16).prop_map(|(from, count)| from..from + count);
    let many = |step: fn(Key) -> Step| keys().prop_map(move |keys| keys.map(step).collect::<Vec<_>>());
    // Hundreds run, of which a few are wanted again or delayed when all are given back.
    let few = || prop::collection::vec(0..250_u16, 0..6);
    let tide = (100..250_u16, few(), few(), any::<bool>()).prop_map(|(count, again, delayed, reverse)| {
        let mut steps: Vec<Step> = (0..count).map(|key| Step::Add(key, 1, Priority::NORMAL)).collect();
        steps.extend((0..count).map(|_| Step::TryGet));
        steps.extend(again.into_iter().map(|key| Step::Add(key, 2, Priority::LOW)));
        steps.extend(delayed.into_iter().map(|key| Step::AddAfter(key, 4, Priority::NORMAL, 20)));
        steps.push(Step::Advance(3));
        steps.extend((0..count).rev().map(|left| Step::Done(if reverse { left.into() } else { 0 })));
        steps
    });
    prop_oneof![
        3 => tide,
        3 => many(|key| Step::Add(key, 1, Priority(i32::from(key % 3)))),
        2 => many(|key| Step::AddAfter(key, 2, Priority::NORMAL, u64::from(key * 7 % 100))),
        1 => many(Step::CancelDelayed),
        5 => many(|_| Step::TryGet),
        5 => many(|key| Step::Done(key.into())),
        4 => step().prop_map(|step| vec![step]),
        2 => (50..150_u64).prop_map(|millis| vec![Step::Advance(millis)]),
    ]
}

fn on_paused_clock<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime")
        .block_on(future)
}

/// Compares what was taken with what the model hands out.
fn taken(
    item: Option<Item<Key, Bits>>,
    model: &mut Model,
    items: &mut BTreeMap<Key, Item<Key, Bits>>,
) -> Result<(), TestCaseError> {
    let expected = model.take();
    prop_assert_eq!(item.as_ref().map(|item| item.key), expected.map(|(key, _)| key));
    if let (Some(item), Some((_, wanted))) = (item, expected) {
        prop_assert_eq!(item.payload, Bits(wanted.bits));
        prop_assert_eq!(item.priority, wanted.priority);
        prop_assert_eq!(item.num_requeues(), model.failures.get(&item.key).copied().unwrap_or(0));
        let waited = if model.named { model.now - wanted.since } else { 0 };
        prop_assert_eq!(item.queued_for(), Duration::from_millis(waited));
        items.insert(item.key, item);
    }
    Ok(())
}

async fn against_the_model(script: Vec<Step>, named: bool) -> Result<(), TestCaseError> {
    let limiter = ItemExponentialFailureRateLimiter::new(Duration::from_millis(1), Duration::from_millis(64));
    let queue = Queue::<Key, Bits>::builder().rate_limiter(limiter);
    let queue = if named { queue.name("model").build() } else { queue.build() };
    let mut model = Model::new(named);
    let mut items: BTreeMap<Key, Item<Key, Bits>> = BTreeMap::new();
    let mut drains = Vec::new();
    for step in script {
        match step {
            Step::Add(key, bits, priority) => {
                queue.add_with(key, Bits(bits), priority);
                model.add(key, bits, priority);
            }
            Step::AddBatch(adds) => {
                let bits = |&(key, bits, priority): &(Key, u8, Priority)| (key, Bits(bits), priority);
                queue.add_batch(adds.iter().map(bits));
                adds.into_iter().for_each(|(key, bits, priority)| model.add(key, bits, priority));
            }
            Step::AddAfter(key, bits, priority, delay) => {
                queue.add_after(key, Bits(bits), priority, Duration::from_millis(delay));
                model.add_after(key, bits, priority, delay, false);
            }
            Step::AddRateLimited(key, bits, priority) => {
                let delay = (!model.shut).then(|| model.when(key));
                prop_assert_eq!(
                    queue.add_rate_limited(key, Bits(bits), priority),
                    delay.map(Duration::from_millis)
                );
                if let Some(delay) = delay {
                    model.add_after(key, bits, priority, delay, true);
                }
            }
            Step::Forget(key) => {
                prop_assert_eq!(queue.num_requeues(&key), model.failures.get(&key).copied().unwrap_or(0));
                queue.forget(&key);
                model.failures.remove(&key);
            }
            Step::TryGet => taken(queue.try_get(), &mut model, &mut items)?,
            Step::Done(which) => {
                if let Some(item) = model.running(which).and_then(|key| items.remove(&key)) {
                    model.done(item.key);
                    queue.done(item);
                }
            }
            Step::DoneBatch(which) => {
                if let Some(item) = model.running(which).and_then(|key| items.remove(&key)) {
                    model.done(item.key);
                    queue.done_batch([item]);
                }
            }
            Step::Finish(which, bits, verdict) => {
                if let Some(mut item) = model.running(which).and_then(|key| items.remove(&key)) {
                    item.payload = Bits(bits);
                    let delay = model.finish(item.key, bits, item.priority, verdict);
                    prop_assert_eq!(queue.finish(&mut item, verdict), delay.map(Duration::from_millis));
                    prop_assert!(item.is_finished());
                    queue.done(item);
                }
            }
            Step::DoneForeign(key) => {
                let other = Queue::new();
                other.add(key);
                queue.done(other.try_get().expect("just added"));
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
                let running = || {
                    model.processing.iter().map(|(_, started)| if named { model.now - started } else { 0 })
                };
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_queue_does_what_the_model_does(
        script in prop::collection::vec(step(), 0..300),
        named in any::<bool>(),
    ) {
        on_paused_clock(against_the_model(script, named))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_queue_does_what_the_model_does_while_hundreds_of_keys_come_and_go(
        script in prop::collection::vec(burst(), 0..40),
        named in any::<bool>(),
    ) {
        on_paused_clock(against_the_model(script.concat(), named))?;
    }
}
