//! [`CountingAllocator`]: what a test holds on the heap, counted for each thread by itself.
#![allow(unsafe_code, reason = "an allocator cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, with counters. Make it the `#[global_allocator]` of a test.
#[derive(Debug)]
pub struct CountingAllocator;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    let held = HELD.get() + bytes;
    HELD.set(held);
    PEAK.set(PEAK.get().max(held));
}

// SAFETY: every call goes to the system's allocator with the same arguments; counting touches no memory of it and allocates
// nothing.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller keeps the contract of `alloc`, which is the system allocator's as well.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: the pointer came from `System.alloc` with this layout, since `alloc` above is the only source.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// The bytes that this thread holds, if the [`CountingAllocator`] is that of the process.
pub fn held() -> isize {
    HELD.get()
}

/// Does something; its outcome, the bytes that this thread holds more after it, and the most that it held more meanwhile.
pub fn measure<T>(work: impl FnOnce() -> T) -> (T, usize, usize) {
    let before = held();
    PEAK.set(before);
    let outcome = work();
    let more = |bytes: isize| usize::try_from(bytes - before).unwrap_or(0);
    (outcome, more(held()), more(PEAK.get()))
}
