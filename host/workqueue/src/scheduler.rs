//! [`Scheduler`]: many queues, few workers.
//!
//! Invariants:
//! - a queue is in `turns` once if it has a ready key and may have one processed more, and otherwise not (the queue
//!   itself sees to that, in `state::waiting`); so idle queues cost memory and nothing else;
//! - a queue whose turn was taken goes to the end, so that all that have something to do get the same;
//! - one worker keeps the time for all queues: each has told its next deadline, has one alarm at most for that, and is
//!   asked when it has come;
//! - the mutexes of a queue and of the scheduler are never held together.
//!
//! Called by workers, and by the queues through [`Bell`].

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::hash::Hash;
use std::mem;
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

use tokio::task::coop::consume_budget;

use crate::clock::{Clock, Nanos};
use crate::shared::{Bell, Shared};
use crate::sleepers::{Attempt, Sleepers, Source, sleep_until_taken};
use crate::state::State;
use crate::sync::Mutex;
use crate::waiters::{Ticket, Wakes};
use crate::{Item, Merge, Priority, Queue, QueueBuilder};

/// Gives the keys of many queues to few workers: to each queue its turn, and no queue more workers than it may have.
/// A cheap handle.
///
/// What this costs follows from the keys that are handed out, whatever the number of queues: there is no task and no
/// timer for a queue. `T` is what a queue stands for, such as the name or the number of a plugin; a worker is given a clone
/// of it with each key. It must not own the queue, or neither would ever go.
///
/// ```
/// use pilothouse_workqueue::{Queue, Scheduler};
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let scheduler = Scheduler::new();
/// let queues: Vec<Queue<u32>> =
///     ["a", "b"].map(|owner| Queue::builder().build_in(&scheduler, owner, 1)).into();
/// for queue in &queues {
///     queue.add(1);
///     queue.add(2);
/// }
/// for expected in [("a", 1), ("b", 1), ("a", 2), ("b", 2)] {
///     let turn = scheduler.next().await.expect("not shut down");
///     assert_eq!((*turn.owner(), *turn.key()), expected);
///     turn.done();
/// }
/// # }
/// ```
pub struct Scheduler<K, M, T> {
    hub: Arc<Hub<K, M, T>>,
}

/// What the handles and the queues share.
struct Hub<K, M, T> {
    clock: Clock,
    turns: Mutex<TurnQueue<K, M, T>>,
}

struct TurnQueue<K, M, T> {
    members: Vec<Member<K, M, T>>,
    /// Members of queues that are gone.
    free: Vec<u32>,
    /// Members, with the generation that the turn is of.
    turns: VecDeque<(u32, u32)>,
    /// At most so many of those are of queues that are gone.
    left: usize,
    /// When to look at which member, the earliest first.
    alarms: BTreeSet<(Nanos, u32)>,
    sleepers: Sleepers,
    closed: bool,
    wakes: Wakes,
}

/// The place of a queue.
struct Member<K, M, T> {
    /// None between two queues.
    taken: Option<(Weak<Shared<K, M>>, T)>,
    /// Its entry in `alarms`: the earliest moment the queue told since it was last looked at for that.
    alarm: Option<Nanos>,
    /// Rises with each queue that leaves it.
    generation: u32,
}

impl<K, M, T> Clone for Scheduler<K, M, T> {
    fn clone(&self) -> Self {
        Self { hub: Arc::clone(&self.hub) }
    }
}

impl<K, M, T> fmt::Debug for Scheduler<K, M, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let turns = self.hub.turns.lock();
        f.debug_struct("Scheduler")
            .field("queues", &(turns.members.len() - turns.free.len()))
            .field("turns", &turns.turns.iter().filter(|turn| turns.is_held(turn)).count())
            .field("alarms", &turns.alarms.len())
            .finish()
    }
}

impl<K, M, T> Default for Scheduler<K, M, T>
where
    K: Clone + Eq + Hash,
    M: Merge,
    T: Clone,
{
    fn default() -> Self {
        Self::new()
    }
}

impl<K, M, T> Scheduler<K, M, T>
where
    K: Clone + Eq + Hash,
    M: Merge,
    T: Clone,
{
    /// A scheduler without queues.
    #[must_use]
    pub fn new() -> Self {
        let turns = TurnQueue {
            members: Vec::new(),
            free: Vec::new(),
            turns: VecDeque::new(),
            left: 0,
            alarms: BTreeSet::new(),
            sleepers: Sleepers::default(),
            closed: false,
            wakes: Wakes::default(),
        };
        Self { hub: Arc::new(Hub { clock: Clock::start(), turns: Mutex::new(turns) }) }
    }

    /// Waits for a key of the queue whose turn it is; `None` after [`shut_down`](Self::shut_down). May be dropped at any
    /// time: no key and no wake-up is lost.
    pub async fn next(&self) -> Option<Turn<K, M, T>> {
        // A worker that always finds a key would otherwise never let other tasks of its thread run.
        consume_budget().await;
        match self.hub.take() {
            Ok(Some(turn)) => Some(turn),
            Ok(None) => sleep_until_taken(&*self.hub).await,
            Err(Closed) => None,
        }
    }

    /// Takes a key of the queue whose turn it is, if there is one.
    #[must_use]
    pub fn try_next(&self) -> Option<Turn<K, M, T>> {
        self.hub.take().ok().flatten()
    }

    /// Ends: [`next`](Self::next) hands out nothing any more. The queues stay as they are; shut each of them down, or
    /// drain it, before this.
    pub fn shut_down(&self) {
        self.hub.locked(|turns| {
            turns.closed = true;
            turns.sleepers.notify_all(&mut turns.wakes);
        });
    }

    /// The clock that all queues must have, a member, and the bell.
    pub(crate) fn member(&self) -> (Clock, Arc<dyn Bell>, u32)
    where
        K: Send + 'static,
        M: Send + 'static,
        T: Send + 'static,
    {
        let member = self.hub.locked(|turns| {
            turns.free.pop().unwrap_or_else(|| {
                turns.members.push(Member { taken: None, alarm: None, generation: 0 });
                turns.members.len() as u32 - 1
            })
        });
        (self.hub.clock, Arc::clone(&self.hub) as _, member)
    }

    /// Members a queue.
    pub(crate) fn sit(&self, member: u32, queue: &Arc<Shared<K, M>>, owner: T) {
        self.hub.locked(|turns| turns.members[member as usize].taken = Some((Arc::downgrade(queue), owner)));
    }
}

impl<K, M, T> Hub<K, M, T> {
    /// Runs `action` under the mutex, then wakes whom it notified.
    fn locked<R>(&self, action: impl FnOnce(&mut TurnQueue<K, M, T>) -> R) -> R {
        let mut turns = self.turns.lock();
        let result = action(&mut turns);
        let wakes = mem::take(&mut turns.wakes);
        drop(turns);
        wakes.wake();
        result
    }
}

impl<K, M, T> Bell for Hub<K, M, T>
where
    K: Send,
    M: Send,
    T: Send,
{
    fn ring(&self, member: u32) {
        self.locked(|turns| {
            let generation = turns.members[member as usize].generation;
            turns.turns.push_back((member, generation));
            turns.sleepers.notify_one(&mut turns.wakes);
        });
    }

    fn alarm(&self, member: u32, at: Nanos) {
        self.locked(|turns| {
            let alarm = &mut turns.members[member as usize].alarm;
            // What two threads were told may come in either order.
            if alarm.is_some_and(|before| before <= at) {
                return;
            }
            if let Some(before) = alarm.replace(at) {
                turns.alarms.remove(&(before, member));
            }
            turns.alarms.insert((at, member));
            if turns.alarms.first() == Some(&(at, member)) {
                turns.sleepers.deadline_changed(&mut turns.wakes);
            }
        });
    }

    fn leave(&self, member: u32) {
        let owner = self.locked(|turns| {
            turns.free.push(member);
            let left = &mut turns.members[member as usize];
            // Whoever gets the member next shall have no turn of this one.
            left.generation = left.generation.wrapping_add(1);
            if let Some(at) = left.alarm.take() {
                turns.alarms.remove(&(at, member));
            }
            let owner = left.taken.take();
            if turns.free.len() == turns.members.len() {
                turns.members = Vec::new();
                turns.free = Vec::new();
                turns.turns = VecDeque::new();
                turns.left = 0;
            } else {
                turns.left += 1;
                turns.tidy();
            }
            owner
        });
        drop(owner);
    }
}

impl<K, M, T> TurnQueue<K, M, T> {
    fn next_alarm(&self) -> Option<Nanos> {
        self.alarms.first().map(|(at, _)| *at)
    }

    /// Forgets the turns of queues that are gone, once these could be most.
    fn tidy(&mut self) {
        if self.left * 2 > self.turns.len() {
            let mut turns = mem::take(&mut self.turns);
            turns.retain(|turn| self.is_held(turn));
            self.turns = turns;
            self.left = 0;
        }
    }

    /// True if a turn's queue is not gone.
    fn is_held(&self, (member, generation): &(u32, u32)) -> bool {
        self.members[*member as usize].generation == *generation
    }
}

// No bound here is `Send` or `'static`: it would be asked for in every future that waits, and for keys and owners that are
// references the compiler cannot answer.

/// What a worker does next.
enum Step<K, M, T> {
    /// It is this queue's turn.
    Turn(Arc<Shared<K, M>>, T),
    /// A deadline of this queue has come.
    Alarm(Arc<Shared<K, M>>),
    /// The queue is gone, or something came meanwhile: look again.
    Again,
    Nothing,
    Closed,
}

/// There is nothing to take and will be nothing.
struct Closed;

impl<K, M, T> Hub<K, M, T>
where
    K: Clone + Eq + Hash,
    M: Merge,
    T: Clone,
{
    fn step(&self) -> Step<K, M, T> {
        self.locked(|turns| {
            if turns.closed {
                return Step::Closed;
            }
            if let Some(&(at, member)) = turns.alarms.first()
                && at <= self.clock.now()
            {
                turns.alarms.pop_first();
                let member = &mut turns.members[member as usize];
                member.alarm = None;
                let queue = member.taken.as_ref().and_then(|(queue, _)| queue.upgrade());
                return queue.map_or(Step::Again, Step::Alarm);
            }
            let Some(&turn) = turns.turns.front() else { return Step::Nothing };
            let member = turns.members[turn.0 as usize].taken.as_ref().filter(|_| turns.is_held(&turn));
            // The clone is code of the user's: nothing has changed yet, and no handle is held, if it panics.
            let member = member.map(|(queue, owner)| (owner.clone(), queue));
            let member = member.and_then(|(owner, queue)| Some((queue.upgrade()?, owner)));
            turns.turns.pop_front();
            match member {
                Some((queue, owner)) => Step::Turn(queue, owner),
                None => Step::Again,
            }
        })
    }

    fn take(&self) -> Result<Option<Turn<K, M, T>>, Closed> {
        loop {
            match self.step() {
                Step::Turn(queue, owner) => {
                    if let Some(item) = queue.locked(State::turn) {
                        let queue = Queue { shared: queue };
                        return Ok(Some(Turn { item: Some(item), owner, queue, done: Queue::done }));
                    }
                }
                Step::Alarm(queue) => queue.locked(State::alarm),
                Step::Again => {}
                Step::Nothing => return Ok(None),
                Step::Closed => return Err(Closed),
            }
        }
    }
}

impl<K, M, T> Source for Hub<K, M, T>
where
    K: Clone + Eq + Hash,
    M: Merge,
    T: Clone,
{
    type Taken = Turn<K, M, T>;

    fn attempt(&self, ticket: &mut Option<Ticket>, waker: &Waker) -> Attempt<Self::Taken> {
        loop {
            let taken = match self.take() {
                Ok(None) => None,
                Ok(Some(turn)) => Some(Some(turn)),
                Err(Closed) => Some(None),
            };
            let deadline = self.locked(|turns| {
                if let Some(taken) = taken {
                    if let Some(ticket) = ticket.take() {
                        turns.sleepers.leave(ticket, !turns.alarms.is_empty(), &mut turns.wakes);
                    }
                    return Some(Attempt::Over(taken));
                }
                // What came since it was looked for notified nobody of this one.
                if turns.closed || !turns.turns.is_empty() {
                    return None;
                }
                let next = turns.next_alarm();
                let deadline = turns.sleepers.enrol(ticket, next, waker);
                Some(Attempt::Sleep(deadline.map(|at| self.clock.instant(at))))
            });
            if let Some(attempt) = deadline {
                return attempt;
            }
        }
    }

    fn still_sleeps(&self, ticket: Ticket, waker: &Waker) -> bool {
        self.locked(|turns| turns.sleepers.still_sleeps(ticket, waker))
    }

    fn give_up(&self, ticket: Ticket) {
        self.locked(|turns| {
            turns.sleepers.leave(ticket, !turns.alarms.is_empty(), &mut turns.wakes);
            if !turns.turns.is_empty() {
                turns.sleepers.notify_one(&mut turns.wakes);
            }
        });
    }
}

/// A key of a queue whose turn it was. It is given back when this is dropped, so that a worker that panics keeps nothing.
pub struct Turn<K, M, T> {
    /// There until it was given back.
    item: Option<Item<K, M>>,
    owner: T,
    queue: Queue<K, M>,
    /// [`Queue::done`]. By pointer, since a bound on this type would be asked for in every future that holds one, and for
    /// keys with a lifetime the compiler cannot answer.
    done: fn(&Queue<K, M>, Item<K, M>),
}

impl<K, M, T> Turn<K, M, T> {
    /// The key.
    #[must_use]
    pub fn key(&self) -> &K {
        &self.item().key
    }

    /// What the adds of this run brought, merged.
    #[must_use]
    pub fn payload(&self) -> &M {
        &self.item().payload
    }

    /// The priority at which it waited.
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.item().priority
    }

    /// See [`Item::queued_for`].
    #[must_use]
    pub fn queued_for(&self) -> Duration {
        self.item().queued_for()
    }

    // Not public: whoever gave it to `Queue::done` would give it back twice.
    fn item(&self) -> &Item<K, M> {
        self.item.as_ref().expect("it is there until the turn is over")
    }

    /// What its queue stands for.
    #[must_use]
    pub fn owner(&self) -> &T {
        &self.owner
    }

    /// Its queue.
    #[must_use]
    pub fn queue(&self) -> &Queue<K, M> {
        &self.queue
    }

    /// Gives the key back, see [`Queue::done`].
    pub fn done(self) {
        drop(self);
    }
}

impl<K, M, T> Drop for Turn<K, M, T> {
    fn drop(&mut self) {
        if let Some(item) = self.item.take() {
            (self.done)(&self.queue, item);
        }
    }
}

impl<K, M> QueueBuilder<K, M>
where
    K: Clone + Eq + Hash + Send + 'static,
    M: Merge + Send + 'static,
{
    /// Makes the queue as one of `scheduler`'s, which hands out `max_concurrent` of its keys at once at most. (Who takes keys
    /// from the queue itself takes them besides.) It leaves the scheduler when its last handle is dropped, with what is in
    /// it: drain it first. So `owner` must not hold one.
    #[must_use]
    pub fn build_in<T>(self, scheduler: &Scheduler<K, M, T>, owner: T, max_concurrent: usize) -> Queue<K, M>
    where
        T: Clone + Send + 'static,
    {
        let (clock, bell, member) = scheduler.member();
        let queue = self.make(clock, Some(max_concurrent), Some((bell, member)));
        scheduler.sit(member, &queue.shared, owner);
        queue
    }
}
