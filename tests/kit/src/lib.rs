//! Test helpers without a dependency on the host: building guests in Rust and in other languages, child processes, waits
//! with a deadline, a small HTTP client, counted allocations, the log of a thread, and the code blocks of the documents.
//!
//! Invariants: no crate of the host is a dependency, so a test that needs a guest compiles neither the manager nor the
//! development server; all functions block and work inside and outside of a tokio runtime; no child process outlives
//! the test process; the helpers wait by polling with a deadline ([`poll`]) and never by sleeping.

pub mod cargo;
pub mod documents;
pub mod full;
pub mod guests;
pub mod heap;
pub mod http;
pub mod languages;
pub mod log;
pub mod paths;
pub mod poll;
pub mod process;
pub mod script;
pub mod skip;
pub mod tools;

pub use rustix::process::Signal;
