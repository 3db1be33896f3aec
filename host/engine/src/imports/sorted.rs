//! [`Sorted`]: the objects of a snapshot in the order of their keys.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;

use pilothouse_object::{Object, ObjectKey};

use super::scan::{Scan, remaining};
use crate::budget::Budget;
use crate::host::{Listed, ObjectCursor, ObjectReader};

/// Bytes that the host keeps for each object of a sorted snapshot.
pub(super) const SORTED_BYTES: usize = size_of::<ByKey>();

/// The objects of a snapshot in the order of `namespace/name`, byte by byte, as the API server lists them. They are a heap: who
/// reads only the first ones pays for no more.
pub(super) struct Sorted {
    heap: BinaryHeap<Reverse<ByKey>>,
    reader: Option<ObjectReader>,
}

impl Sorted {
    /// Takes the first `limit` objects in, of all of them. None if it needs room for more than `most`: for the objects, or for
    /// twice the limit.
    ///
    /// # Errors
    /// When the budget of the call is used up.
    pub(super) fn new(
        mut objects: Box<dyn ObjectCursor>,
        limit: usize,
        most: usize,
        budget: &Budget,
    ) -> wasmtime::Result<Option<Self>> {
        let reader = objects.reader();
        let mut taken = Vec::new();
        let mut has_room = true;
        let mut scan = Scan::new(budget);
        let room = limit.saturating_mul(2).min(most);
        objects.visit(&mut |object| {
            if let Some(object) = object.filter(|_| limit > 0) {
                if taken.len() == room {
                    has_room = room / 2 >= limit;
                    if !has_room {
                        return ControlFlow::Break(());
                    }
                    keep_first(&mut taken, limit);
                }
                taken.push(ByKey(object));
            }
            scan.look()
        });
        scan.end()?;
        if !has_room {
            return Ok(None);
        }
        keep_first(&mut taken, limit);
        Ok(Some(Self { heap: taken.into_iter().map(Reverse).collect(), reader }))
    }

    /// The next object, of which the guest reads this.
    fn next(&mut self, listed: impl FnOnce(&Object) -> Listed<'_>) -> Option<Object> {
        let Reverse(ByKey(object)) = self.heap.pop()?;
        if let Some(reader) = &mut self.reader {
            reader(listed(&object));
        }
        Some(object)
    }

    /// How many objects it has taken in.
    pub(super) fn taken(&self) -> usize {
        self.heap.len()
    }
}

/// Drops all objects but the first `limit`.
fn keep_first(taken: &mut Vec<ByKey>, limit: usize) {
    if taken.len() > limit {
        if let Some(last) = limit.checked_sub(1) {
            taken.select_nth_unstable(last);
        }
        taken.truncate(limit);
    }
}

impl ObjectCursor for Sorted {
    fn visit(&mut self, visit: &mut dyn FnMut(Option<Object>) -> ControlFlow<()>) {
        while let Some(object) = self.next(|object| Listed::Object(object))
            && visit(Some(object)).is_continue()
        {}
    }

    fn visit_keys(&mut self, visit: &mut dyn FnMut(Option<&ObjectKey>) -> ControlFlow<()>) {
        while let Some(object) = self.next(|object| Listed::Key(object.key()))
            && visit(Some(object.key())).is_continue()
        {}
    }

    fn remaining(&self, _: &mut dyn FnMut() -> ControlFlow<()>) -> Option<usize> {
        Some(self.heap.len())
    }
}

/// The first objects of a cursor that is in the order of keys already.
pub(super) struct First {
    objects: Box<dyn ObjectCursor>,
    left: usize,
}

impl First {
    /// As [`Sorted::new`].
    pub(super) fn new(
        objects: Box<dyn ObjectCursor>,
        limit: usize,
        most: usize,
        budget: &Budget,
    ) -> wasmtime::Result<Option<Self>> {
        let all = remaining(&*objects, budget)?;
        let room = limit.saturating_mul(2).min(most);
        let has_room = all <= room || room / 2 >= limit;
        Ok(has_room.then_some(Self { objects, left: all.min(limit) }))
    }

    /// How many objects it has.
    pub(super) fn taken(&self) -> usize {
        self.left
    }
}

impl ObjectCursor for First {
    fn visit(&mut self, visit: &mut dyn FnMut(Option<Object>) -> ControlFlow<()>) {
        let Self { objects, left } = self;
        if *left > 0 {
            objects.visit(&mut |object| until_none_left(left, object.is_some(), || visit(object)));
        }
    }

    fn visit_keys(&mut self, visit: &mut dyn FnMut(Option<&ObjectKey>) -> ControlFlow<()>) {
        let Self { objects, left } = self;
        if *left > 0 {
            objects.visit_keys(&mut |key| until_none_left(left, key.is_some(), || visit(key)));
        }
    }

    fn remaining(&self, _: &mut dyn FnMut() -> ControlFlow<()>) -> Option<usize> {
        Some(self.left)
    }
}

/// Continues until `visit` ends it or no object is left.
fn until_none_left(
    left: &mut usize,
    is_object: bool,
    visit: impl FnOnce() -> ControlFlow<()>,
) -> ControlFlow<()> {
    *left -= usize::from(is_object);
    let flow = visit();
    if *left == 0 { ControlFlow::Break(()) } else { flow }
}

/// An object in the order of its key.
struct ByKey(Object);

impl PartialEq for ByKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.key() == other.0.key()
    }
}

impl Eq for ByKey {}

impl PartialOrd for ByKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.key().as_str().cmp(other.0.key().as_str())
    }
}
