//! [`GuestMemory`]: the linear memories of all instances of an engine, reserved before they grow.
//!
//! Invariants: `used` is the sum of what live instances have reserved, and never above the bound; an instance reserves before
//! its memory grows, also during a call, and releases when it is dropped. The last eighth of the bound is for instances of
//! at most [`SMALL`] bytes: a plugin whose instances grow large leaves others room to run.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

/// Size of an instance that may use the last part of the bound: what a guest of `pilothouse-sdk` has in its first calls.
const SMALL: u64 = 4 << 20;

/// Drops an idle instance, if all idle ones together have so many bytes.
type MakeRoom = Box<dyn Fn(u64) -> bool + Send + Sync>;

/// Why an instance gets no more memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoMemory {
    /// It would have more than one instance may have, also if it were the only one: these bytes.
    TooLarge(u64),
    /// Others have it.
    Full,
}

/// The account of the memory of all instances of an engine. Without a bound until one is set.
pub struct GuestMemory {
    used: AtomicU64,
    bound: AtomicU64,
    make_room: Mutex<Option<MakeRoom>>,
}

impl Default for GuestMemory {
    fn default() -> Self {
        Self { used: AtomicU64::new(0), bound: AtomicU64::new(u64::MAX), make_room: Mutex::new(None) }
    }
}

impl std::fmt::Debug for GuestMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GuestMemory")
            .field("used", &self.used)
            .field("bound", &self.bound)
            .finish_non_exhaustive()
    }
}

impl GuestMemory {
    /// Sets the bytes that all instances together may have, and what drops an idle instance to make room for so many bytes: `true`
    /// if it dropped one. It is called while a guest runs, on the thread of that guest.
    pub fn set_bound(&self, bytes: u64, make_room: impl Fn(u64) -> bool + Send + Sync + 'static) {
        *self.make_room.lock() = Some(Box::new(make_room));
        self.bound.store(bytes, Relaxed);
    }

    /// The bytes that all instances together may have.
    #[must_use]
    pub fn bound(&self) -> u64 {
        self.bound.load(Relaxed)
    }

    /// The bytes that all instances together have.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Reserves bytes for an instance that then has `size`. Idle instances go when that makes enough room.
    pub(crate) fn reserve(&self, bytes: u64, size: u64) -> Result<(), NoMemory> {
        loop {
            let bound = self.bound();
            let most = if size <= SMALL { bound } else { bound - bound / 8 };
            if size > most {
                return Err(NoMemory::TooLarge(most));
            }
            let add = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= most);
            let Err(used) = self.used.fetch_update(Relaxed, Relaxed, add) else { return Ok(()) };
            let missing = used.saturating_add(bytes) - most;
            // One at a time: what another thread drops may be room enough.
            if !self.make_room.lock().as_ref().is_some_and(|make_room| make_room(missing)) {
                return Err(NoMemory::Full);
            }
        }
    }

    pub(crate) fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn instances_together_never_have_more_than_the_bound() {
        let memory = GuestMemory::default();
        assert_eq!(memory.reserve(1 << 40, 1 << 40), Ok(()), "there is no bound yet");
        memory.release(1 << 40);
        memory.set_bound(64 * MIB, |_| false);
        assert_eq!(memory.reserve(57 * MIB, 57 * MIB), Err(NoMemory::TooLarge(56 * MIB)));
        assert_eq!(memory.reserve(40 * MIB, 40 * MIB), Ok(()));
        assert_eq!(
            memory.reserve(20 * MIB, 20 * MIB),
            Err(NoMemory::Full),
            "the rest is for small instances"
        );
        for _ in 0..6 {
            assert_eq!(memory.reserve(4 * MIB, 4 * MIB), Ok(()));
        }
        assert_eq!(memory.reserve(1, 1), Err(NoMemory::Full));
        memory.release(1);
        assert_eq!(memory.reserve(1, 1), Ok(()));
        assert_eq!(memory.used(), 64 * MIB);
    }

    #[test]
    fn idle_instances_go_before_growth_is_refused_unless_that_makes_no_room() {
        let memory = Arc::new(GuestMemory::default());
        let (idle, account) = (AtomicU64::new(3), Arc::downgrade(&memory));
        memory.set_bound(8 * MIB, move |bytes| {
            let enough = |idle: u64| (idle > 0 && idle * 2 * MIB >= bytes).then(|| idle - 1);
            let dropped = idle.fetch_update(Relaxed, Relaxed, enough).is_ok();
            account.upgrade().unwrap().release(if dropped { 2 * MIB } else { 0 });
            dropped
        });
        assert_eq!(memory.reserve(6 * MIB, 2 * MIB), Ok(()));
        assert_eq!(memory.reserve(4 * MIB, 4 * MIB), Ok(()), "one idle instance goes");
        assert_eq!(memory.used(), 8 * MIB);
        assert_eq!(memory.reserve(5 * MIB, 4 * MIB), Err(NoMemory::Full), "the two others have four");
        assert_eq!(memory.used(), 8 * MIB, "and stay");
        assert_eq!(memory.reserve(4 * MIB, 4 * MIB), Ok(()));
        assert_eq!(memory.reserve(MIB, MIB), Err(NoMemory::Full), "none is left");
    }
}
