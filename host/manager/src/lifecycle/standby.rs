//! [`Standby`]: the plugins of a standby, in a task with a timer for each shard, or one for all without shards: it keeps
//! their tombstones bounded, and begins their terms.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use pilothouse_election::Leadership;
use pilothouse_executor::{Executor, Group};
use tokio::runtime::Handle;

use crate::dispatch::tombstones::RotationSchedule;
use crate::leader_election::LeaderElection;
use crate::lifecycle::plugin::Plugin;

/// How many times in the lifetime of a tombstone the task looks for a leader at work.
const LOOKS_PER_LIFETIME: u32 = 8;

/// The plugins whose terms have not begun; a cheap clone.
#[derive(Debug, Clone)]
pub(crate) struct Standby(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// By shard; one without shards, and none without an election.
    waiting: Vec<Mutex<Vec<Weak<Plugin>>>>,
    group: Group,
    /// Where terms begin.
    work: Handle,
}

impl Standby {
    /// No plugins yet. The tasks are those of each shard, or one until the host is elected, if it has not been.
    pub(crate) fn start(election: &LeaderElection, guests: &Executor, work: &Handle) -> Self {
        let shards = match election.shards() {
            Some(shards) => shards.count(),
            None => usize::from(election.is_enabled()),
        };
        let waiting = (0..shards).map(|_| Mutex::default()).collect();
        let standby = Self(Arc::new(Inner { waiting, group: guests.group(), work: work.clone() }));
        if !election.was_elected() {
            for shard in 0..shards {
                standby.0.group.spawn(run(election.of_shard(shard), standby.clone(), shard));
            }
        }
        standby
    }

    /// Adds a plugin, whose term begins with the next one of its host or its shard, or now.
    pub(crate) fn add(&self, plugin: &Arc<Plugin>) {
        let shard = plugin.election().shard().unwrap_or(0);
        let Some(waiting) = self.0.waiting.get(shard) else { return };
        let mut waiting = waiting.lock();
        match plugin.election().running_term() {
            None => waiting.push(Arc::downgrade(plugin)),
            Some(term) => {
                drop(waiting);
                self.0.begin_term(Arc::clone(plugin), term);
            }
        }
    }
}

impl Inner {
    /// Begins the term of a plugin on the threads for what grows with plugins: caches may be large, and plugins many.
    fn begin_term(&self, plugin: Arc<Plugin>, term: Leadership) {
        if plugin.is_stopping() {
            return;
        }
        plugin.election().set_elected(term.clone());
        let tasks = plugin.tasks().clone();
        let begin = async move {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| plugin.begin_term(&term))) {
                plugin.task_panicked("the begin of its term", &*panic);
            }
        };
        tasks.spawn_on(begin, &self.work);
    }

    fn rotate_tombstones(&self, shard: usize, is_due: bool) {
        let mut present = Vec::new();
        self.waiting[shard].lock().retain(|plugin| {
            let plugin = plugin.upgrade().filter(|plugin| !plugin.is_stopping());
            let is_present = plugin.is_some();
            present.extend(plugin);
            is_present
        });
        for plugin in present {
            // The task is that of all plugins.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| plugin.rotate_tombstones(is_due))) {
                plugin.task_panicked("the rotation of its tombstones", &*panic);
            }
        }
    }
}

/// Stands by for the plugins of one shard, and begins each of its terms; without shards there is one term.
async fn run(election: LeaderElection, standby: Standby, shard: usize) {
    let lifetime = election.tombstone_lifetime();
    let mut rotation = RotationSchedule::new(lifetime);
    loop {
        let term = loop {
            tokio::select! {
                biased;
                term = election.next_term() => break term,
                () = tokio::time::sleep(lifetime / LOOKS_PER_LIFETIME) => {
                    standby.0.rotate_tombstones(shard, rotation.is_due(election.leader_at_work()));
                }
            }
        };
        let plugins = {
            let mut waiting = standby.0.waiting[shard].lock();
            // Those that came after the end of the term wait for the next one: `add` looks at the term under this lock.
            if election.shard().is_some() && term.is_cancelled() {
                continue;
            }
            std::mem::take(&mut *waiting)
        };
        let plugins = plugins.into_iter().filter_map(|plugin| plugin.upgrade());
        plugins.for_each(|plugin| standby.0.begin_term(plugin, term.clone()));
        if election.shard().is_none() {
            return;
        }
        term.cancelled().await;
    }
}
