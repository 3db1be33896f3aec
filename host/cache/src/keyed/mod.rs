//! [`KeyedStore`]: items by key under one lock, and client-go's containers that are one: [`ExpirationCache`] and
//! [`UndeltaStore`] here, `Fifo` and `Heap` in `queues`. What a container does beyond keeping items is its [`Rule`].

pub(crate) mod mutation_cache;
pub(crate) mod queues;

use std::hash::Hash;
use std::time::Duration;

use foldhash::fast::RandomState;
use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The items of a store by key, each with what its rule keeps with it.
pub(crate) type Items<T, K, M> = HashMap<K, (T, M), RandomState>;

/// What a container does beyond keeping items. It is called under the lock of the store, which it must not call.
pub trait Rule<T, K>: Sized {
    /// What is kept with an item.
    type Mark;
    /// An item is put in; `held` belongs to the one whose place it takes.
    fn put(&mut self, key: &K, item: &T, held: Option<Self::Mark>) -> Self::Mark;
    /// An item was taken out.
    fn removed(&mut self, _: &Self::Mark) {}
    /// All items are taken out, before others are put in.
    fn clear(&mut self) {}
    /// There was a change.
    fn changed(&mut self, _: &Items<T, K, Self::Mark>) {}
    /// Whether items are taken in.
    fn is_open(&self) -> bool {
        true
    }
    /// Whether an item counts still.
    fn is_live(&self, _: &T, _: &Self::Mark) -> bool {
        true
    }
}

/// Items by key, as a rule has it.
pub struct KeyedStore<T, K, R: Rule<T, K>> {
    key: Box<dyn Fn(&T) -> K + Send + Sync>,
    state: Mutex<State<T, K, R>>,
    /// There is an item to wait for, or there will be none.
    work: Notify,
}

struct State<T, K, R: Rule<T, K>> {
    items: Items<T, K, R::Mark>,
    rule: R,
}

impl<T: Clone, K: Hash + Eq + Clone, R: Rule<T, K>> KeyedStore<T, K, R> {
    fn with_rule(key: impl Fn(&T) -> K + Send + Sync + 'static, rule: R) -> Self {
        let state = Mutex::new(State { items: HashMap::default(), rule });
        Self { key: Box::new(key), state, work: Notify::new() }
    }

    /// Puts an item in, or its newer state in the place of what is there (client-go's `Update`); `false` when the store was
    /// closed to items.
    pub fn add(&self, item: T) -> bool {
        self.bulk_add([item])
    }

    /// As [`add`](Self::add), for several items as one change.
    pub fn bulk_add(&self, items: impl IntoIterator<Item = T>) -> bool {
        let keyed = self.keyed(items);
        self.change(|state| keyed.into_iter().all(|(key, item)| state.put(key, item)))
    }

    /// As [`add`](Self::add), unless there is an item of its key.
    pub fn add_if_not_present(&self, item: T) -> bool {
        let key = (self.key)(&item);
        self.change(|state| state.rule.is_open() && (state.items.contains_key(&key) || state.put(key, item)))
    }

    /// Puts these in the place of all there are, in this order, as one change.
    pub fn replace(&self, list: impl IntoIterator<Item = T>) -> bool {
        let keyed = self.keyed(list);
        self.change(|state| {
            state.rule.clear();
            state.items.clear();
            keyed.into_iter().all(|(key, item)| state.put(key, item))
        })
    }

    /// Takes out the item of this one's key.
    pub fn delete(&self, item: &T) -> Option<T> {
        let key = (self.key)(item);
        self.change(|state| state.remove(&key)).map(|(item, _)| item)
    }

    /// The item of a key.
    #[must_use]
    pub fn get_by_key(&self, key: &K) -> Option<T> {
        let mut state = self.state.lock();
        let (item, mark) = state.items.get(key)?;
        if state.rule.is_live(item, mark) {
            return Some(item.clone());
        }
        state.remove(key);
        None
    }

    /// The item of this one's key.
    #[must_use]
    pub fn get(&self, item: &T) -> Option<T> {
        self.get_by_key(&(self.key)(item))
    }

    /// All items, in no order.
    #[must_use]
    pub fn list(&self) -> Vec<T> {
        let State { items, rule } = &mut *self.state.lock();
        items.retain(|_, (item, mark)| rule.is_live(item, mark));
        items.values().map(|(item, _)| item.clone()).collect()
    }

    /// All keys, in no order.
    #[must_use]
    pub fn list_keys(&self) -> Vec<K> {
        self.state.lock().items.keys().cloned().collect()
    }

    /// Items with their keys; made before the lock is taken, as the caller's code makes them.
    fn keyed(&self, items: impl IntoIterator<Item = T>) -> Vec<(K, T)> {
        items.into_iter().map(|item| ((self.key)(&item), item)).collect()
    }

    fn change<C>(&self, change: impl FnOnce(&mut State<T, K, R>) -> C) -> C {
        let mut state = self.state.lock();
        let outcome = change(&mut state);
        let State { items, rule } = &mut *state;
        rule.changed(items);
        drop(state);
        self.work.notify_one();
        outcome
    }
}

impl<T, K: Hash + Eq, R: Rule<T, K>> State<T, K, R> {
    fn put(&mut self, key: K, item: T) -> bool {
        if !self.rule.is_open() {
            return false;
        }
        let held = self.items.remove(&key).map(|(_, mark)| mark);
        let mark = self.rule.put(&key, &item, held);
        self.items.insert(key, (item, mark));
        true
    }

    fn remove(&mut self, key: &K) -> Option<(T, R::Mark)> {
        let removed = self.items.remove(key)?;
        self.rule.removed(&removed.1);
        Some(removed)
    }
}

/// client-go's store whose entries go when they are old. No item that has expired is handed out; nothing runs in the
/// background: an entry is looked at when it is read, and removed then. `list_keys` reads none.
pub type ExpirationCache<T, K> = KeyedStore<T, K, Expiry<T>>;

/// The rule of an [`ExpirationCache`]: whether an item has expired that was put in at a time.
pub struct Expiry<T>(Policy<T>);

type Policy<T> = Box<dyn Fn(&T, Instant) -> bool + Send + Sync>;

impl<T: Clone, K: Hash + Eq + Clone> ExpirationCache<T, K> {
    /// A cache whose entries expire when they are older than `ttl`; client-go's `NewTTLStore`.
    pub fn with_ttl(key: impl Fn(&T) -> K + Send + Sync + 'static, ttl: Duration) -> Self {
        Self::with_policy(key, move |_, since| since.elapsed() > ttl)
    }

    /// A cache whose entries expire when `expired` says so of an item and of the time it was put in.
    pub fn with_policy(
        key: impl Fn(&T) -> K + Send + Sync + 'static,
        expired: impl Fn(&T, Instant) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::with_rule(key, Expiry(Box::new(expired)))
    }
}

impl<T, K> Rule<T, K> for Expiry<T> {
    type Mark = Instant;

    fn put(&mut self, _: &K, _: &T, _: Option<Instant>) -> Instant {
        Instant::now()
    }

    fn is_live(&self, item: &T, since: &Instant) -> bool {
        !(self.0)(item, *since)
    }
}

/// client-go's store that tells the whole list after each change. The receiver is called under the store's lock, so that
/// it gets the lists in the order of the changes (client-go's may be told an older list last). It must not call the store.
pub type UndeltaStore<T, K> = KeyedStore<T, K, Push<T>>;

/// The rule of an [`UndeltaStore`]: gets all items, in no order, after each change.
pub struct Push<T>(Box<dyn Fn(Vec<T>) + Send + Sync>);

impl<T: Clone, K: Hash + Eq + Clone> UndeltaStore<T, K> {
    /// An empty store; `push` gets all items, in no order, after each change.
    pub fn new(
        key: impl Fn(&T) -> K + Send + Sync + 'static,
        push: impl Fn(Vec<T>) + Send + Sync + 'static,
    ) -> Self {
        Self::with_rule(key, Push(Box::new(push)))
    }
}

impl<T: Clone, K> Rule<T, K> for Push<T> {
    type Mark = ();

    fn put(&mut self, _: &K, _: &T, _: Option<()>) {}

    fn changed(&mut self, items: &Items<T, K, ()>) {
        (self.0)(items.values().map(|(item, ())| item.clone()).collect());
    }
}
