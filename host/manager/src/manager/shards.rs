//! Terms of shards: at the end of one its plugins are replaced by standbys of the same files, and those whose keys are shared
//! drop the keys of the shard.
//!
//! Delays, backoff and the content of queues are known to one host alone and are wrong after another one has worked. So a
//! plugin has one term, as a host without shards has one; the next one begins with a new plugin, which reads everything anew.
//! Its caches stay filled meanwhile. Keys of objects that are gone are handed over: no cache leads to them, and no other host may
//! have stood by. A plugin whose keys are shared goes on: its other shards have their terms.

use std::sync::Arc;

use futures_util::future::join_all;
use pilothouse_election::Shards;
use pilothouse_plugin::KeySharing;

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

    /// Ends the work of the plugins of a shard: they begin no call any more, and others stand by in their places, or they
    /// themselves if their keys are shared. Waits for the last calls and writes.
    async fn stand_down(&self, shard: usize) {
        let of_shard = |plugin: &Arc<Plugin>| plugin.election().term_shards().contains(&shard);
        let (plugins, others): (Vec<_>, Vec<_>) = self.plugins().into_iter().partition(of_shard);
        let (shared, own): (Vec<_>, Vec<_>) =
            plugins.into_iter().partition(|plugin| plugin.election().keys().is_some());
        own.iter().for_each(|plugin| self.replace(plugin));
        // Each may take its time, and all have one.
        let own = own.iter().map(|plugin| async move {
            plugin.ended().await;
            plugin.events().shutdown(EVENTS_GRACE).await;
        });
        let shared = shared.iter().map(|plugin| async move {
            plugin.end_term(shard).await;
            self.0.host.standby.add_to(shard, plugin);
        });
        let before = others.iter().map(|plugin| plugin.predecessors_ended(shard));
        tokio::join!(join_all(own), join_all(shared), join_all(before));
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
        // Its files say so as well: a change of `spec.keys` makes another plugin.
        let (name, keys) = (plugin.name(), KeySharing::Together);
        let next = Plugin::new(name, &self.0.host, &self.0.metrics, keys, Some(Arc::clone(plugin)));
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
mod key_tests;
#[cfg(test)]
pub(super) mod tests;
