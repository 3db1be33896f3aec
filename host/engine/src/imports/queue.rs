//! The `queue` interface: the plugin's own work queue.

use std::time::Duration;

use pilothouse_object::ObjectKey as Key;

use super::{Refused, check_cluster, key};
use crate::bindings::pilothouse::controller::queue::{Host, ObjectKey};
use crate::error::OverLimit;
use crate::imports::ImportCall;
use crate::state::StoreState;

/// Most keys that one call adds.
const MAX_KEYS: usize = 16_384;

/// Longest delay of a key.
pub(crate) const MAX_DELAY: Duration = Duration::from_secs(365 * 24 * 3600);

/// Checks a key, and that the queue has room for it.
fn key_to_add(state: &StoreState, cluster: u32, k: &ObjectKey) -> Result<Key, Refused> {
    check_cluster(cluster)?;
    let key = key(&k.namespace, &k.name)?;
    state.host.queue_room(std::slice::from_ref(&key))?;
    Ok(key)
}

impl Host for ImportCall<'_> {
    fn add(&mut self, cluster: u32, k: ObjectKey, priority: i32) -> Result<(), Refused> {
        let key = key_to_add(self, cluster, &k)?;
        self.host.queue_add(vec![key], priority);
        Ok(())
    }

    fn add_many(&mut self, cluster: u32, keys: Vec<ObjectKey>, priority: i32) -> Result<(), Refused> {
        check_cluster(cluster)?;
        if keys.len() > MAX_KEYS {
            return Err(OverLimit::new(format_args!(
                "add-many was called with {} keys, at most {MAX_KEYS} are allowed: make several calls",
                keys.len()
            ))
            .into());
        }
        let keys: Vec<Key> = keys.iter().map(|k| key(&k.namespace, &k.name)).collect::<Result<_, _>>()?;
        self.host.queue_room(&keys)?;
        self.host.queue_add(keys, priority);
        Ok(())
    }

    fn add_after(&mut self, cluster: u32, k: ObjectKey, milliseconds: u64) -> Result<(), Refused> {
        let key = key_to_add(self, cluster, &k)?;
        self.host.queue_add_after(key, Duration::from_millis(milliseconds).min(MAX_DELAY));
        Ok(())
    }

    fn add_rate_limited(&mut self, cluster: u32, k: ObjectKey) -> Result<(), Refused> {
        let key = key_to_add(self, cluster, &k)?;
        self.host.queue_add_rate_limited(key);
        Ok(())
    }

    fn forget(&mut self, cluster: u32, k: ObjectKey) -> Result<(), Refused> {
        check_cluster(cluster)?;
        self.host.queue_forget(&key(&k.namespace, &k.name)?);
        Ok(())
    }

    fn num_requeues(&mut self, cluster: u32, k: ObjectKey) -> wasmtime::Result<u32> {
        let key = check_cluster(cluster).and_then(|()| key(&k.namespace, &k.name));
        Ok(key.map_or(0, |key| self.host.queue_num_requeues(&key)))
    }

    fn len(&mut self) -> wasmtime::Result<u32> {
        Ok(u32::try_from(self.host.queue_len()).unwrap_or(u32::MAX))
    }
}
