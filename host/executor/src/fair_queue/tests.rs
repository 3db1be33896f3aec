//! The order of tasks, compared with a model, and the shares that follow from it.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const MS: Nanos = 1_000_000;

/// What the queue should do, by looking at every group each time.
#[derive(Default)]
struct Model {
    groups: BTreeMap<GroupId, ModelGroup>,
    clock: Nanos,
}

#[derive(Default)]
struct ModelGroup {
    ready: VecDeque<u32>,
    running: usize,
    virtual_time: Nanos,
}

impl Model {
    fn may_run(&self, limit: usize) -> impl Iterator<Item = (GroupId, &ModelGroup)> {
        let groups = self.groups.iter().map(|(id, group)| (*id, group));
        groups.filter(move |(_, group)| !group.ready.is_empty() && group.running < limit)
    }

    /// A group that has a task to take has saved up little.
    fn bound(&mut self, id: GroupId, limit: usize) {
        let earliest = self.clock.saturating_sub(MOST_SAVED);
        if self.may_run(limit).any(|(other, _)| other == id) {
            let group = self.groups.get_mut(&id).unwrap();
            group.virtual_time = group.virtual_time.max(earliest);
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Push(u32),
    Take,
    /// Ends one of the running tasks, after so many nanoseconds.
    Charge(usize, Nanos),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0_u32..4).prop_map(Step::Push),
        Just(Step::Take),
        (any::<usize>(), 0..40 * MS).prop_map(|(task, used)| Step::Charge(task, used)),
    ]
}

proptest! {
    #[test]
    fn the_next_task_is_the_oldest_of_the_group_that_used_least(
        steps in prop::collection::vec(step(), 1..200),
        limit in 1_usize..4,
    ) {
        let mut queue = FairQueue::new(limit);
        let mut model = Model::default();
        let ids: Vec<GroupId> = (0..4).map(|_| queue.add_group()).collect();
        model.groups.extend(ids.iter().map(|id| (*id, ModelGroup::default())));
        let mut running: Vec<GroupId> = Vec::new();
        for (number, step) in (0..).zip(steps) {
            match step {
                Step::Push(group) => {
                    let id = ids[group as usize];
                    let could_run = model.may_run(limit).any(|(other, _)| other == id);
                    queue.push(id, number);
                    let clock = model.clock;
                    let group = model.groups.get_mut(&id).unwrap();
                    if group.ready.is_empty() && group.running == 0 {
                        group.virtual_time = group.virtual_time.max(clock);
                    }
                    group.ready.push_back(number);
                    if !could_run {
                        model.bound(id, limit);
                    }
                }
                Step::Take => {
                    let least = model.may_run(limit).map(|(_, group)| group.virtual_time).min();
                    let taken = queue.take();
                    prop_assert_eq!(taken.is_some(), least.is_some());
                    if let (Some((id, task)), Some(least)) = (taken, least) {
                        model.clock = model.clock.max(least);
                        let group = model.groups.get_mut(&id).unwrap();
                        prop_assert_eq!(group.virtual_time, least);
                        prop_assert!(group.running < limit);
                        prop_assert_eq!(group.ready.pop_front(), Some(task));
                        group.running += 1;
                        running.push(id);
                    }
                }
                Step::Charge(task, used) if !running.is_empty() => {
                    let id = running.swap_remove(task % running.len());
                    queue.charge(id, used, false);
                    let group = model.groups.get_mut(&id).unwrap();
                    group.running -= 1;
                    group.virtual_time += used.max(LEAST_CHARGE);
                    model.bound(id, limit);
                }
                Step::Charge(..) => {}
            }
            prop_assert_eq!(queue.eligible(), model.may_run(limit).count());
        }
    }

    /// Groups that always have tasks get the same CPU time, whatever a poll of each costs and however many tasks each has.
    #[test]
    fn busy_groups_get_the_same_time(costs in prop::collection::vec((1_u64..10, 1_usize..20), 2..6)) {
        let mut queue = FairQueue::new(1);
        let groups: BTreeMap<GroupId, Nanos> = costs
            .iter()
            .map(|(cost, tasks)| {
                let id = queue.add_group();
                (0..*tasks).for_each(|task| queue.push(id, task));
                (id, cost * MS)
            })
            .collect();
        for _ in 0..1000 {
            let (id, task) = queue.take().unwrap();
            queue.charge(id, groups[&id], false);
            queue.push(id, task);
        }
        let used: Vec<Nanos> = groups.keys().map(|id| queue.used(*id)).collect();
        let (least, most) = (used.iter().min().unwrap(), used.iter().max().unwrap());
        prop_assert!(most - least <= 10 * MS, "{used:?}");
    }
}

#[test]
fn a_group_that_was_idle_is_next_but_has_saved_up_nothing() {
    let mut queue = FairQueue::new(1);
    let [busy, idle] = [(); 2].map(|()| queue.add_group());
    queue.push(busy, 0);
    for _ in 0..100 {
        let (id, task) = queue.take().unwrap();
        queue.charge(id, 10 * MS, false);
        queue.push(busy, task);
    }
    // Two tasks: the first goes before the busy group, and then they take turns.
    queue.push(idle, 1);
    queue.push(idle, 2);
    queue.push(idle, 3);
    let mut order = Vec::new();
    for _ in 0..4 {
        let (id, task) = queue.take().unwrap();
        order.push(id);
        queue.charge(id, 10 * MS, false);
        if id == busy {
            queue.push(busy, task);
        }
    }
    assert_eq!(order, [idle, busy, idle, busy]);
}

/// Its one task is ready again before its poll is charged, so the group is never idle; and one task uses one thread only.
#[test]
fn a_group_with_one_endless_task_saves_up_no_more_than_the_bound() {
    let mut queue = FairQueue::new(2);
    let [endless, busy] = [(); 2].map(|()| queue.add_group());
    queue.push(endless, 0);
    (1..3).for_each(|task| queue.push(busy, task));
    let mut running = Vec::new();
    for _ in 0..100 {
        // On three threads each task has one.
        running.extend(std::iter::from_fn(|| queue.take()).take(3 - running.len()));
        for (id, task) in running.drain(..) {
            queue.push(id, task);
            queue.charge(id, 10 * MS, false);
        }
    }
    assert_eq!((queue.used(endless), queue.used(busy)), (1000 * MS, 2000 * MS));
    queue.push(endless, 3);
    let polls = std::iter::from_fn(|| {
        let (id, task) = queue.take()?;
        queue.push(id, task);
        queue.charge(id, 10 * MS, false);
        Some(id)
    });
    let before = polls.take_while(|id| *id == endless).count();
    assert!((1..=12).contains(&before), "{before} polls in a row");
}

#[test]
fn a_group_that_rests_between_its_polls_still_pays_for_them() {
    let mut queue = FairQueue::new(1);
    let [greedy, modest] = [(); 2].map(|()| queue.add_group());
    queue.push(greedy, 0);
    queue.push(modest, 0);
    for _ in 0..300 {
        let (id, _) = queue.take().unwrap();
        // Each is idle for a moment after every poll.
        queue.charge(id, if id == greedy { 10 * MS } else { MS }, false);
        queue.push(id, 0);
    }
    assert!(queue.used(modest) >= queue.used(greedy) - 10 * MS);
}

#[test]
fn one_group_has_no_more_running_tasks_than_the_limit_and_others_go_on() {
    let mut queue = FairQueue::new(2);
    let [greedy, other] = [(); 2].map(|()| queue.add_group());
    (0..5).for_each(|task| queue.push(greedy, task));
    assert_eq!(queue.take(), Some((greedy, 0)));
    assert_eq!(queue.take(), Some((greedy, 1)));
    assert_eq!(queue.take(), None);
    queue.push(other, 9);
    assert_eq!(queue.take(), Some((other, 9)));
    queue.charge(greedy, MS, false);
    assert_eq!(queue.take(), Some((greedy, 2)));
}

#[test]
fn a_removed_group_is_kept_until_its_running_task_is_charged() {
    let mut queue = FairQueue::new(2);
    let gone = queue.add_group();
    queue.push(gone, 0);
    queue.push(gone, 1);
    assert_eq!(queue.take(), Some((gone, 0)));
    assert_eq!(queue.remove_group(gone), [1]);
    assert_ne!(queue.add_group(), gone, "its number is still in use");
    queue.charge(gone, MS, true);
    let next = queue.add_group();
    assert_eq!((next, queue.used(next), queue.panics(next)), (gone, 0, 0));
    assert_eq!(queue.take(), None);
}

/// Groups that always have tasks, each of a millisecond, with these weights: the time that each got.
fn shares(weights: &[u32], polls: usize) -> Vec<Nanos> {
    let mut queue = FairQueue::new(1);
    let ids: Vec<GroupId> = weights.iter().map(|_| queue.add_group()).collect();
    for (id, weight) in ids.iter().zip(weights) {
        queue.set_weight(*id, *weight);
        queue.push(*id, ());
    }
    for _ in 0..polls {
        let (id, ()) = queue.take().unwrap();
        queue.charge(id, MS, false);
        queue.push(id, ());
    }
    ids.iter().map(|id| queue.used(*id)).collect()
}

#[test]
fn groups_that_always_have_tasks_share_by_weight() {
    assert_eq!(shares(&[100, 300], 400), [100 * MS, 300 * MS]);
    // The least weight still gets its share, and none is stopped by rounding.
    let shares = shares(&[1, 10_000], 20_002);
    assert!((1..=3).contains(&(shares[0] / MS)), "{shares:?}");
}
