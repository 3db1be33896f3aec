//! Discovery: what is asked of the server, what is kept in memory and in files, and what names it is found by.

mod client;
mod disk;
mod lookups;
mod mapper;
mod memory;
mod surface;

use std::time::Duration;

/// Moves the clock, with no traffic under way.
async fn later(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}
