//! [`SharedIndexes`]: the indexes of informers, one for each definition, however many plugins ask for it.
//!
//! Invariants: an index is there while a plugin has a lease of it, and is built once. What it has is that of the informer: which
//! objects of it a plugin may see is asked when it reads. Its work is charged to those who have it, to each in turn, and each is
//! warned of objects beyond the limits.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};
use pilothouse_cache::{CacheError, IndexFn, IndexLimit, IndexLimits, Indexer};
use pilothouse_object::{Object, ObjectKey, Pointer};
use pilothouse_plugin::{DataLimits, IndexSource, IndexSpec};
use tokio::sync::OnceCell;

use crate::observe::metrics::cpu::HostTime;
use crate::observe::warnings::{DataLimit, Warnings};

/// What decides which values an object has in an index.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct IndexDefinition {
    source: IndexSource,
    only_where: Option<Pointer>,
    split: Option<String>,
    index_values: usize,
    split_bytes: usize,
}

/// The indexes in use, by the address of the informer's store and the definition. An index keeps its store alive.
#[derive(Default)]
pub(crate) struct SharedIndexes {
    table: Mutex<HashMap<(usize, IndexDefinition), Weak<SharedIndex>>>,
    /// Numbers the names in the stores: the name of an index that is being removed is not used again.
    last_number: AtomicU64,
}

struct SharedIndex {
    indexer: Arc<Indexer>,
    name: String,
    users: Arc<IndexUsers>,
    built: OnceCell<()>,
}

/// Who has an index.
#[derive(Default)]
struct IndexUsers {
    all: RwLock<Vec<Arc<IndexUser>>>,
    /// Whose turn it is to be charged.
    turn: AtomicUsize,
    /// The last object beyond a limit, for those who come later.
    exceeded: Mutex<Option<(IndexLimit, ObjectKey)>>,
}

/// A plugin that has an index.
pub(crate) struct IndexUser {
    /// The account of the plugin.
    pub(crate) account: HostTime,
    pub(crate) warnings: Arc<Warnings>,
    /// What its warnings call the index.
    pub(crate) subject: String,
    pub(crate) limits: DataLimits,
}

/// A plugin's share in an index of one informer. The index goes with the last one.
pub(crate) struct IndexLease {
    index: Arc<SharedIndex>,
    user: Arc<IndexUser>,
}

impl SharedIndexes {
    /// The index of this definition in a store; it is built if it is not there.
    ///
    /// # Errors
    /// When the store refuses it.
    pub(crate) async fn lease(
        &self,
        indexer: &Arc<Indexer>,
        spec: &IndexSpec,
        user: &Arc<IndexUser>,
    ) -> Result<IndexLease, CacheError> {
        let DataLimits { index_values, split_bytes, .. } = user.limits;
        let IndexSpec { source, only_where, split, .. } = spec.clone();
        let definition = IndexDefinition { source, only_where, split, index_values, split_bytes };
        let index = self.index(indexer, &definition);
        let lease = IndexLease::new(index, user);
        let SharedIndex { name, users, built, .. } = &*lease.index;
        // Those who come meanwhile wait.
        built.get_or_try_init(|| async { indexer.add_indexer(name, definition.function(users)) }).await?;
        Ok(lease)
    }

    fn index(&self, indexer: &Arc<Indexer>, definition: &IndexDefinition) -> Arc<SharedIndex> {
        let key = (Arc::as_ptr(indexer).addr(), definition.clone());
        let mut table = self.table.lock();
        if let Some(index) = table.get(&key).and_then(Weak::upgrade) {
            return index;
        }
        if table.len() == table.capacity() {
            table.retain(|_, index| index.strong_count() > 0);
        }
        let index = Arc::new(SharedIndex {
            indexer: Arc::clone(indexer),
            name: format!("plugins/{}", self.last_number.fetch_add(1, Relaxed)),
            users: Arc::default(),
            built: OnceCell::new(),
        });
        table.insert(key, Arc::downgrade(&index));
        index
    }
}

impl IndexDefinition {
    fn function(&self, users: &Arc<IndexUsers>) -> IndexFn {
        let mut function = match &self.source {
            IndexSource::Path(path) => IndexFn::path(path.clone()),
            IndexSource::Label(name) => IndexFn::label(name),
            IndexSource::Annotation(name) => IndexFn::annotation(name),
            IndexSource::Owner => IndexFn::owner_uid(),
        };
        if let Some(path) = &self.only_where {
            function = function.where_present(path.clone());
        }
        if let Some(separator) = &self.split {
            function = function.split(separator);
        }
        let (charged, warned) = (Arc::clone(users), Arc::clone(users));
        let limits = IndexLimits {
            values: self.index_values,
            split_bytes: self.split_bytes,
            exceeded: Arc::new(move |object, limit| warned.exceeded(object, limit)),
        };
        function.limited(limits).timed(move |time| charged.charge(|user| user.account.add_elsewhere(time)))
    }
}

impl IndexUsers {
    fn charge(&self, charge: impl FnOnce(&IndexUser)) {
        let all = self.all.read();
        if let Some(turn) = self.turn.fetch_add(1, Relaxed).checked_rem(all.len()) {
            charge(&all[turn]);
        }
    }

    fn exceeded(&self, object: &Object, limit: IndexLimit) {
        *self.exceeded.lock() = Some((limit, object.key().clone()));
        self.all.read().iter().for_each(|user| user.warn(limit, object.key()));
    }
}

impl IndexUser {
    fn warn(&self, limit: IndexLimit, object: &ObjectKey) {
        let (limit, most) = match limit {
            IndexLimit::Values => (DataLimit::IndexValues, self.limits.index_values),
            IndexLimit::SplitBytes => (DataLimit::SplitBytes, self.limits.split_bytes),
        };
        self.warnings.exceeded(limit, most, &self.subject, object);
    }
}

impl IndexLease {
    fn new(index: Arc<SharedIndex>, user: &Arc<IndexUser>) -> Self {
        index.users.all.write().push(Arc::clone(user));
        if let Some((limit, object)) = &*index.users.exceeded.lock() {
            user.warn(*limit, object);
        }
        Self { index, user: Arc::clone(user) }
    }

    /// The name of the index in its store.
    pub(crate) fn name(&self) -> &str {
        &self.index.name
    }
}

impl Drop for IndexLease {
    fn drop(&mut self) {
        let mut all = self.index.users.all.write();
        if let Some(at) = all.iter().position(|user| Arc::ptr_eq(user, &self.user)) {
            all.swap_remove(at);
        }
    }
}

impl Drop for SharedIndex {
    fn drop(&mut self) {
        self.indexer.remove_indexer(&self.name);
    }
}

#[cfg(test)]
mod tests;
