//! [`WriteRoom`]: what the writes of a plugin that are under way may keep in memory together.
//!
//! A write goes on when the call that made it is cut. Where a server hangs, short calls would leave one body after the other until
//! their requests time out. Beyond the bound a write waits in its call, whose deadline is that of the guest, and is not begun.

use std::sync::Arc;

use pilothouse_engine::ClientVerb;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes of all bodies together: twenty of the largest.
const MOST_BYTES: usize = 64 << 20;
/// Bytes that are counted together, and those of a write beside its body.
const UNIT: usize = 4 << 10;

/// The room of one plugin, for all clusters; a cheap clone.
#[derive(Clone)]
pub(crate) struct WriteRoom(Arc<Semaphore>);

impl Default for WriteRoom {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST_BYTES / UNIT)))
    }
}

impl WriteRoom {
    /// Waits until there is room for a write, which takes it until the permit is dropped. Cancel-safe.
    pub(super) async fn enter(&self, verb: &ClientVerb) -> Option<OwnedSemaphorePermit> {
        let body = match verb {
            ClientVerb::Create(body) | ClientVerb::Update(body) | ClientVerb::Patch { body, .. } => {
                body.len()
            }
            _ => 0,
        };
        let units = (1 + body / UNIT).min(MOST_BYTES / UNIT);
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        // The semaphore is never closed.
        Arc::clone(&self.0).acquire_many_owned(units).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn bodies_under_way_are_bounded_and_the_next_comes_when_one_has_ended() {
        let room = WriteRoom::default();
        let of = |bytes: usize| ClientVerb::Create(vec![b' '; bytes]);
        let large = of(3 << 20);
        let mut held = Vec::new();
        while let Some(permit) = room.enter(&large).now_or_never() {
            held.push(permit.unwrap());
        }
        assert_eq!(held.len(), 21);
        held.pop();
        assert!(room.enter(&large).now_or_never().is_some());
        held.clear();
        // A body larger than the room takes all of it, instead of waiting without an end.
        let _all = room.enter(&of(MOST_BYTES + 1)).now_or_never().unwrap();
        assert!(room.enter(&of(0)).now_or_never().is_none());
    }
}
