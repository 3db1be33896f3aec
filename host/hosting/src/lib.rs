//! The host in one process, and what the commands that run or look at one have in common.
//!
//! ```text
//!   hosting     client, engine, manager and admin address, from the start to the last call
//!     ├── runtimes                            the threads
//!     ├── membership ── election              the part in an election or in shards
//!     └── worker, own_pod, record             the compile worker; flags of `run` and `dev`
//!   inspect     a component outside of a host: what it is and asks for
//!   output, yaml, put, signals, log_filter    what every command needs
//! ```
//!
//! Used by `pilothouse` (the command line) and `pilothouse-dev` (the author's tools).

pub mod election;
pub mod event_fields;
pub mod hosting;
pub mod inspect;
pub mod log_filter;
mod membership;
pub mod output;
pub mod own_pod;
pub mod plugin_objects;
pub mod put;
pub mod record;
pub mod runtimes;
pub mod signals;
pub mod worker;
pub mod yaml;
