//! [`SharedCode`]: machine code of the compile cache that is mapped and linked once, however many plugins run it.
//!
//! Nothing that is shared belongs to a plugin: there is one linker for all, and imports, grants and limits are in the store
//! of each instance. Components that differ in custom sections alone have the same machine code and share it, too.
//!
//! Invariants: code is mapped while a [`Code`](super::Code) or a call that begins holds its [`Linked`], and at most once;
//! a caller that finds it being mapped waits until it is.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::Linked;
use crate::error::LoadError;

/// The machine code in use, by its sum.
#[derive(Default)]
pub(crate) struct CodeTable(Mutex<HashMap<String, Weak<SharedCode>>>);

/// Machine code of the compile cache.
pub(super) struct SharedCode {
    /// The SHA-256 of the machine code: its name in the compile cache.
    sum: String,
    linked: Mutex<Weak<Linked>>,
}

impl CodeTable {
    /// The machine code with this sum.
    pub(super) fn of(&self, sum: String) -> Arc<SharedCode> {
        let mut table = self.0.lock();
        if let Some(code) = table.get(&sum).and_then(Weak::upgrade) {
            return code;
        }
        if table.len() == table.capacity() {
            table.retain(|_, code| code.strong_count() > 0);
        }
        let code = Arc::new(SharedCode { sum: sum.clone(), linked: Mutex::default() });
        table.insert(sum, Arc::downgrade(&code));
        code
    }
}

impl SharedCode {
    /// The mapped code; `map` makes it from the sum if nobody has it.
    pub(super) fn linked(
        &self,
        map: impl FnOnce(&str) -> Result<Linked, LoadError>,
    ) -> Result<Arc<Linked>, LoadError> {
        let mut linked = self.linked.lock();
        if let Some(linked) = linked.upgrade() {
            return Ok(linked);
        }
        let mapped = Arc::new(map(&self.sum)?);
        *linked = Arc::downgrade(&mapped);
        Ok(mapped)
    }

    /// Drops the share of one user; the mapping goes with the last.
    pub(super) fn release(&self, share: Arc<Linked>) {
        let mut linked = self.linked.lock();
        drop(share);
        if linked.strong_count() == 0 {
            // Its place in memory goes with the last weak reference.
            *linked = Weak::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_forgets_code_that_nobody_uses() {
        let table = CodeTable::default();
        let kept = table.of("kept".to_owned());
        for n in 0..1000 {
            table.of(n.to_string());
        }
        assert!(table.0.lock().len() < 100);
        assert!(Arc::ptr_eq(&kept, &table.of("kept".to_owned())));
    }
}
