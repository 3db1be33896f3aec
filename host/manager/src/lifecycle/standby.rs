//! The task of a plugin on a standby: it keeps tombstones bounded, and begins to fill the queue when the term of the host begins.

use std::sync::Arc;

use tokio::runtime::Handle;

use crate::dispatch::tombstones::RotationSchedule;
use crate::lifecycle::plugin::Plugin;

/// How many times in the lifetime of a tombstone the task looks for a leader at work.
const LOOKS_PER_LIFETIME: u32 = 8;

/// Rotates tombstones until the host is elected, then queues the tombstones and the keys of all cached objects.
pub(crate) async fn stand_by(plugin: Arc<Plugin>, work: Handle) {
    let election = plugin.election();
    let lifetime = election.tombstone_lifetime();
    let mut rotation = RotationSchedule::new(lifetime);
    loop {
        tokio::select! {
            biased;
            () = plugin.stopping().cancelled() => return,
            () = election.wait_until_elected() => break,
            () = tokio::time::sleep(lifetime / LOOKS_PER_LIFETIME) => {
                plugin.rotate_tombstones(rotation.is_due(election.leader_at_work()));
            }
        }
    }
    // Not on a thread for each plugin: there may be a thousand.
    let _ = work.spawn(async move { plugin.begin_term() }).await;
}
