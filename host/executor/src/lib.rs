//! An executor whose threads share their CPU time fairly among groups of tasks.
//!
//! The host runs all guest code on one [`Executor`]. Each plugin is a [`Group`]. A thread polls the next task of the group
//! that has used the least CPU time, so a plugin that computes without end gets its share and no more. One group never
//! occupies all threads. Nothing in this crate knows of guests.
//!
//! ```text
//! fair_queue   which group is next; no lock, no clock, no thread
//!    └── executor   groups, the mutex around the queue, threads that sleep
//!          ├── thread   a thread: take, poll, charge
//!          └── driver   the same as a task of a tokio runtime, for tests on a paused clock
//! join_handle  the result of a task           slice   yields of tasks that find work again and again
//! ```

mod driver;
mod executor;
mod fair_queue;
mod join_handle;
mod slice;
mod sync;
mod thread;

pub use executor::{Executor, Group, Threads};
pub use join_handle::{AbortOnDrop, JoinHandle};
pub use slice::{yield_after_slice, yield_after_slice_at};
