//! Rate-limited work queues as client-go's util/workqueue; depends on nothing of Kubernetes.
//!
//! One type, [`Queue`], is the base queue, the delaying queue and the rate-limiting queue of client-go in one, with
//! the priorities of controller-runtime's priority queue; a [`Timekeeper`] and hooks serve many queues that no worker
//! waits for. The manager owns one queue per plugin: event listeners add keys, workers take them.
//!
//! Guarantees under every interleaving:
//! - a key is with at most one worker at a time; any number of adds meanwhile give exactly one more run;
//! - an accepted add leads to a run, unless the queue is shut down or the delay is cancelled;
//! - no task, thread or timer exists for a queue at rest: a worker that waits in [`Queue::get`], or one timekeeper for all
//!   queues, keeps the time.
//!
//! Layout, from the inside out:
//!
//! ```text
//! chunks     a vector that does not move                    table     slot numbers by hash
//! slots      one slot per known key, intrusive lists        wheel     deadlines, a timing wheel
//! classes    ready keys by priority                         limiter/  how long a failing key waits
//!    └───────────────┬───────────────────────────────────────────────────┘
//! state/     the rules, under one mutex                     waiters   sleeping futures, wake-ups
//!    └───────────────┬──────────────────────────────────────────┘
//! shared     mutex + clock + hasher ── get, drain the two futures
//! queue      the public handle, made by builder
//!    └── timekeeper   deadlines of many queues, hooks that start workers
//! ```

mod add_options;
mod builder;
mod chunks;
mod classes;
mod clock;
mod drain;
mod get;
mod histogram;
mod item;
mod limiter;
mod merge;
mod priority;
mod queue;
mod shared;
mod sleepers;
mod slots;
mod state;
mod stats;
mod sync;
mod table;
mod timekeeper;
mod verdict;
mod waiters;
mod wheel;
mod worker_count;

pub use add_options::AddOptions;
pub use builder::QueueBuilder;
pub use histogram::Histogram;
pub use item::Item;
pub use limiter::{
    BucketRateLimiter, ItemExponentialFailureRateLimiter, ItemFastSlowRateLimiter, MaxOfRateLimiter,
    RateLimiter, WithMaxWait, default_controller_rate_limiter, default_item_based_rate_limiter,
};
pub use merge::Merge;
pub use priority::Priority;
pub use queue::Queue;
pub use stats::QueueStats;
pub use timekeeper::{QueueHook, Timekeeper};
pub use verdict::Verdict;
pub use worker_count::WorkerCount;
