//! [`RecordedCursor`]: a snapshot of objects, of which those are written down that the guest reads.

use std::ops::ControlFlow;
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

impl ObjectCursor for RecordedCursor {
    fn visit(&mut self, visit: &mut dyn FnMut(Option<Object>) -> ControlFlow<()>) {
        let Self { objects, tape, place, taken, is_sorted } = self;
        let mut is_over = true;
        objects.visit(&mut |object| {
            if let Some(object) = &object {
                *taken += 1;
                if !*is_sorted {
                    tape.listed(*place, object);
                }
            }
            let flow = visit(object);
            is_over = flow.is_continue();
            flow
        });
        // Where the engine has no room to sort them, it has taken one more than that.
        if is_over || *is_sorted {
            tape.counted(*place, *taken);
        }
    }

    fn remaining(&self, look: &mut dyn FnMut() -> ControlFlow<()>) -> Option<usize> {
        let left = self.objects.remaining(look)?;
        self.tape.counted(self.place, self.taken + left);
        Some(left)
    }

    fn reader(&mut self) -> Option<ObjectReader> {
        self.is_sorted = true;
        let (tape, place) = (Arc::clone(&self.tape), self.place);
        Some(Box::new(move |object| tape.listed(place, object)))
    }
}
