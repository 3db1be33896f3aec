//! The life of a plugin: its files are found, its component is loaded, its generation runs and is replaced.
//!
//! | file | holds |
//! |---|---|
//! | `directory/`, `plugin_objects/`, `sources.rs` | changes of the plugin directory and of the Plugins of the cluster; which of them defines a plugin |
//! | `component_fetch.rs`, `component_fetch/`, `component_store.rs` | components of Plugins of the cluster |
//! | `follow.rs`, `config_sources/` | one plugin's files and configuration: a load for each change |
//! | `load.rs`, `load_slots.rs`, `describe.rs`, `kinds.rs`, `account.rs`, `informers.rs`, `shared_indexes.rs` | the steps of a load |
//! | `generation.rs`, `feeds.rs`, `schedules.rs` | one loaded version, and what brings work to it |
//! | `plugin.rs`, `plugin/`, `standby.rs` | the parts of a plugin that survive a reload |
//! | `state.rs`, `tracker.rs` | the state machine of a plugin's life |
//! | `quarantine.rs`, `probation.rs`, `rollback.rs` | what follows from faults |

mod account;
pub(crate) mod component_fetch;
pub(crate) mod component_store;
pub(crate) mod config_sources;
mod describe;
pub(crate) mod directory;
mod feeds;
mod follow;
pub(crate) mod generation;
pub(crate) mod informers;
mod kinds;
pub(crate) mod load;
pub(crate) mod load_slots;
pub(crate) mod plugin;
pub(crate) mod plugin_objects;
mod probation;
pub(crate) mod quarantine;
pub(crate) mod rollback;
pub(crate) mod schedules;
pub(crate) mod shared_indexes;
pub(crate) mod sources;
pub(crate) mod standby;
pub(crate) mod state;
pub(crate) mod tracker;
