//! For tests, of this crate and of those above it: an API server in memory and a listener that takes notes.
//!
//! [`FakeControllerSource`] is the server of one resource: objects with resource versions, lists in pages, watches with history,
//! and every fault a reflector must survive, on demand. [`Recorder`] is a listener that keeps what it was told and
//! panics at the first call that is not legal. [`errors`] are the answers that servers really give.

pub mod errors;
mod objects;
mod recorder;
mod selection;
mod server;

pub use objects::{config_map, config_maps, object};
pub use recorder::{Call, Recorder, View};
pub use server::{FakeControllerSource, Request};
