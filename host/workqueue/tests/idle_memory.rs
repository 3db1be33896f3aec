//! What an idle queue holds on the heap, measured with an allocator that counts.
//!
//! One test only, since the count is that of the process.
#![allow(unsafe_code, reason = "an allocator cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pilothouse_workqueue::{Priority, Queue};

/// Counts the bytes that are allocated and not freed.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator with the same arguments; counting touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`, which is the system allocator's as well.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the pointer came from `System.alloc` with this layout, since `alloc` above is the only source.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn held() -> usize {
    HELD.load(Ordering::Relaxed)
}

#[test]
fn an_idle_queue_holds_less_than_a_kibibyte_before_and_after_a_burst() {
    let keys: Vec<Arc<str>> = (0..20_000).map(|n| Arc::from(format!("namespace/name-{n}"))).collect();
    let before = held();
    let queue: Queue<Arc<str>> = Queue::new();
    let new = held() - before;
    assert!(new < 1024, "a new queue holds {new} bytes");

    for key in &keys {
        queue.add(Arc::clone(key));
        queue.add_after(Arc::clone(key), (), Priority::NORMAL, Duration::from_secs(3600));
        queue.add_rate_limited(Arc::clone(key), (), Priority::LOW);
    }
    let full = (held() - before) / keys.len();
    assert!(full < 250, "a key that is queued, delayed and failing costs {full} bytes");

    queue.expedite_all(|_| true);
    while let Some(item) = queue.try_get() {
        queue.done(&item);
        queue.forget(&item.key);
    }
    let idle = held() - before;
    assert!(idle < 1024, "a queue that was full holds {idle} bytes");

    // One key that stays does not keep the room of the many that went.
    for key in &keys {
        queue.add(Arc::clone(key));
    }
    queue.add_after(Arc::clone(&keys[0]), (), Priority::NORMAL, Duration::from_secs(3600));
    while let Some(item) = queue.try_get() {
        queue.done(&item);
    }
    let nearly_idle = held() - before;
    assert!(nearly_idle < 16 * 1024, "a queue with one delayed key holds {nearly_idle} bytes");
    assert_eq!(black_box(&queue).len_delayed(), 1);
    print_sizes(new, full, idle, nearly_idle);
}

#[allow(clippy::print_stdout, reason = "shown with --nocapture, to follow the figures")]
fn print_sizes(new: usize, full: usize, idle: usize, nearly_idle: usize) {
    println!("new {new} B, full {full} B a key, idle after a burst {idle} B, one key left {nearly_idle} B");
}
