//! [`ReplayedCursor`]: the objects that a guest read from a list then.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use pilothouse_engine::ObjectCursor;
use pilothouse_object::Object;
use serde_json::Value;

use super::tape::{Place, ReplayTape};
use crate::values::Back as _;

pub(super) struct ReplayedCursor {
    objects: VecDeque<Object>,
    /// How many there were beyond those.
    unread: usize,
    tape: Arc<ReplayTape>,
    place: Place,
}

impl ReplayedCursor {
    pub(super) fn new(answer: &Value, tape: Arc<ReplayTape>, place: Place) -> Option<Self> {
        let objects = answer.get("objects")?.as_array()?;
        let objects: VecDeque<Object> = objects.iter().map(Object::back).collect::<Option<_>>()?;
        let total = answer.get("total").and_then(Value::as_u64);
        let total = total.and_then(|total| usize::try_from(total).ok()).unwrap_or(objects.len());
        let unread = total.saturating_sub(objects.len());
        Some(Self { objects, unread, tape, place })
    }
}

impl ObjectCursor for ReplayedCursor {
    fn visit(&mut self, visit: &mut dyn FnMut(Option<Object>) -> ControlFlow<()>) {
        while let Some(object) = self.objects.pop_front() {
            if visit(Some(object)).is_break() {
                return;
            }
        }
        if self.unread > 0 {
            self.unread = 0;
            self.tape.beyond(self.place, "reads further in the list than the recording has it");
        }
    }

    fn remaining(&self, _: &mut dyn FnMut() -> ControlFlow<()>) -> Option<usize> {
        Some(self.objects.len() + self.unread)
    }

    fn is_in_order(&self) -> bool {
        true
    }
}
