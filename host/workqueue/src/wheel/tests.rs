use foldhash::fast::RandomState;
use proptest::prelude::*;

use super::*;
use crate::slots::SlotState;

/// A slot with this deadline.
fn delayed(slots: &mut Slots<u32, ()>, key: u32, deadline: Nanos) -> u32 {
    let slot = slots.find_or_insert(key, key);
    slots[slot].time = deadline;
    slots[slot].place = SlotState::Delayed;
    slot
}

#[derive(Debug, Clone)]
enum Step {
    Insert(u64),
    /// Slots are compacted.
    Rename,
    /// At the beginning of a bucket to come of this level or a few ticks later.
    Meet(u32, u64, u64),
    Remove(usize),
    Replace(usize),
    Pass(u64),
}

/// Times of every size, from nanoseconds to 30 years.
fn time() -> impl Strategy<Value = u64> {
    (0_u32..60, any::<u64>()).prop_map(|(bits, number)| number & ((1 << bits) - 1))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => time().prop_map(Step::Insert),
        // Deadlines that meet.
        2 => (1_u64..4).prop_map(|ticks| Step::Insert(ticks << 21)),
        6 => (1_u32..3, 1_u64..3, 0_u64..2).prop_map(|(level, bucket, tick)| Step::Meet(level, bucket, tick)),
        2 => any::<usize>().prop_map(Step::Remove),
        1 => Just(Step::Rename),
        1 => any::<usize>().prop_map(Step::Replace),
        4 => (1_u64..50).prop_map(|ticks| Step::Pass(ticks << TICK)),
        2 => time().prop_map(|time| Step::Pass(time >> 10)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn what_is_due_comes_out_in_order_and_nothing_before_its_time(
        steps in prop::collection::vec(step(), 1..300)
    ) {
        let mut slots: Slots<u32, ()> = Slots::new(RandomState::default());
        let mut made = 0;
        let mut wheel = Wheel::default();
        // Slots by their deadlines, in the order in which they were set.
        let mut waiting: Vec<u32> = Vec::new();
        // Slots that left the wheel, to be freed.
        let mut gone: Vec<u32> = Vec::new();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Insert(_) | Step::Meet(..) => {
                    let deadline = match step {
                        Step::Meet(level, bucket, tick) => {
                            let width = TICK + BITS * level;
                            (((now >> width) + bucket) << width) + (tick << TICK)
                        }
                        Step::Insert(delay) => now + delay.min(1 << 59),
                        _ => unreachable!("matched above"),
                    };
                    made += 1;
                    let slot = delayed(&mut slots, made, deadline);
                    let before = wheel.next();
                    let sooner = wheel.insert(slot, now, &mut slots);
                    prop_assert_eq!(sooner, before.is_none_or(|before| wheel.next().unwrap() < before));
                    waiting.push(slot);
                }
                Step::Remove(which) if !waiting.is_empty() => {
                    let slot = waiting.remove(which % waiting.len());
                    wheel.remove(slot, &mut slots);
                    gone.push(slot);
                }
                Step::Replace(which) if !waiting.is_empty() => {
                    made += 1;
                    let which = which % waiting.len();
                    let place = &mut waiting[which];
                    let at = slots[*place].time;
                    let new = delayed(&mut slots, made, at);
                    let old = std::mem::replace(place, new);
                    wheel.replace(old, new, &mut slots);
                    gone.push(old);
                }
                Step::Remove(_) | Step::Replace(_) => {}
                Step::Rename => {
                    for slot in gone.drain(..) {
                        let hash = *slots[slot].key();
                        slots.release_hashed(slot, hash);
                    }
                    let numbers = slots.compact();
                    wheel.rename(&numbers, &mut slots);
                    waiting.iter_mut().for_each(|slot| *slot = numbers[*slot as usize]);
                }
                Step::Pass(time) => {
                    now = (now + time).min(1 << 60);
                    let mut due: Vec<u32> = Vec::new();
                    waiting.retain(|&slot| {
                        let is_due = slots[slot].time <= now;
                        due.extend(is_due.then_some(slot));
                        !is_due
                    });
                    due.sort_by_key(|&slot| slots[slot].time);
                    let mut came: Vec<u32> = Vec::new();
                    while let Some(slot) = wheel.pop_due(now, &mut slots) {
                        came.push(slot);
                    }
                    gone.extend(&came);
                    prop_assert_eq!(came, due);
                }
            }
            prop_assert_eq!(wheel.len(), waiting.len());
            let mut walked: Vec<u32> = Vec::new();
            wheel.walk(&slots, |slot| walked.push(slot));
            walked.sort_by_key(|&slot| slots[slot].time);
            let mut expected = waiting.clone();
            expected.sort_by_key(|&slot| slots[slot].time);
            prop_assert_eq!(walked, expected);
            let earliest = waiting.iter().map(|&slot| slots[slot].time).min();
            match (wheel.next(), earliest) {
                (Some(next), Some(earliest)) => prop_assert!(next <= earliest),
                (next, earliest) => prop_assert_eq!(next, earliest),
            }
        }
    }

    /// Whoever sleeps until `next` and looks then is never woken more often than there are levels and entries.
    #[test]
    fn a_sleeper_wakes_a_few_times_for_each_deadline(deadlines in prop::collection::vec(time(), 1..20)) {
        let mut slots: Slots<u32, ()> = Slots::new(RandomState::default());
        let mut wheel = Wheel::default();
        for (key, &deadline) in (0_u32..).zip(&deadlines) {
            let slot = delayed(&mut slots, key, deadline.min(1 << 59));
            wheel.insert(slot, 0, &mut slots);
        }
        let mut wakes = 0;
        while let Some(now) = wheel.next() {
            wakes += 1;
            while let Some(slot) = wheel.pop_due(now, &mut slots) {
                prop_assert_eq!(slots[slot].time, now);
            }
        }
        prop_assert!(wakes <= deadlines.len() * (LEVELS + 1), "{} wakes", wakes);
    }
}

/// As many keys as a tick can spread, in each tick: a bucket of the level above is all but spread when its time comes.
#[test]
fn a_bucket_with_very_many_keys_is_spread_before_its_time() {
    let mut slots: Slots<u32, ()> = Slots::new(RandomState::default());
    let mut wheel = Wheel::default();
    let ticks = 3 * 64 * 64;
    for tick in 1..ticks {
        let slot = delayed(&mut slots, tick, u64::from(tick) << TICK);
        wheel.insert(slot, 0, &mut slots);
    }
    let mut left = Vec::new();
    for tick in 1..u64::from(ticks) {
        if tick.is_multiple_of(64 * 64) {
            let ahead = wheel.ahead.iter().find(|ahead| ahead.of.level == 2).expect("its time is near");
            let source = wheel.levels[2].as_ref().expect("it has keys").buckets[ahead.of.bucket];
            left.push(source.is_empty());
        }
        assert!(wheel.pop_due(tick << TICK, &mut slots).is_some());
    }
    assert_eq!(left, [true, true]);
}
