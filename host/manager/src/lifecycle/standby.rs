//! [`Standby`]: the plugins of a standby, in one task with one timer: it keeps their tombstones bounded, and begins their
//! terms when the host is elected.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use pilothouse_executor::{Executor, Group};
use tokio::runtime::Handle;

use crate::dispatch::tombstones::RotationSchedule;
use crate::leader_election::LeaderElection;
use crate::lifecycle::plugin::Plugin;

/// How many times in the lifetime of a tombstone the task looks for a leader at work.
const LOOKS_PER_LIFETIME: u32 = 8;

/// The plugins of a host whose term has not begun; a cheap clone.
#[derive(Debug, Clone)]
pub(crate) struct Standby(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// None once the host was elected.
    plugins: Mutex<Option<Vec<Weak<Plugin>>>>,
    group: Group,
    /// Where terms begin.
    work: Handle,
}

impl Standby {
    /// No plugins yet. There is a task until the host is elected, if it has not been.
    pub(crate) fn start(election: &LeaderElection, guests: &Executor, work: &Handle) -> Self {
        let is_standby = !election.was_elected();
        let plugins = Mutex::new(is_standby.then(Vec::new));
        let standby = Self(Arc::new(Inner { plugins, group: guests.group(), work: work.clone() }));
        if is_standby {
            standby.0.group.spawn(run(election.clone(), standby.clone()));
        }
        standby
    }

    /// Adds a plugin, whose term begins with that of the host, or now.
    pub(crate) fn add(&self, plugin: &Arc<Plugin>) {
        let mut plugins = self.0.plugins.lock();
        match &mut *plugins {
            Some(plugins) => plugins.push(Arc::downgrade(plugin)),
            None => {
                drop(plugins);
                self.0.begin_term(Arc::clone(plugin));
            }
        }
    }
}

impl Inner {
    /// Begins the term of a plugin on the threads for what grows with plugins: caches may be large, and plugins many.
    fn begin_term(&self, plugin: Arc<Plugin>) {
        if plugin.is_stopping() {
            return;
        }
        let tasks = plugin.tasks().clone();
        let begin = async move {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| plugin.begin_term())) {
                plugin.task_panicked("the begin of its term", &*panic);
            }
        };
        tasks.spawn_on(begin, &self.work);
    }

    fn rotate_tombstones(&self, is_due: bool) {
        let mut present = Vec::new();
        if let Some(plugins) = &mut *self.plugins.lock() {
            plugins.retain(|plugin| {
                let plugin = plugin.upgrade().filter(|plugin| !plugin.is_stopping());
                let is_present = plugin.is_some();
                present.extend(plugin);
                is_present
            });
        }
        for plugin in present {
            // The task is that of all plugins.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| plugin.rotate_tombstones(is_due))) {
                plugin.task_panicked("the rotation of its tombstones", &*panic);
            }
        }
    }
}

async fn run(election: LeaderElection, standby: Standby) {
    let lifetime = election.tombstone_lifetime();
    let mut rotation = RotationSchedule::new(lifetime);
    loop {
        tokio::select! {
            biased;
            () = election.wait_until_elected() => break,
            () = tokio::time::sleep(lifetime / LOOKS_PER_LIFETIME) => {
                standby.0.rotate_tombstones(rotation.is_due(election.leader_at_work()));
            }
        }
    }
    let plugins = standby.0.plugins.lock().take();
    let plugins = plugins.into_iter().flatten().filter_map(|plugin| plugin.upgrade());
    plugins.for_each(|plugin| standby.0.begin_term(plugin));
}
