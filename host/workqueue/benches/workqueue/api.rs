//! What the scenarios call of the queue, and the keys they call it with. The only file that names the crate's types.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_workqueue as workqueue;
use pilothouse_workqueue::Verdict;
pub(crate) use pilothouse_workqueue::{ItemExponentialFailureRateLimiter, Priority};

/// The text of the host's keys: `namespace/name`.
pub(crate) type Key = Arc<str>;
pub(crate) type Queue = workqueue::Queue<Key>;
pub(crate) type Item = workqueue::Item<Key>;

/// What an add has that says nothing of it.
pub(crate) const NORMAL: Priority = Priority::NORMAL;

/// Three that are used in turn; the peer has -100, 0 and 10.
pub(crate) const PRIORITIES: [Priority; 3] = [Priority(-100), Priority(0), Priority(10)];

/// A queue without a name: nobody asks for its metrics.
pub(crate) fn unnamed() -> Queue {
    Queue::new()
}

/// A queue whose metrics are kept.
pub(crate) fn named() -> Queue {
    Queue::builder().name("bench").build()
}

/// A queue whose keys wait for `base` at their first failure.
pub(crate) fn limited(base: Duration) -> Queue {
    Queue::with_rate_limiter(limiter(base))
}

/// As the peers' of controllers, with this base.
fn limiter(base: Duration) -> ItemExponentialFailureRateLimiter {
    ItemExponentialFailureRateLimiter::new(base, Duration::from_secs(1000))
}

/// Gives a key back.
#[inline]
pub(crate) fn done(queue: &Queue, item: Item) {
    queue.done(item);
}

/// Gives a key back, and forgets its failures.
pub(crate) fn forget_and_done(queue: &Queue, mut item: Item) {
    queue.finish(&mut item, Verdict::Done);
}

/// Adds keys that come together.
pub(crate) fn add_batch(queue: &Queue, keys: &[Key]) {
    queue.add_batch(keys.iter().map(|key| (Arc::clone(key), (), NORMAL)));
}

/// Gives keys back together.
pub(crate) fn done_batch(queue: &Queue, items: impl IntoIterator<Item = Item>) {
    queue.done_batch(items);
}

/// So many keys, each named after its number.
pub(crate) fn keys(count: usize) -> Arc<[Key]> {
    (0..count).map(|n| Key::from(format!("namespace-{}/object-{n}", n % 100))).collect()
}

/// The number of a key.
pub(crate) fn number(key: &Key) -> usize {
    let (mut number, mut unit) = (0, 1);
    for digit in key.bytes().rev().take_while(u8::is_ascii_digit) {
        number += usize::from(digit - b'0') * unit;
        unit *= 10;
    }
    number
}
