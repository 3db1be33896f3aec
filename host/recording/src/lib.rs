//! Recordings: what the guests of plugins did, call by call, in a file from which the same component, or a newer build, runs
//! again without a cluster.
//!
//! ```text
//!  guest ──► RecordingImports ──► the host's imports          file ──► ReplayImports ──► guest
//!                 │ what was asked and answered                            │ what is asked now
//!                 ▼                                                        ▼
//!               Tape ──► mask ──► Recorder (JSON lines)        Comparison with what was asked then
//! ```
//!
//! Invariants:
//! - a host without a recording has none of this between a guest and its imports;
//! - without `keep_secrets` no value that a guest read from, or wrote into, a Secret is in the file as far as the host knew it
//!   when the line was written: it is a token of the same length (`secrets.rs`);
//! - each line of the file is whole, and depends on lines before it only: what is left of a cut file replays.

mod format;
mod record;
mod replay;
mod secrets;
mod values;

pub use format::{FORMAT, FormatError, Recording};
pub use record::{InstanceInfo, Recorder, RecorderError, RecorderOptions, RecordingImports, Tape};
pub use replay::{Difference, ReplayError, ReplayOptions, ReplayReport, replay};
