//! [`CodeRepair`]: makes the machine code of a running generation again when its file in the compile cache is lost or damaged.
//!
//! A call that finds no code begins the repair. One task works at it, however many calls found it missing, and no call
//! begins meanwhile: their keys wait, and are not blamed. A repair that fails is tried again with a backoff. The repair ends
//! with the generation.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::lifecycle::generation::Generation;
use crate::lifecycle::load::retries;
use crate::lifecycle::plugin::Plugin;

/// Least time between two repairs of one plugin: something may remove the file again and again.
const SPACING: Duration = Duration::from_secs(10);

/// The repair of one plugin's code, if there is one.
pub(crate) struct CodeRepair {
    /// The generation whose code is made again.
    generation: watch::Sender<Option<u64>>,
    last_end: Mutex<Option<Instant>>,
}

impl Default for CodeRepair {
    fn default() -> Self {
        Self { generation: watch::Sender::new(None), last_end: Mutex::default() }
    }
}

impl CodeRepair {
    /// Begins a repair, unless there is one of this generation or of a later one.
    fn begin(&self, generation: u64) -> bool {
        self.generation.send_if_modified(|present| {
            let begins = present.is_none_or(|present| present < generation);
            if begins {
                *present = Some(generation);
            }
            begins
        })
    }

    /// Ends the repair of this generation.
    fn end(&self, generation: u64) {
        let is_over =
            self.generation.send_if_modified(|present| present.take_if(|it| *it == generation).is_some());
        if is_over {
            *self.last_end.lock() = Some(Instant::now());
        }
    }

    /// Ends the repair of a generation that was replaced.
    pub(crate) fn cancel(&self) {
        self.generation.send_if_modified(|present| present.take().is_some());
    }

    /// Waits until no repair is under way. Cancel-safe.
    pub(crate) async fn over(&self) {
        if self.generation.borrow().is_some() {
            // The sender is in `self`.
            let _ = self.generation.subscribe().wait_for(Option::is_none).await;
        }
    }
}

impl Plugin {
    /// A call found no machine code: has it made again, unless somebody does.
    pub(crate) fn repair_code(self: &Arc<Self>, generation: &Arc<Generation>) {
        let number = generation.number;
        let is_current = || self.current().is_some_and(|current| current.number == number);
        if !is_current() || !self.code_repair().begin(number) {
            return;
        }
        // A switch that came in between had nothing to cancel yet.
        if !is_current() {
            return self.code_repair().end(number);
        }
        let (plugin, generation) = (Arc::clone(self), Arc::clone(generation));
        let work = generation.source.work.clone();
        let repair = async move {
            let cancelled = async {
                let mut present = plugin.code_repair().generation.subscribe();
                let _ = present.wait_for(|present| *present != Some(number)).await;
            };
            tokio::select! {
                () = plugin.stopping().cancelled() => {}
                () = cancelled => {}
                _ = plugin.guard("the repair of its code", repair(&plugin, &generation)) => {}
            }
            plugin.code_repair().end(number);
        };
        self.tasks().spawn_on(repair, &work);
    }
}

async fn repair(plugin: &Plugin, generation: &Generation) {
    let name = &**plugin.name();
    let mut backoff = retries();
    let last_end = *plugin.code_repair().last_end.lock();
    if let Some(last_end) = last_end {
        tokio::time::sleep_until(last_end + SPACING).await;
    }
    while let Err(reason) = generation.source.restore(&*generation.code).await {
        let delay = backoff.failure();
        tracing::warn!(
            event = "code_not_restored", plugin = name, generation = generation.number, retry_in = ?delay,
            "the machine code is lost, and cannot be made again yet: {reason}"
        );
        plugin.record_host_condition(generation.number, &format!("the machine code is lost: {reason}"));
        tokio::time::sleep(delay).await;
    }
    tracing::info!(
        event = "code_restored",
        plugin = name,
        generation = generation.number,
        "the machine code was lost, and is made again"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_repair_of_a_generation_and_none_of_an_earlier_one() {
        let repair = CodeRepair::default();
        assert!(repair.begin(2));
        assert!(!repair.begin(2), "it is under way");
        assert!(!repair.begin(1), "it was replaced");
        repair.end(1);
        assert_eq!(*repair.generation.borrow(), Some(2));
        assert!(repair.begin(3));
        repair.end(3);
        assert_eq!(*repair.generation.borrow(), None);
    }
}
