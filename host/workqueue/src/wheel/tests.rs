use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Insert(u64),
    /// At the beginning of a bucket to come of this level or a few ticks later.
    Meet(u32, u64, u64),
    End(usize),
    /// Slots are compacted.
    Rename,
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
        3 => any::<usize>().prop_map(Step::End),
        1 => Just(Step::Rename),
        4 => (1_u64..50).prop_map(|ticks| Step::Pass(ticks << TICK)),
        2 => time().prop_map(|time| Step::Pass(time >> 10)),
    ]
}

/// Deadlines by the numbers of their entries, with their slots.
type Waiting = BTreeMap<u32, (Nanos, u32)>;

fn entries(waiting: &Waiting, until: Nanos) -> Vec<Entry> {
    let entries = waiting.iter().map(|(&number, &(at, slot))| Entry { at, number, slot });
    let mut entries: Vec<Entry> = entries.filter(|entry| entry.at <= until).collect();
    entries.sort_unstable();
    entries
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn what_is_due_comes_out_in_order_and_nothing_before_its_time(
        steps in prop::collection::vec(step(), 1..300)
    ) {
        let mut wheel = Wheel::default();
        let mut waiting = Waiting::new();
        let mut slots = 0;
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
                    let before = wheel.next();
                    let (number, is_next) = wheel.insert(slots, deadline, now);
                    prop_assert_eq!(is_next, before.is_none_or(|before| wheel.next().unwrap() < before));
                    waiting.insert(number, (deadline, slots));
                    slots += 1;
                }
                Step::End(which) => {
                    let Some(which) = which.checked_rem(waiting.len()) else { continue };
                    let number = *waiting.keys().nth(which).unwrap();
                    waiting.remove(&number);
                    wheel.ended(|entry| waiting.contains_key(&entry.number));
                }
                Step::Rename => {
                    waiting.values_mut().for_each(|(_, slot)| *slot += 1);
                    slots += 1;
                    wheel.refill(entries(&waiting, Nanos::MAX).into_iter().rev());
                }
                Step::Pass(time) => {
                    now = (now + time).min(1 << 60);
                    for due in entries(&waiting, now) {
                        let came = wheel.pop_due(now, |entry| waiting.contains_key(&entry.number));
                        prop_assert_eq!(came, Some(due));
                        waiting.remove(&due.number);
                    }
                    let came = wheel.pop_due(now, |entry| waiting.contains_key(&entry.number));
                    prop_assert_eq!(came, None);
                }
            }
            prop_assert_eq!(wheel.len(), waiting.len());
            prop_assert!(wheel.stale <= wheel.len() + STALE);
            let all = entries(&waiting, Nanos::MAX);
            let mut live = wheel.live(|entry| waiting.contains_key(&entry.number));
            live.sort_unstable();
            prop_assert_eq!(live, &all[..]);
            match (wheel.next(), all.first()) {
                (Some(next), Some(earliest)) => prop_assert!(next <= earliest.at),
                (next, earliest) => prop_assert_eq!(next, earliest.map(|entry| entry.at)),
            }
            prop_assert!(!wheel.is_empty() || wheel.levels.is_empty() && wheel.near.is_empty());
        }
    }

    /// A timer that sleeps until `next` and looks then is woken once for each deadline.
    #[test]
    fn a_sleeper_wakes_once_for_each_deadline(deadlines in prop::collection::vec(time(), 1..20)) {
        let mut wheel = Wheel::default();
        for (slot, &deadline) in (0_u32..).zip(&deadlines) {
            wheel.insert(slot, deadline.min(1 << 59), 0);
        }
        let mut wakes = 0;
        while let Some(now) = wheel.next() {
            wakes += 1;
            while let Some(entry) = wheel.pop_due(now, |_| true) {
                prop_assert_eq!(entry.at, now);
            }
        }
        let different: std::collections::BTreeSet<_> = deadlines.iter().map(|at| at.min(&(1 << 59))).collect();
        prop_assert_eq!(wakes, different.len());
    }
}

#[test]
fn deadlines_that_are_set_and_ended_again_and_again_take_no_more_memory() {
    let mut wheel = Wheel::default();
    let (kept, _) = wheel.insert(0, 1 << 40, 0);
    for _ in 0..10_000 {
        wheel.insert(1, 1 << 40, 0);
        wheel.ended(|entry| entry.number == kept);
    }
    let held: usize =
        wheel.levels.iter().flat_map(|level| &level.buckets).map(|bucket| bucket.entries.len()).sum();
    assert!(held <= 2 + STALE, "{held} entries for one delay");
}
