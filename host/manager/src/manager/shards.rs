//! Terms of shards: at the end of one its plugins are replaced by standbys of the same files.
//!
//! Delays, backoff and the content of queues are known to one host alone and are wrong after another one has worked. So a
//! plugin has one term, as a host without shards has one; the next one begins with a new plugin, which reads everything anew.
//! Its caches stay filled meanwhile. Keys of objects that are gone are handed over: no cache leads to them, and no other host may
//! have stood by.

use std::sync::Arc;

use futures_util::future::join_all;
use pilothouse_election::Shards;

use super::succession::Owner;
use super::{EVENTS_GRACE, Entry, Manager};
use crate::lifecycle::plugin::Plugin;

impl Manager {
    /// Follows the terms of all shards, in a task each.
    pub(super) fn follow_shards(&self, shards: &Shards) {
        for shard in 0..shards.count() {
            let Some(mut terms) = shards.follow(shard) else { continue };
            let (host, shards) = (Arc::downgrade(&self.0), shards.clone());
            let following = async move {
                loop {
                    // Also one that is over by now: the shard is not taken again before its work was ended.
                    terms.next().await.cancelled().await;
                    let Some(host) = host.upgrade() else { return };
                    Self(host).stand_down(shard).await;
                    shards.work_ended(shard);
                }
            };
            self.0.tasks.spawn_on(following, self.work());
        }
    }

    /// Ends the work of the plugins of a shard: they begin no call any more, and others stand by in their places. Waits for the
    /// last calls and writes.
    async fn stand_down(&self, shard: usize) {
        let mut plugins = self.plugins();
        plugins.retain(|plugin| plugin.election().shard() == Some(shard));
        plugins.iter().for_each(|plugin| self.replace(plugin));
        // Each may take its time, and all have one.
        join_all(plugins.iter().map(|plugin| async move {
            plugin.ended().await;
            plugin.events().shutdown(EVENTS_GRACE).await;
        }))
        .await;
    }

    /// Retires a plugin, and puts a standby of the same files in its place, unless it is being removed or the host ends.
    fn replace(&self, plugin: &Arc<Plugin>) {
        let cancel = self.0.stopping.child_token();
        let error = plugin.status().last_error;
        // Under one lock: changes of the directory come before it or after it.
        let mut plugins = self.0.plugins.lock();
        let entry = plugins.get_mut(&**plugin.name()).filter(|entry| Arc::ptr_eq(&entry.plugin, plugin));
        let Some(entry) = entry.filter(|entry| !entry.followed.is_cancelled() && !cancel.is_cancelled())
        else {
            // One that is removed, or has a successor by now, is retired already, and its queue keeps keys.
            if cancel.is_cancelled() {
                plugin.retire();
            }
            return;
        };
        let last = plugin.retire_for_successor();
        entry.cancel();
        let next = Plugin::new(plugin.name(), &self.0.host, &self.0.metrics, Some(Arc::clone(plugin)));
        next.pause(plugin.is_paused());
        let files = entry.files.take();
        *entry = Entry::new(&next);
        entry.files.clone_from(&files);
        entry.prepare(cancel.clone());
        drop(plugins);
        match files {
            Some(files) => {
                let owner = Owner::of(&files);
                self.follow(Arc::clone(&next), files, cancel);
                self.hand_over(plugin, owner, last, &next);
            }
            // It has never run.
            None => {
                if let Some(error) = error {
                    next.files_failed(&error);
                }
                plugin.end_without_successor(last.as_deref());
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
