//! [`Handles`]: the objects and cursors that a guest received in the running call.
//!
//! Invariants:
//! - an instance never uses a handle's number twice, so a handle that the guest kept from an earlier call is unknown,
//!   whatever came after it: it neither shows nor deletes another object;
//! - a handle that the guest did not drop before its call ended keeps its place in the guest's table. An instance with
//!   [`MAX_LEAKED`] of them is worn out: it is replaced long before its table is full ([`max_places`]);
//! - the entries of a call cost at most `limits.handleBytes`. Each costs [`HANDLE_BYTES`] and, for the answer of a live
//!   call, its body: nothing else holds that body, while a cached object shares the body of the store. A value that is still
//!   put together costs its texts;
//! - a call has at most [`MAX_BUILDERS`] values that it is still putting together: queries, options and events;
//! - only the answer of a write may exceed that, by its body: the write is done, and the guest must not be told otherwise.
//!   A write for which the limit has no room is refused before it is sent ([`Handles::check_room_for_write`]), so one
//!   answer at most exceeds it.

use std::collections::BTreeMap;

use pilothouse_object::Object;
use wasmtime::Error;
use wasmtime::component::Resource;

use crate::error::OverLimit;
use crate::imports::{Cursor, NewEvent, Options, Page, Query, Values};

/// The cost in bytes of a handle without a body: its entry here, the guest's handle and the object's metadata.
pub const HANDLE_BYTES: usize = 1 << 10;

/// Most queries, options and events that a call may have at a time.
const MAX_BUILDERS: usize = 64;

/// Handles that a guest may leave undropped in all its calls. Runtimes with a garbage collector leave some and drop them later.
pub(crate) const MAX_LEAKED: usize = 32 << 10;

/// Most handles that the table of a guest may have at a time, `others` being those of resources that no call ends.
pub(crate) fn max_places(handle_bytes: usize, others: usize) -> usize {
    // The answer of one write may exceed the limit of the call.
    const MORE: usize = 1 << 10;
    (handle_bytes / HANDLE_BYTES).saturating_add(MAX_LEAKED + others + MORE)
}

/// What stands behind a handle.
pub(crate) enum Entry {
    /// An object, and the number of its cluster.
    Object(Object, u32),
    Cursor(Cursor),
    Values(Values),
    Page(Page),
    Query(Query),
    Options(Box<Options>),
    Event(Box<NewEvent>),
}

/// A resource of the contract whose values live as long as a call.
pub(crate) trait Handled: Sized + 'static {
    /// How an error names a handle of it.
    const NAME: &'static str;

    fn of(entry: &mut Entry) -> Option<&mut Self>;
}

macro_rules! handled {
    ($($resource:ident as $variant:ident: $name:literal),+ $(,)?) => {
        $(impl Handled for $resource {
            const NAME: &'static str = $name;

            fn of(entry: &mut Entry) -> Option<&mut Self> {
                match entry {
                    Entry::$variant(value) => Some(value),
                    _ => None,
                }
            }
        })+
    };
}

handled! {
    Cursor as Cursor: "a cursor",
    Values as Values: "a values",
    Page as Page: "a page",
    Query as Query: "a query",
    Options as Options: "an options",
    NewEvent as Event: "an event",
}

impl Handled for Object {
    const NAME: &'static str = "an object";

    fn of(entry: &mut Entry) -> Option<&mut Self> {
        match entry {
            Entry::Object(object, _) => Some(object),
            _ => None,
        }
    }
}

/// The handles of the running call.
pub(crate) struct Handles {
    entries: BTreeMap<u32, (Entry, usize)>,
    /// Number of the next handle.
    next: u32,
    /// The cost of all entries.
    bytes: usize,
    max_bytes: usize,
    /// How many entries are queries, options or events.
    builders: usize,
    /// How many handles of earlier calls the guest did not drop.
    leaked: usize,
}

impl Handles {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self { entries: BTreeMap::new(), next: 0, bytes: 0, max_bytes, builders: 0, leaked: 0 }
    }

    /// A handle of a cached object.
    pub(crate) fn push_cached(&mut self, object: Object) -> Result<Resource<Object>, OverLimit> {
        self.push(Entry::Object(object, 0), 0)
    }

    /// A handle of an object that a live call to this cluster answered; its body counts.
    pub(crate) fn push_live(&mut self, object: Object, cluster: u32) -> Result<Resource<Object>, OverLimit> {
        let body = object.json().len();
        self.push(Entry::Object(object, cluster), body)
    }

    /// An error unless a write with a body of this size may be sent: the answer is of about that size.
    pub(crate) fn check_room_for_write(&self, body: usize) -> Result<(), OverLimit> {
        self.check_room(body.saturating_add(HANDLE_BYTES))
    }

    /// A handle of the object that a write to this cluster answered. It may exceed the limit.
    pub(crate) fn push_written(
        &mut self,
        object: Object,
        cluster: u32,
    ) -> Result<Resource<Object>, OverLimit> {
        let cost = object.json().len().saturating_add(HANDLE_BYTES);
        Ok(Resource::new_own(self.insert(Entry::Object(object, cluster), cost)?))
    }

    /// A handle of anything else. `held` are the bytes that only it keeps in memory.
    pub(crate) fn push<T: Handled>(&mut self, entry: Entry, held: usize) -> Result<Resource<T>, OverLimit> {
        let cost = held.saturating_add(HANDLE_BYTES);
        self.check_room(cost)?;
        Ok(Resource::new_own(self.insert(entry, cost)?))
    }

    /// A handle of a query, options or an event with texts of so many bytes.
    pub(crate) fn push_builder<T: Handled>(
        &mut self,
        entry: Entry,
        held: usize,
    ) -> Result<Resource<T>, OverLimit> {
        if self.builders == MAX_BUILDERS {
            return Err(OverLimit::new(format_args!(
                "a call may have {MAX_BUILDERS} queries, options and events at a time: drop those that are no longer needed"
            )));
        }
        let handle = self.push(entry, held)?;
        self.builders += 1;
        Ok(handle)
    }

    /// The bytes that further live objects may have.
    pub(crate) fn free_bytes(&self) -> usize {
        self.max_bytes.saturating_sub(self.bytes)
    }

    /// How many handles of cached objects there is room for.
    pub(crate) fn room(&self) -> usize {
        (self.free_bytes() / HANDLE_BYTES).min((u32::MAX - self.next) as usize)
    }

    /// An error unless there is room for so many handles of cached objects.
    pub(crate) fn check_room_for(&self, handles: usize) -> Result<(), OverLimit> {
        self.check_room(handles.saturating_mul(HANDLE_BYTES))?;
        if handles <= self.room() { Ok(()) } else { Err(no_numbers()) }
    }

    fn check_room(&self, cost: usize) -> Result<(), OverLimit> {
        if cost <= self.free_bytes() {
            return Ok(());
        }
        Err(OverLimit::new(format_args!(
            "the objects behind the handles of one call exceed {} bytes (limits.handleBytes): drop handles that \
             are no longer needed, list in smaller pages, or raise the limit",
            self.max_bytes
        )))
    }

    fn insert(&mut self, entry: Entry, cost: usize) -> Result<u32, OverLimit> {
        let number = self.next;
        // A call that makes the last numbers is refused; an instance is replaced long before (`is_worn_out`).
        self.next = number.checked_add(1).ok_or_else(no_numbers)?;
        self.bytes += cost;
        self.entries.insert(number, (entry, cost));
        Ok(number)
    }

    /// The object behind a handle.
    pub(crate) fn object(&self, handle: &Resource<Object>) -> wasmtime::Result<&Object> {
        self.object_and_cluster(handle).map(|(object, _)| object)
    }

    /// The object behind a handle, and the number of its cluster.
    pub(crate) fn object_and_cluster(&self, handle: &Resource<Object>) -> wasmtime::Result<(&Object, u32)> {
        match self.entries.get(&handle.rep()) {
            Some((Entry::Object(object, cluster), _)) => Ok((object, *cluster)),
            _ => Err(stale::<Object>()),
        }
    }

    /// The value behind a handle.
    pub(crate) fn get<T: Handled>(&mut self, handle: &Resource<T>) -> wasmtime::Result<&mut T> {
        let entry = self.entries.get_mut(&handle.rep());
        entry.and_then(|(entry, _)| T::of(entry)).ok_or_else(stale::<T>)
    }

    /// A value keeps so many bytes in memory now.
    pub(crate) fn hold<T>(&mut self, handle: &Resource<T>, held: usize) -> Result<(), OverLimit> {
        let Some((_, cost)) = self.entries.get(&handle.rep()) else { return Ok(()) };
        let (before, after) = (*cost, held.saturating_add(HANDLE_BYTES));
        self.check_room(after.saturating_sub(before))?;
        self.bytes = self.bytes - before + after;
        if let Some((_, cost)) = self.entries.get_mut(&handle.rep()) {
            *cost = after;
        }
        Ok(())
    }

    /// A value gave up all that only it kept in memory.
    pub(crate) fn release<T>(&mut self, handle: &Resource<T>) {
        if let Some((_, cost)) = self.entries.get_mut(&handle.rep()) {
            self.bytes -= *cost - HANDLE_BYTES;
            *cost = HANDLE_BYTES;
        }
    }

    /// Drops the entry of a handle; nothing when the handle is from an earlier call, whose place is free now.
    pub(crate) fn delete<T: 'static>(&mut self, handle: &Resource<T>) {
        let Some((entry, cost)) = self.entries.remove(&handle.rep()) else {
            self.leaked = self.leaked.saturating_sub(1);
            return;
        };
        self.bytes -= cost;
        let is_builder = matches!(entry, Entry::Query(_) | Entry::Options(_) | Entry::Event(_));
        self.builders -= usize::from(is_builder);
    }

    /// Ends a call: drops all entries.
    pub(crate) fn clear(&mut self) {
        self.leaked += self.entries.len();
        self.entries.clear();
        self.bytes = 0;
        self.builders = 0;
    }

    /// Whether the instance must be replaced after its call: half of the numbers are used, or the guest has not dropped very
    /// many handles.
    pub(crate) fn is_worn_out(&self) -> bool {
        self.next > u32::MAX / 2 || self.leaked >= MAX_LEAKED
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.bytes == 0 && self.builders == 0
    }
}

fn no_numbers() -> OverLimit {
    OverLimit::new("the instance has no more handle numbers: make fewer handles in a call")
}

fn stale<T: Handled>() -> Error {
    Error::msg(format!("{} handle was used after the call that got it; handles must not be kept", T::NAME))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn object(name: u32, fill: usize) -> Object {
        let json = serde_json::json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("x{name}")}, "data": {"fill": "x".repeat(fill)},
        });
        Object::decode(json.to_string().as_bytes()).unwrap()
    }

    #[derive(Debug, Clone)]
    enum Step {
        Push {
            live: bool,
            fill: usize,
        },
        /// A write with a body of `sent` bytes and an answer of `fill` bytes and a little.
        Write {
            sent: usize,
            fill: usize,
        },
        /// Drops one of the handles that were ever made.
        Drop(usize),
        EndCall,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (any::<bool>(), 0..3000_usize).prop_map(|(live, fill)| Step::Push { live, fill }),
            1 => (0..3000_usize, 0..30_000_usize).prop_map(|(sent, fill)| Step::Write { sent, fill }),
            3 => any::<usize>().prop_map(Step::Drop),
            1 => Just(Step::EndCall),
        ];
        proptest::collection::vec(step, 0..60)
    }

    proptest! {
        /// A model that remembers every handle ever made, and which object it was for.
        #[test]
        fn a_handle_shows_its_own_object_until_it_is_dropped_and_nothing_after(steps in steps()) {
            const MAX: usize = 16 << 10;
            let mut handles = Handles::new(MAX);
            let mut model: Vec<(u32, Option<(String, usize)>)> = Vec::new();
            for step in steps {
                match step {
                    Step::Push { live, fill } => {
                        let object = object(u32::try_from(model.len()).unwrap(), fill);
                        let cost = HANDLE_BYTES + if live { object.json().len() } else { 0 };
                        let used: usize = model.iter().filter_map(|(_, entry)| Some(entry.as_ref()?.1)).sum();
                        let name = object.key().name().to_owned();
                        let pushed = if live { handles.push_live(object, 0) } else { handles.push_cached(object) };
                        prop_assert_eq!(pushed.is_ok(), used + cost <= MAX);
                        if let Ok(handle) = pushed {
                            model.push((handle.rep(), Some((name, cost))));
                        }
                    }
                    Step::Write { sent, fill } => {
                        let object = object(u32::try_from(model.len()).unwrap(), fill);
                        let cost = HANDLE_BYTES + object.json().len();
                        let used: usize = model.iter().filter_map(|(_, entry)| Some(entry.as_ref()?.1)).sum();
                        let is_sent = handles.check_room_for_write(sent).is_ok();
                        prop_assert_eq!(is_sent, used + HANDLE_BYTES + sent <= MAX);
                        if is_sent {
                            let name = object.key().name().to_owned();
                            let handle = handles.push_written(object, 0);
                            prop_assert!(handle.is_ok(), "what was written is answered");
                            model.push((handle.unwrap().rep(), Some((name, cost))));
                        }
                    }
                    Step::Drop(which) if !model.is_empty() => {
                        let which = which % model.len();
                        handles.delete(&Resource::<Object>::new_own(model[which].0));
                        model[which].1 = None;
                    }
                    Step::Drop(_) => {}
                    Step::EndCall => {
                        handles.clear();
                        model.iter_mut().for_each(|(_, entry)| *entry = None);
                    }
                }
                for (number, entry) in &model {
                    let shown = handles.object(&Resource::new_borrow(*number));
                    let shown = shown.ok().map(|object| object.key().name().to_owned());
                    prop_assert_eq!(shown, entry.as_ref().map(|(name, _)| name.clone()));
                }
            }
            handles.clear();
            prop_assert!(handles.is_empty());
        }
    }

    #[test]
    fn an_instance_is_replaced_before_its_numbers_end() {
        let mut handles = Handles::new(1 << 20);
        handles.next = u32::MAX / 2;
        assert!(!handles.is_worn_out());
        handles.push_cached(object(0, 0)).unwrap();
        assert!(handles.is_worn_out());
        handles.next = u32::MAX;
        assert!(handles.push_cached(object(1, 0)).is_err());
    }

    #[test]
    fn handles_that_are_not_dropped_wear_an_instance_out() {
        let mut handles = Handles::new(64 << 20);
        let one = object(0, 0);
        let mut first = Vec::new();
        for call in 0..8 {
            for _ in 0..MAX_LEAKED / 8 {
                let kept = handles.push_cached(one.clone()).unwrap();
                if call == 0 {
                    first.push(kept);
                }
                let dropped = handles.push_cached(one.clone()).unwrap();
                handles.delete(&dropped);
            }
            assert!(!handles.is_worn_out(), "in call {call}");
            handles.clear();
        }
        assert!(handles.is_worn_out());
        // As a garbage collector does, late.
        handles.delete(&first[0]);
        assert!(!handles.is_worn_out());
        handles.push_cached(one).unwrap();
        handles.clear();
        assert!(handles.is_worn_out());
    }
}
