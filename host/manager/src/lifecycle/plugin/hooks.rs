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

impl Plugin {
    /// A task of this plugin panicked, which is a bug of the host. Returns the message for the status.
    pub(crate) fn task_panicked(&self, task: &str, panic: &(dyn Any + Send)) -> String {
        let text = panic.downcast_ref::<&str>().copied();
        let text =
            text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
        let message = format!("bug of the host: {task} panicked: {text}");
        tracing::error!(event = "plugin_task_panicked", plugin = &*self.name, "{message}; please report it");
        self.metrics.panics.inc();
        self.record_error(&message);
        self.state.update(|state| state.task_panicked(message.clone()));
        message
    }
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
