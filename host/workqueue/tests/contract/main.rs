//! The contract of the queue, a test per rule, each named after its rule.
//!
//! Time is paused in all tests that see it: nothing here sleeps to wait for another thread.

mod base;
mod batches;
mod delaying;
mod finish;
mod foreign_code;
mod helpers;
mod limiters;
mod priority;
mod rate_limiting;
mod shutdown;
mod stats;
mod timekeeper;
