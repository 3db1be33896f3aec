//! [`ReplayedCursor`]: the objects that a guest read from a list then.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use pilothouse_engine::ObjectCursor;
use pilothouse_object::{Object, ObjectKey};
use serde_json::Value;

use super::tape::{Place, ReplayTape};
use crate::values::{Back as _, OwnListed};

pub(super) struct ReplayedCursor {
    objects: VecDeque<OwnListed>,
    /// How many there were beyond those.
    unread: usize,
    tape: Arc<ReplayTape>,
    place: Place,
}

impl ReplayedCursor {
    pub(super) fn new(answer: &Value, tape: Arc<ReplayTape>, place: Place) -> Option<Self> {
        let objects = answer.get("objects")?.as_array()?;
        let objects: VecDeque<OwnListed> = objects.iter().map(OwnListed::back).collect::<Option<_>>()?;
        let total = answer.get("total").and_then(Value::as_u64);
        let total = total.and_then(|total| usize::try_from(total).ok()).unwrap_or(objects.len());
        let unread = total.saturating_sub(objects.len());
        Some(Self { objects, unread, tape, place })
    }

    /// The guest has got all that the recording has for it.
    fn end(&mut self, beyond: &'static str) {
        self.objects.clear();
        self.unread = 0;
        self.tape.beyond(self.place, beyond);
    }

    fn end_unless_all_was_read(&mut self) {
        if self.unread > 0 {
            self.end("reads further in the list than the recording has it");
        }
    }
}

impl ObjectCursor for ReplayedCursor {
    fn visit(&mut self, visit: &mut dyn FnMut(Option<Object>) -> ControlFlow<()>) {
        while let Some(listed) = self.objects.pop_front() {
            let OwnListed::Object(object) = listed else {
                return self.end("reads an object of the list, of which the recording has the key alone");
            };
            if visit(Some(object)).is_break() {
                return;
            }
        }
        self.end_unless_all_was_read();
    }

    fn visit_keys(&mut self, visit: &mut dyn FnMut(Option<&ObjectKey>) -> ControlFlow<()>) {
        while let Some(listed) = self.objects.pop_front() {
            if visit(Some(listed.key())).is_break() {
                return;
            }
        }
        self.end_unless_all_was_read();
    }

    fn remaining(&self, _: &mut dyn FnMut() -> ControlFlow<()>) -> Option<usize> {
        Some(self.objects.len() + self.unread)
    }

    fn is_in_order(&self) -> bool {
        true
    }
}
