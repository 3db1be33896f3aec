//! The generated traits of a guest's imports, implemented on [`HostImports`](crate::HostImports): one file per interface.

mod reading;
mod resources;
mod scan;
mod sorted;
pub(crate) mod v0_2;

use std::ops::{Deref, DerefMut};

use wasmtime::component::HasData;

pub(crate) use self::resources::Kept;
#[expect(unreachable_pub, reason = "the generated bindings re-export them")]
pub use self::resources::{Cursor, Kind, Metric, NewEvent, Options, Page, Query, Values};
use crate::error::OverLimit;
use crate::state::StoreState;

/// A call of an import: the state of the guest's store. The time until it is dropped is the host's.
pub(crate) struct ImportCall<'a>(&'a mut StoreState);

/// A guest calls an import.
fn import_call(state: &mut StoreState) -> ImportCall<'_> {
    state.budget.import_begins();
    ImportCall(state)
}

impl Drop for ImportCall<'_> {
    fn drop(&mut self) {
        self.0.budget.import_ends();
    }
}

impl Deref for ImportCall<'_> {
    type Target = StoreState;

    fn deref(&self) -> &StoreState {
        self.0
    }
}

impl DerefMut for ImportCall<'_> {
    fn deref_mut(&mut self) -> &mut StoreState {
        self.0
    }
}

/// What the generated bindings call: [`ImportCall`].
struct ImportCalls;

impl HasData for ImportCalls {
    type Data<'a> = ImportCall<'a>;
}

/// Counts the bytes that one call of an import answers, against `limits.answerBytes`: the guest chooses how much it asks
/// for, and the host holds the answer until it is copied.
struct Answer {
    import: &'static str,
    bytes: usize,
    max: usize,
}

impl Answer {
    fn new(import: &'static str, max: usize) -> Self {
        Self { import, bytes: 0, max }
    }

    /// Adds a part of the answer; an error when the answer becomes too large.
    fn add(&mut self, bytes: usize) -> Result<(), OverLimit> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes <= self.max {
            return Ok(());
        }
        Err(OverLimit::new(format_args!(
            "the answer of {} exceeds {} bytes (limits.answerBytes): ask for less at a time, or raise the limit",
            self.import, self.max
        )))
    }
}
