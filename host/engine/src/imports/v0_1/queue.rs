//! The `queue` interface: the plugin's own work queue. An invalid key traps, because it is a bug of the guest. Adding a
//! key to a full queue traps too.

use std::time::Duration;

use super::key;
use crate::bindings::v0_1::pilothouse::controller::queue::{Host, ObjectKey};
use crate::error::OverLimit;
use crate::imports::ImportCall;
use crate::state::StoreState;

impl StoreState {
    /// Converts a key and checks that the queue has room for it.
    fn key_to_add(&self, k: &ObjectKey) -> wasmtime::Result<pilothouse_object::ObjectKey> {
        let key = key(k)?;
        self.host
            .queue_room(std::slice::from_ref(&key))
            .map_err(|refusal| OverLimit::new(refusal.message))?;
        Ok(key)
    }
}

impl Host for ImportCall<'_> {
    fn add(&mut self, k: ObjectKey) -> wasmtime::Result<()> {
        self.host.queue_add(vec![self.key_to_add(&k)?], 0);
        Ok(())
    }

    fn add_after(&mut self, k: ObjectKey, milliseconds: u64) -> wasmtime::Result<()> {
        self.host.queue_add_after(self.key_to_add(&k)?, Duration::from_millis(milliseconds));
        Ok(())
    }

    fn add_rate_limited(&mut self, k: ObjectKey) -> wasmtime::Result<()> {
        self.host.queue_add_rate_limited(self.key_to_add(&k)?);
        Ok(())
    }

    fn forget(&mut self, k: ObjectKey) -> wasmtime::Result<()> {
        self.host.queue_forget(&key(&k)?);
        Ok(())
    }

    fn num_requeues(&mut self, k: ObjectKey) -> wasmtime::Result<u32> {
        Ok(self.host.queue_num_requeues(&key(&k)?))
    }

    fn len(&mut self) -> wasmtime::Result<u32> {
        Ok(u32::try_from(self.host.queue_len()).unwrap_or(u32::MAX))
    }
}
