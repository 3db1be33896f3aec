//! End-to-end tests of the host: on both API servers, or on the development server alone. Those that wait for long are in
//! `slow`, those that run other programs beside ours in `peers`: three binaries, each of which links the host's crates once
//! and starts one control plane of each kind.

mod apply;
mod bad_guests;
mod bad_plugins;
mod batches;
mod build;
mod check;
mod clusters;
mod compile;
mod config_from;
mod deployment_watcher;
mod dev;
mod dev_toolchain;
mod events;
mod examples_controllers;
mod grants;
mod guest_events;
mod host_lifecycle;
mod image;
mod install;
mod isolation_bounds;
mod isolation_faults;
mod isolation_imports;
mod isolation_threads;
mod lists;
mod monitoring;
mod new;
mod own_writes;
mod plugin_objects;
mod projections;
mod rbac;
mod record;
mod test_command;
