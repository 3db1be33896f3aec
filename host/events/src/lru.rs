//! [`LruCache`]: a table of bounded size that evicts the least recently used entry; it allocates as it fills.

use std::num::NonZeroUsize;

use foldhash::fast::RandomState;

use crate::keys::Key;

pub(crate) type LruCache<V> = lru::LruCache<Key, V, RandomState>;

/// A cache of at least one entry. The crate's own constructor reserves memory for all entries, of which most recorders need few.
pub(crate) fn lru_cache<V>(capacity: usize) -> LruCache<V> {
    let mut cache = LruCache::unbounded_with_hasher(RandomState::default());
    cache.resize(NonZeroUsize::new(capacity).unwrap_or(NonZeroUsize::MIN));
    cache
}
