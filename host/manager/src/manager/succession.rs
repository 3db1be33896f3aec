//! Which plugin has a name, one after the other: the end of one, and what the next one of the name takes over.
//!
//! A plugin gives way to another one of its name when its term ends (`manager/shards.rs`), and when it is removed and added
//! again before its last call has ended. The next one begins no call before that, and reads all cached
//! objects. Keys of objects that are gone are handed over to it, since no cache leads to them.
//!
//! Invariants: a plugin that may have a successor is retired with its queue open. The queue is shut when its keys were handed over,
//! or when nobody takes its place. Keys never pass from one source to the other: what a plugin of the operator has
//! seen is not for a tenant, nor the other way round.

use std::sync::Arc;

use pilothouse_plugin::directory::Files;
use tokio_util::sync::CancellationToken;

use super::{EVENTS_GRACE, Entry, Manager};
use crate::lifecycle::generation::Generation;
use crate::lifecycle::plugin::Plugin;

/// Who has defined a plugin: the operator in the plugin directory, or a namespace with a Plugin of the cluster.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Operator,
    Namespace(String),
}

impl Owner {
    pub(super) fn of(files: &Files) -> Self {
        let namespace = files.manifest.own_namespace();
        namespace.map_or(Self::Operator, |namespace| Self::Namespace(namespace.to_owned()))
    }
}

/// Which plugin has the name of another one now.
enum Newest {
    /// That one, or none.
    Same,
    /// Another one, which may have its keys.
    Successor(Arc<Plugin>),
    /// Another one, whose files are of someone else or were never usable.
    Stranger,
}

impl Manager {
    /// The run of a name; a new one if there is none, or one that is being removed. With files, these are the newest from now
    /// on, whose preparation the token ends.
    pub(super) fn plugin(&self, name: &str, newest: Option<(&Files, &CancellationToken)>) -> Arc<Plugin> {
        // Under one lock: the end of a term, which puts another plugin in its place, comes before it or after it.
        let mut plugins = self.0.plugins.lock();
        let present = plugins.get(name).map(|entry| Arc::clone(&entry.plugin));
        let mut replaced = None;
        let plugin = match present {
            Some(plugin) if !plugin.is_stopping() => plugin,
            removed => {
                let plugin = Plugin::new(name, &self.0.host, &self.0.metrics, removed);
                replaced = plugins.insert(name.to_owned(), Entry::new(&plugin));
                plugin
            }
        };
        if let (Some((files, cancel)), Some(entry)) = (newest, plugins.get_mut(name)) {
            entry.prepare(cancel.clone());
            entry.files = Some(files.clone());
        }
        drop(plugins);
        if let Some(before) = replaced {
            let owner = before.files.as_ref().map(Owner::of);
            match owner.filter(|owner| newest.is_some_and(|(files, _)| Owner::of(files) == *owner)) {
                Some(owner) => self.hand_over(&before.plugin, owner, None, &plugin),
                None => before.plugin.end_without_successor(None),
            }
        }
        plugin
    }

    /// Removes one run.
    pub(super) fn remove(&self, name: &str) {
        let (plugin, last) = {
            let plugins = self.0.plugins.lock();
            let Some(entry) = plugins.get(name) else { return };
            entry.cancel();
            // Under the lock: one that takes its place comes after it, and finds its keys.
            (Arc::clone(&entry.plugin), entry.plugin.retire_for_successor())
        };
        // Nobody asks for what is deleted while there is no plugin.
        if let Some(last) = last {
            last.stop();
        }
        tracing::info!(event = "plugin_removed", plugin = name, "plugin removed");
        plugin.reporter().removed();
        let this = self.clone();
        let removing = async move {
            plugin.ended().await;
            plugin.events().shutdown(EVENTS_GRACE).await;
            let mut plugins = this.0.plugins.lock();
            // Unless a new plugin of this name was added meanwhile.
            if plugins.get(&**plugin.name()).is_some_and(|entry| Arc::ptr_eq(&entry.plugin, &plugin)) {
                plugins.remove(&**plugin.name());
                this.0.metrics.remove(plugin.name());
                plugin.end_without_successor(None);
            }
        };
        self.0.tasks.spawn_on(removing, self.work());
    }

    /// Hands the keys of objects that are gone over to the plugin in the place of one whose last call has ended. The informers of
    /// the last generation of that one, if it had one when it was retired, and the listeners of its mapped watches, go on
    /// until another one of its owner runs, however long that waits or is refused.
    pub(super) fn hand_over(
        &self,
        plugin: &Arc<Plugin>,
        owner: Owner,
        mut last: Option<Arc<Generation>>,
        successor: &Arc<Plugin>,
    ) {
        let (this, mut plugin, mut successor) = (self.clone(), Arc::clone(plugin), Arc::clone(successor));
        let handing_over = async move {
            plugin.ended().await;
            loop {
                // Without listeners there is nothing to wait for: so few of these tasks wait, whatever ends before it runs.
                if last.is_some() {
                    successor.has_run_or_ends().await;
                }
                // It may have been replaced before it ran.
                match this.newest_after(&successor, &owner) {
                    Newest::Same => {}
                    Newest::Successor(newer) => {
                        successor = newer;
                        continue;
                    }
                    Newest::Stranger => return plugin.end_without_successor(last.as_deref()),
                }
                plugin.hand_over_deletions(last.take().as_deref(), &successor);
                // One that was put in its place meanwhile may have got its keys before these came.
                let Newest::Successor(newer) = this.newest_after(&successor, &owner) else { return };
                plugin = std::mem::replace(&mut successor, newer);
                plugin.ended().await;
            }
        };
        self.0.tasks.spawn_on(handing_over, self.work());
    }

    /// Which plugin has the name of this one, whose owner is known.
    fn newest_after(&self, plugin: &Arc<Plugin>, owner: &Owner) -> Newest {
        let plugins = self.0.plugins.lock();
        match plugins.get(&**plugin.name()).filter(|entry| !Arc::ptr_eq(&entry.plugin, plugin)) {
            None => Newest::Same,
            Some(entry) if entry.files.as_ref().map(Owner::of).as_ref() == Some(owner) => {
                Newest::Successor(Arc::clone(&entry.plugin))
            }
            Some(_) => Newest::Stranger,
        }
    }
}

#[cfg(test)]
mod tests;
