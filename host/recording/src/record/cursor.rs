//! [`RecordedCursor`]: a snapshot of objects, of which those are written down that the guest reads.

use std::sync::Arc;

use pilothouse_engine::{ObjectCursor, ObjectReader};
use pilothouse_object::Object;

use super::tape::{Place, Tape};

pub(super) struct RecordedCursor {
    objects: Box<dyn ObjectCursor>,
    tape: Arc<Tape>,
    place: Option<Place>,
    /// How many were taken.
    taken: usize,
    /// The engine takes all to sort them, and tells of those that the guest reads.
    is_sorted: bool,
}

impl RecordedCursor {
    pub(super) fn new(objects: Box<dyn ObjectCursor>, tape: Arc<Tape>, place: Option<Place>) -> Self {
        Self { objects, tape, place, taken: 0, is_sorted: false }
    }
}

impl Iterator for RecordedCursor {
    type Item = Object;

    fn next(&mut self) -> Option<Object> {
        let object = self.objects.next();
        match &object {
            Some(object) => {
                self.taken += 1;
                if !self.is_sorted {
                    self.tape.listed(self.place, object);
                }
            }
            None => self.tape.counted(self.place, self.taken),
        }
        object
    }
}

impl ObjectCursor for RecordedCursor {
    fn remaining(&self) -> usize {
        let left = self.objects.remaining();
        self.tape.counted(self.place, self.taken + left);
        left
    }

    fn reader(&mut self) -> Option<ObjectReader> {
        self.is_sorted = true;
        let (tape, place) = (Arc::clone(&self.tape), self.place);
        Some(Box::new(move |object| tape.listed(place, object)))
    }
}
