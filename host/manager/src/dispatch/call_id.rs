//! Numbers of calls, for logs.
//!
//! Invariant: no number is handed out twice. Each thread takes a block of them, so that threads do not write to one cache
//! line for each call; numbers of different threads therefore do not rise with time.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Numbers of a block.
const BLOCK: u64 = 1024;

/// The first number of the next block. 0 stands for no call.
static NEXT_BLOCK: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// The next number of this thread, and how many of its block are left.
    static BLOCK_LEFT: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// The number of a new call.
pub(crate) fn next_call_id() -> u64 {
    let (next, left) = match BLOCK_LEFT.get() {
        (_, 0) => (NEXT_BLOCK.fetch_add(BLOCK, Relaxed), BLOCK),
        own => own,
    };
    BLOCK_LEFT.set((next + 1, left - 1));
    next
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::thread;

    use super::*;

    #[test]
    fn no_number_is_handed_out_twice_and_none_is_zero() {
        const CALLS: usize = 3 * BLOCK as usize;
        let of_thread = || (0..CALLS).map(|_| next_call_id()).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| thread::spawn(of_thread)).collect();
        let numbers: BTreeSet<u64> =
            threads.into_iter().flat_map(|thread| thread.join().expect("it only counts")).collect();
        assert_eq!(numbers.len(), 4 * CALLS);
        assert!(!numbers.contains(&0));
    }
}
