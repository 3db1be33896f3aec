//! What the tests of any crate need: guests built to components, child processes, waits with a deadline, a small HTTP client.
//!
//! Invariants: no crate of the host is a dependency, so a test that needs a guest compiles neither the manager nor the
//! development server; everything is blocking and works inside and outside of any tokio runtime; nothing that was started
//! outlives the test process; nothing waits by sleeping, only by polling with a deadline ([`poll`]).

pub mod cargo;
pub mod documents;
pub mod full;
pub mod guests;
pub mod http;
pub mod paths;
pub mod poll;
pub mod process;
pub mod skip;
pub mod tools;

pub use rustix::process::Signal;
