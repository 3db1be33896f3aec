//! [`Scan`]: a loop of the host over what a guest asked for, charged to the CPU budget of its call.

use std::ops::ControlFlow;

use crate::budget::{Budget, used_up};
use crate::host::ObjectCursor;

/// How many entries are looked at between two looks at the CPU budget.
const CHECK_EVERY: usize = 1024;

/// Looks at the CPU budget now and then, since no tick comes while an import runs.
pub(super) struct Scan<'a> {
    budget: &'a Budget,
    looked: usize,
    is_over: bool,
}

impl<'a> Scan<'a> {
    pub(super) fn new(budget: &'a Budget) -> Self {
        Self { budget, looked: 0, is_over: false }
    }

    /// An entry is looked at; breaks when the budget is used up.
    pub(super) fn look(&mut self) -> ControlFlow<()> {
        self.looked += 1;
        self.is_over = self.looked.is_multiple_of(CHECK_EVERY) && !self.budget.has_left();
        if self.is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// The error of a scan that [`look`](Self::look) ended.
    pub(super) fn end(self) -> wasmtime::Result<()> {
        if self.is_over { Err(used_up()) } else { Ok(()) }
    }
}

/// The number of objects that a cursor has left.
pub(super) fn remaining(objects: &dyn ObjectCursor, budget: &Budget) -> wasmtime::Result<usize> {
    let mut scan = Scan::new(budget);
    objects.remaining(&mut || scan.look()).ok_or_else(used_up)
}

/// The next entries of a cursor, at most `most`; `visit` goes through them.
pub(super) fn portion<T>(
    most: usize,
    budget: &Budget,
    visit: impl FnOnce(&mut dyn FnMut(Option<T>) -> ControlFlow<()>),
) -> wasmtime::Result<Vec<T>> {
    let mut portion = Vec::new();
    let mut scan = Scan::new(budget);
    if most > 0 {
        visit(&mut |entry| {
            portion.extend(entry);
            if portion.len() == most { ControlFlow::Break(()) } else { scan.look() }
        });
    }
    scan.end()?;
    Ok(portion)
}
