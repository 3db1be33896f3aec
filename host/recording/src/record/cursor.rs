//! [`RecordedCursor`]: a snapshot of objects, of which those are written down that the guest reads, as far as it reads them.

use std::ops::ControlFlow;
use std::sync::Arc;

use pilothouse_engine::{Listed, ObjectCursor, ObjectReader};
use pilothouse_object::{Object, ObjectKey};

use super::tape::{Place, Tape};

pub(super) struct RecordedCursor {
    objects: Box<dyn ObjectCursor>,
    taken: Taken,
}

/// What was taken from a snapshot.
struct Taken {
    tape: Arc<Tape>,
    place: Option<Place>,
    count: usize,
    /// The engine takes all to sort them, and tells of those that the guest reads.
    is_sorted: bool,
}

impl RecordedCursor {
    pub(super) fn new(objects: Box<dyn ObjectCursor>, tape: Arc<Tape>, place: Option<Place>) -> Self {
        Self { objects, taken: Taken { tape, place, count: 0, is_sorted: false } }
    }
}

impl Taken {
    fn add(&mut self, listed: Option<Listed<'_>>) {
        if let Some(listed) = listed {
            self.count += 1;
            if !self.is_sorted {
                self.tape.listed(self.place, listed);
            }
        }
    }

    /// A visit ended: `last` is what the visitor said last.
    fn visited(&self, last: ControlFlow<()>) {
        // Where the engine has no room to sort them, it has taken one more than that.
        if last.is_continue() || self.is_sorted {
            self.tape.counted(self.place, self.count);
        }
    }
}

impl ObjectCursor for RecordedCursor {
    fn visit(&mut self, visit: &mut dyn FnMut(Option<Object>) -> ControlFlow<()>) {
        let Self { objects, taken } = self;
        let mut last = ControlFlow::Continue(());
        objects.visit(&mut |object| {
            taken.add(object.as_ref().map(Listed::Object));
            last = visit(object);
            last
        });
        taken.visited(last);
    }

    fn visit_keys(&mut self, visit: &mut dyn FnMut(Option<&ObjectKey>) -> ControlFlow<()>) {
        let Self { objects, taken } = self;
        let mut last = ControlFlow::Continue(());
        objects.visit_keys(&mut |key| {
            taken.add(key.map(Listed::Key));
            last = visit(key);
            last
        });
        taken.visited(last);
    }

    fn remaining(&self, look: &mut dyn FnMut() -> ControlFlow<()>) -> Option<usize> {
        let left = self.objects.remaining(look)?;
        self.taken.tape.counted(self.taken.place, self.taken.count + left);
        Some(left)
    }

    fn reader(&mut self) -> Option<ObjectReader> {
        self.taken.is_sorted = true;
        let (tape, place) = (Arc::clone(&self.taken.tape), self.taken.place);
        Some(Box::new(move |listed| tape.listed(place, listed)))
    }
}
