//! Server-side apply: who owns which fields, and merging what appliers send.
//!
//! ```text
//!   updater    on_update: every write's ownership; apply: merge, conflicts, removal
//!     ├── managers     metadata.managedFields: entries, their order, their JSON
//!     │     ├── cap          ten entries of updates
//!     │     └── fields_v1    a set of paths as JSON
//!     ├── check, compare, fields, merge, remove, reconcile      walks over an object along its type
//!     │     └── types        what a value may be at a place
//!     ├── conflict     the answer to conflicting appliers
//!     └── last_applied kubectl's client-side apply
//!   set, path, value     sets of paths, their elements, the order of values
//! ```
//!
//! This is what structured-merge-diff and apimachinery's managedfields do on a real server. Nothing here
//! knows of requests or of the store.
//!
//! Invariants: nothing that a client sends makes it panic. Walks are as deep as the objects, whose depth their decoders
//! limit. Work is about the size of the objects and of all entries together, not their product: see [`Set`].

mod cap;
mod check;
mod compare;
mod conflict;
mod fields;
mod fields_v1;
mod last_applied;
mod managers;
mod merge;
mod path;
mod reconcile;
mod remove;
mod scale;
mod set;
#[cfg(any(test, feature = "testing"))]
mod testing;
#[cfg(test)]
mod tests;
mod types;
mod updater;
mod value;

pub(crate) use managers::{Managers, manager_name};
pub(crate) use scale::{ReplicasPaths, to_parent, to_scale};
pub(crate) use set::Set;
#[cfg(feature = "testing")]
pub use testing::replay_applies;
pub(crate) use updater::{Applied, Kind, Writer, apply, on_update};
pub(crate) use value::go_text;
