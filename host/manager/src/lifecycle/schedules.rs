//! [`Schedules`]: the schedules of all plugins of a host, in one task with one timer.
//!
//! Invariants: a schedule that the next generation has as well keeps its phase; a new one ticks at once; a tick that comes late
//! is not made up for, and the ones after it keep the phase; a plugin of a standby has no schedule here until its term begins;
//! a panic in the queue of one plugin ends no schedule.

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use pilothouse_object::ObjectKey;
use pilothouse_plugin::Schedule;
use pilothouse_workqueue::{Priority, Queue};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::dispatch::reasons::Reasons;
use crate::lifecycle::plugin::PanicReport;

/// The schedules of a host; a cheap clone. Its task ends with the last clone.
#[derive(Clone)]
pub(crate) struct Schedules(Arc<Inner>);

#[derive(Default)]
struct Inner {
    timetable: Mutex<Timetable>,
    /// The first tick of the timetable has changed.
    changed: Arc<Notify>,
}

impl std::fmt::Debug for Schedules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Schedules").field("armed", &self.0.timetable.lock().armed.len()).finish()
    }
}

/// Number of one schedule of one plugin.
type Id = u64;

#[derive(Default)]
struct Timetable {
    last: Id,
    ticks: BTreeMap<(Instant, Id), ()>,
    armed: HashMap<Id, Armed>,
}

struct Armed {
    schedule: Schedule,
    target: Target,
    next: Instant,
}

/// The queue of a plugin, and where to report that it panicked.
#[derive(Clone)]
struct Target {
    queue: Queue<ObjectKey, Reasons>,
    panicked: PanicReport,
}

/// A key that is due.
struct Due {
    key: ObjectKey,
    target: Target,
}

impl Due {
    fn queue(self) {
        let Target { queue, panicked } = self.target;
        let add = || queue.add_with(self.key, Reasons::SCHEDULED, Priority::NORMAL);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(add)) {
            panicked(&*panic);
        }
    }
}

impl Timetable {
    fn arm(&mut self, schedule: Schedule, target: Target, next: Instant) -> Id {
        self.last += 1;
        self.ticks.insert((next, self.last), ());
        self.armed.insert(self.last, Armed { schedule, target, next });
        self.last
    }

    fn disarm(&mut self, id: Id) {
        if let Some(armed) = self.armed.remove(&id) {
            self.ticks.remove(&(armed.next, id));
        }
    }

    /// The keys that are due, and the time of the next tick.
    fn tick(&mut self, now: Instant) -> (Vec<Due>, Option<Instant>) {
        let mut keys = Vec::new();
        while let Some((&(due, id), ())) = self.ticks.first_key_value() {
            if due > now {
                return (keys, Some(due));
            }
            self.ticks.pop_first();
            let Some(armed) = self.armed.get_mut(&id) else { continue };
            armed.next = next_tick(due, armed.schedule.every, now);
            self.ticks.insert((armed.next, id), ());
            keys.push(Due { key: armed.schedule.key.clone(), target: armed.target.clone() });
        }
        (keys, None)
    }
}

/// The first tick after `now` in the phase of `due`.
fn next_tick(due: Instant, every: Duration, now: Instant) -> Instant {
    let late = now.saturating_duration_since(due).as_nanos();
    // Not zero: the descriptor has a shortest interval.
    let into = late % every.as_nanos().max(1);
    // Less than the interval, which is a number of nanoseconds of 64 bits.
    now + every - Duration::from_nanos(u64::try_from(into).unwrap_or_default())
}

impl Schedules {
    /// No schedules yet. The task runs on `io`.
    pub(crate) fn start(io: &Handle) -> Self {
        let inner = Arc::new(Inner::default());
        io.spawn(run(Arc::downgrade(&inner), Arc::clone(&inner.changed)));
        Self(inner)
    }

    /// The schedules of one plugin: none yet.
    pub(crate) fn of(&self, queue: &Queue<ObjectKey, Reasons>, panicked: PanicReport) -> PluginSchedules {
        let target = Target { queue: queue.clone(), panicked };
        PluginSchedules { schedules: self.clone(), target, ids: Mutex::default() }
    }
}

async fn run(schedules: Weak<Inner>, changed: Arc<Notify>) {
    while let Some(inner) = schedules.upgrade() {
        let (due, next) = inner.timetable.lock().tick(Instant::now());
        drop(inner);
        // Without the lock: a queue runs code of its own.
        due.into_iter().for_each(Due::queue);
        match next {
            Some(next) => {
                tokio::select! {
                    () = changed.notified() => {}
                    () = tokio::time::sleep_until(next) => {}
                }
            }
            None => changed.notified().await,
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The task finds that there are no schedules any more.
        self.changed.notify_one();
    }
}

/// The schedules of one plugin. Dropping them ends them.
pub(crate) struct PluginSchedules {
    schedules: Schedules,
    target: Target,
    ids: Mutex<Vec<(Schedule, Id)>>,
}

impl PluginSchedules {
    /// Replaces the schedules by those of a new generation.
    pub(crate) fn set(&self, wanted: &[Schedule]) {
        let mut ids = self.ids.lock();
        let mut before = std::mem::take(&mut *ids);
        {
            let mut timetable = self.schedules.0.timetable.lock();
            let now = Instant::now();
            for schedule in wanted {
                let id = match before.iter().position(|(armed, _)| armed == schedule) {
                    Some(at) => before.swap_remove(at).1,
                    None => timetable.arm(schedule.clone(), self.target.clone(), now),
                };
                ids.push((schedule.clone(), id));
            }
            for (_, id) in before {
                timetable.disarm(id);
            }
        }
        self.schedules.0.changed.notify_one();
    }
}

impl Drop for PluginSchedules {
    fn drop(&mut self) {
        self.set(&[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(every: u64, key: &str) -> Schedule {
        Schedule { every: Duration::from_secs(every), key: key.parse().unwrap() }
    }

    fn unreported() -> PanicReport {
        Arc::new(|_| panic!("nothing panics here"))
    }

    fn ticks(queue: &Queue<ObjectKey, Reasons>) -> Vec<String> {
        let mut keys = Vec::new();
        while let Some(item) = queue.try_get() {
            keys.push(item.key.to_string());
            queue.done(item);
        }
        keys
    }

    async fn after(seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        // The task of the schedules wakes at the same time.
        crate::testing::settle().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_schedule_keeps_its_phase_over_generations_and_a_new_one_ticks_at_once() {
        let queue: Queue<ObjectKey, Reasons> = Queue::new();
        let schedules = Schedules::start(&Handle::current());
        let plugin = schedules.of(&queue, unreported());
        plugin.set(&[schedule(100, "slow")]);
        after(0).await;
        assert_eq!(ticks(&queue), ["slow"]);
        after(60).await;
        plugin.set(&[schedule(7, "new"), schedule(100, "slow")]);
        after(1).await;
        assert_eq!(ticks(&queue), ["new"], "a reload fires nothing again");
        plugin.set(&[schedule(100, "slow")]);
        after(38).await;
        assert_eq!(ticks(&queue), [""; 0]);
        after(1).await;
        assert_eq!(ticks(&queue), ["slow"], "100 s after its first tick");
        plugin.set(&[]);
        after(1000).await;
        assert_eq!(ticks(&queue), [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn schedules_of_different_plugins_tick_apart_and_end_with_their_plugin() {
        let (one, two): (Queue<ObjectKey, Reasons>, Queue<ObjectKey, Reasons>) = (Queue::new(), Queue::new());
        let schedules = Schedules::start(&Handle::current());
        let (first, second) = (schedules.of(&one, unreported()), schedules.of(&two, unreported()));
        first.set(&[schedule(10, "a")]);
        second.set(&[schedule(15, "b")]);
        after(30).await;
        // The queue merges the ticks that nobody took.
        assert_eq!((ticks(&one), ticks(&two)), (vec!["a".to_owned()], vec!["b".to_owned()]));
        drop(first);
        after(30).await;
        assert_eq!((ticks(&one), ticks(&two)), (vec![], vec!["b".to_owned()]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_in_the_queue_of_one_plugin_is_reported_and_ends_no_schedule() {
        use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

        fn hook() {
            panic!("a bug");
        }
        let bad = Queue::builder().build_with_hook(&pilothouse_workqueue::Timekeeper::new(), hook);
        let good: Queue<ObjectKey, Reasons> = Queue::new();
        let schedules = Schedules::start(&Handle::current());
        let reports = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&reports);
        let panicked: PanicReport = Arc::new(move |panic| {
            assert_eq!(panic.downcast_ref::<&str>(), Some(&"a bug"));
            counted.fetch_add(1, Relaxed);
        });
        let (first, second) = (schedules.of(&bad, panicked), schedules.of(&good, unreported()));
        first.set(&[schedule(10, "a")]);
        second.set(&[schedule(10, "b")]);
        for count in 1..4 {
            after(if count == 1 { 0 } else { 10 }).await;
            assert_eq!(ticks(&good), ["b"]);
            ticks(&bad);
            assert_eq!(reports.load(Relaxed), count);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_tick_is_not_made_up_for_and_the_next_keeps_the_phase() {
        let start = Instant::now();
        let every = Duration::from_secs(10);
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(next_tick(start, every, start), at(10));
        assert_eq!(next_tick(start, every, at(3)), at(10));
        assert_eq!(next_tick(start, every, at(10)), at(20));
        assert_eq!(next_tick(start, every, at(34)), at(40));
    }
}
