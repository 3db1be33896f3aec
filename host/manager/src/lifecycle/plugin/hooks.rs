//! What the host's shared tasks call for one plugin: its queue when a key is ready, and all of them when they panicked in its
//! code.

use std::any::Any;
use std::sync::{Arc, Weak};

use pilothouse_workqueue::{QueueHook, WorkerCount};

use super::Plugin;

/// Reports a panic that happened in a task of the host on behalf of a plugin.
pub(crate) type PanicReport = Arc<dyn Fn(&(dyn Any + Send)) + Send + Sync>;

/// Reports panics of this task of the host to a plugin, for as long as there is one.
pub(super) fn panic_report(plugin: &Weak<Plugin>, task: &'static str) -> PanicReport {
    let plugin = Weak::clone(plugin);
    Arc::new(move |panic| {
        if let Some(plugin) = plugin.upgrade() {
            plugin.task_panicked(task, panic);
        }
    })
}

/// The hook of a plugin's queue.
pub(super) struct WorkerHook {
    pub(super) plugin: Weak<Plugin>,
    pub(super) workers: Arc<WorkerCount>,
    pub(super) panicked: PanicReport,
}

impl QueueHook for WorkerHook {
    fn ready(&self) {
        // Called for each key that comes: most times there are workers enough.
        if self.workers.has_room()
            && let Some(plugin) = self.plugin.upgrade()
        {
            plugin.start_worker();
        }
    }

    fn panicked(&self, panic: &(dyn Any + Send)) {
        (self.panicked)(panic);
    }
}
