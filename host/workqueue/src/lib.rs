//! Rate-limited work queues as client-go's util/workqueue; depends on nothing of Kubernetes.
//!
//! One type, [`Queue`], is the base queue, the delaying queue and the rate-limiting queue of client-go in one, with
//! the two priority classes of controller-runtime's priority queue. The manager owns one queue per plugin and is its
//! only user: event listeners add keys, workers take them.
//!
//! What the crate promises, whatever the interleaving:
//! - a key is with at most one worker at a time; any number of adds meanwhile give exactly one more run;
//! - an accepted add leads to a run, unless the queue is shut down or the delay is cancelled;
//! - no task, thread or timer exists for a queue at rest: delays are kept by whoever waits in [`Queue::get`].
//!
//! Layout, from the inside out:
//!
//! ```text
//! slots      one entry per known key, intrusive lists          delays     deadlines, a heap of slot numbers
//!    └───────────────┬───────────────────────────────────────────────┘
//! state      the rules, under one mutex                        waiters    who sleeps, whom to wake
//!    └───────────────┬───────────────────────────────────────────────┘
//! shared     mutex + clock + hasher + limiter ── get, drain    the two futures
//! queue      the public handle                                 limiter/   how long a failing key waits
//! parallelize   numbered pieces of work on a few tasks; stands alone
//! ```

mod clock;
mod delays;
mod drain;
mod get;
mod item;
mod limiter;
mod merge;
mod parallelize;
mod priority;
mod queue;
mod shared;
mod slots;
mod state;
mod stats;
mod waiters;

pub use item::Item;
pub use limiter::{
    BucketRateLimiter, ItemExponentialFailureRateLimiter, ItemFastSlowRateLimiter, MaxOfRateLimiter,
    RateLimiter, WithMaxWait, default_controller_rate_limiter,
};
pub use merge::Merge;
pub use parallelize::{PanickedPiece, Parallelized, Pieces, parallelize_until};
pub use priority::Priority;
pub use queue::Queue;
pub use stats::QueueStats;
