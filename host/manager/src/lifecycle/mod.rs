//! The life of a plugin: its files are found, its component is loaded, its generation runs and is replaced.
//!
//! | file | holds |
//! |---|---|
//! | `directory/` | changes of the plugin directory |
//! | `follow.rs`, `config_sources/` | one plugin's files and configuration: a load for each change |
//! | `load.rs`, `describe.rs`, `informers.rs` | the steps of a load |
//! | `generation.rs`, `feeds.rs` | one loaded version, and what brings work to it |
//! | `plugin.rs`, `standby.rs` | the parts of a plugin that survive a reload |
//! | `state.rs`, `quarantine.rs`, `tracker.rs` | the state machine of a plugin's life |

pub(crate) mod config_sources;
mod describe;
pub(crate) mod directory;
mod feeds;
mod follow;
pub(crate) mod generation;
mod informers;
pub(crate) mod load;
pub(crate) mod plugin;
mod quarantine;
mod standby;
mod state;
mod tracker;
