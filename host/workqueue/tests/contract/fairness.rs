//! Fair sharing between groups of keys.

use std::collections::BTreeMap;

use pilothouse_workqueue::{Priority, Queue};

/// A group and a number in it.
type Key = (u8, u32);

fn fair() -> Queue<Key> {
    Queue::builder().fair_by(|(group, _): &Key| *group).build()
}

fn keys(queue: &Queue<Key>) -> Vec<Key> {
    std::iter::from_fn(|| queue.try_get()).map(|item| item.key).collect()
}

#[test]
fn groups_take_turns_a_key_each_and_each_is_first_in_first_out() {
    let queue = fair();
    for key in [(1, 1), (1, 2), (1, 3), (2, 1), (3, 1), (3, 2)] {
        queue.add(key);
    }
    assert_eq!(keys(&queue), [(1, 1), (2, 1), (3, 1), (1, 2), (3, 2), (1, 3)]);
}

#[test]
fn without_fair_sharing_a_priority_is_first_in_first_out_over_all_groups() {
    let queue: Queue<Key> = Queue::new();
    let added = [(1, 1), (1, 2), (2, 1), (1, 3)];
    added.iter().for_each(|key| queue.add(*key));
    assert_eq!(keys(&queue), added);
}

#[test]
fn a_group_of_100_000_keys_delays_a_key_of_another_by_one_key() {
    let queue = fair();
    queue.add_batch((0..100_000).map(|n| ((1, n), (), Priority::NORMAL)));
    for n in 0..1_000 {
        queue.add((2, n));
        let next = [(); 2].map(|()| queue.try_get().expect("queued").key);
        assert!(next.contains(&(2, n)), "one key of the other group at most goes before");
    }
    assert!(keys(&queue).into_iter().eq((1_000..100_000).map(|n| (1, n))));
}

#[test]
fn a_group_that_got_its_first_key_has_its_turn_after_the_others() {
    let queue = fair();
    for key in [(1, 1), (1, 2), (2, 1), (2, 2)] {
        queue.add(key);
    }
    queue.try_get().expect("of group 1");
    queue.add((3, 1));
    assert_eq!(keys(&queue), [(2, 1), (1, 2), (3, 1), (2, 2)]);
}

#[test]
fn groups_take_turns_within_a_priority_and_priorities_go_first() {
    let queue = fair();
    for n in 0..2 {
        for group in [1, 2] {
            queue.add_with((group, n), (), Priority::LOW);
            queue.add_with((group, 10 + n), (), Priority::NORMAL);
        }
    }
    let order = [(1, 10), (2, 10), (1, 11), (2, 11), (1, 0), (2, 0), (1, 1), (2, 1)];
    assert_eq!(keys(&queue), order);
}

#[test]
fn a_raised_key_joins_the_end_of_its_group_in_the_higher_priority() {
    let queue = fair();
    for key in [(1, 1), (1, 2), (2, 1)] {
        queue.add_with(key, (), Priority::LOW);
    }
    for key in [(1, 10), (1, 11), (3, 10)] {
        queue.add(key);
    }
    queue.add((1, 2));
    queue.add((2, 1));
    assert_eq!(keys(&queue), [(1, 10), (3, 10), (2, 1), (1, 11), (1, 2), (1, 1)]);
}

#[test]
fn a_group_whose_keys_were_all_raised_is_passed_over() {
    let queue = fair();
    for key in [(1, 1), (2, 1), (3, 1)] {
        queue.add_with(key, (), Priority::LOW);
    }
    queue.add((1, 1));
    queue.add((2, 1));
    assert_eq!(keys(&queue), [(1, 1), (2, 1), (3, 1)]);
}

#[test]
fn a_group_that_was_emptied_by_raises_and_got_a_key_before_its_turn_keeps_it() {
    let queue = fair();
    for key in [(1, 1), (2, 1), (3, 1)] {
        queue.add_with(key, (), Priority::LOW);
    }
    queue.add((1, 1));
    queue.add_with((1, 2), (), Priority::LOW);
    assert_eq!(keys(&queue), [(1, 1), (1, 2), (2, 1), (3, 1)]);
}

#[test]
fn a_key_given_back_dirty_joins_the_end_of_its_group() {
    let queue = fair();
    queue.add((1, 1));
    let item = queue.try_get().expect("queued");
    for key in [(1, 1), (1, 2), (2, 1)] {
        queue.add(key);
    }
    queue.done(item);
    assert_eq!(keys(&queue), [(1, 2), (2, 1), (1, 1)]);
}

#[test]
fn the_oldest_turn_of_a_low_priority_is_not_lost_to_ageing() {
    let queue = fair();
    for key in [(1, 1), (1, 2), (2, 1)] {
        queue.add_with(key, (), Priority::LOW);
    }
    (0..100).for_each(|n| queue.add((3, n)));
    let low: Vec<(usize, Key)> =
        keys(&queue).into_iter().enumerate().filter(|(_, (group, _))| *group != 3).collect();
    assert_eq!(low, [(16, (1, 1)), (33, (2, 1)), (50, (1, 2))]);
}

#[test]
fn each_of_many_groups_gets_the_same() {
    let queue = fair();
    // Group n has n keys; all are added group by group.
    (1..=100_u8).for_each(|group| (0..u32::from(group)).for_each(|n| queue.add((group, n))));
    let mut taken: BTreeMap<u8, u32> = BTreeMap::new();
    for (group, n) in keys(&queue) {
        let round = taken.entry(group).or_default();
        assert_eq!(*round, n, "first in, first out");
        *round += 1;
        let round = *round;
        let behind = (1..=100).filter(|&other| {
            u32::from(other) >= round && taken.get(&other).copied().unwrap_or(0) + 1 < round
        });
        assert_eq!(behind.count(), 0, "group {group} had its turn {round} before the others theirs");
    }
    assert_eq!(taken.len(), 100);
}
