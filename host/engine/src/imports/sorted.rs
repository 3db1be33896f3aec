//! [`Sorted`]: the objects of a snapshot in the order of their keys.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pilothouse_object::Object;

use crate::budget::Budget;
use crate::host::{ObjectCursor, ObjectReader};

/// How many objects are taken in between two looks at the CPU budget.
const CHECK_EVERY: usize = 1024;

/// Bytes that the host keeps for each object of a sorted snapshot.
pub(super) const SORTED_BYTES: usize = size_of::<ByKey>();

/// The objects of a snapshot in the order of `namespace/name`, byte by byte, as the API server lists them. They are a heap: who
/// reads only the first ones pays for no more.
pub(super) struct Sorted {
    heap: BinaryHeap<Reverse<ByKey>>,
    /// How many are handed out at most.
    left: usize,
    reader: Option<ObjectReader>,
}

impl Sorted {
    /// Takes all objects in, up to `most`: none if there are more, or the budget of the call is used up.
    pub(super) fn new(
        mut objects: Box<dyn ObjectCursor>,
        limit: usize,
        most: usize,
        budget: &Budget,
    ) -> Result<Self, Unsorted> {
        let reader = objects.reader();
        let mut taken = Vec::new();
        for object in objects {
            if taken.len() == most {
                return Err(Unsorted::TooMany);
            }
            taken.push(Reverse(ByKey(object)));
            if taken.len().is_multiple_of(CHECK_EVERY) && !budget.has_left() {
                return Err(Unsorted::Budget);
            }
        }
        let left = taken.len().min(limit);
        Ok(Self { heap: taken.into(), left, reader })
    }

    /// How many objects it has taken in.
    pub(super) fn taken(&self) -> usize {
        self.heap.len()
    }
}

/// Why a snapshot was not sorted.
pub(super) enum Unsorted {
    /// It has too many objects.
    TooMany,
    /// The CPU budget of the call is used up.
    Budget,
}

impl Iterator for Sorted {
    type Item = Object;

    fn next(&mut self) -> Option<Object> {
        self.left = self.left.checked_sub(1)?;
        let Reverse(ByKey(object)) = self.heap.pop()?;
        if let Some(reader) = &mut self.reader {
            reader(&object);
        }
        Some(object)
    }
}

impl ObjectCursor for Sorted {
    fn remaining(&self) -> usize {
        self.left
    }
}

/// The first objects of a cursor that is sorted already.
pub(super) struct First {
    objects: Box<dyn ObjectCursor>,
    left: usize,
}

impl First {
    pub(super) fn new(objects: Box<dyn ObjectCursor>, limit: usize) -> Self {
        let left = objects.remaining().min(limit);
        Self { objects, left }
    }
}

impl Iterator for First {
    type Item = Object;

    fn next(&mut self) -> Option<Object> {
        self.left = self.left.checked_sub(1)?;
        self.objects.next()
    }
}

impl ObjectCursor for First {
    fn remaining(&self) -> usize {
        self.left
    }
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
