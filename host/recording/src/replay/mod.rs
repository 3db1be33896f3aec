//! Replay: an instance gets the calls of a recording, with the answers of then, and what it does is compared.
//!
//! ```text
//!  for each instance in the file ─ new Instance ─ for each call: ReplayImports answer in order ─ compare ─► first Difference
//! ```
//!
//! Invariants:
//! - a replay reaches neither a cluster nor the network, and depends on no clock or random number of this machine;
//! - an import is answered with what the recording has at its place. Where the guest calls another one, it gets refusals from
//!   there on, and the call is compared up to there.

mod compare;
mod cursor;
mod diff;
mod exchanges;
mod imports;
mod run;
mod system;
mod tape;

pub use compare::Difference;
pub use run::{ReplayError, ReplayOptions, ReplayReport, replay};
