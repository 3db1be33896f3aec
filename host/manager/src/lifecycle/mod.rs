//! The life of a plugin: its files are found, its component is loaded, its generation runs and is replaced.

pub(crate) mod config_sources;
pub(crate) mod directory;
pub(crate) mod follow;
pub(crate) mod generation;
pub(crate) mod load;
pub(crate) mod plugin;
