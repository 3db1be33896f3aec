//! End-to-end tests that take long: expiries of Leases, storms of faults, loads and differential runs, of each a sample unless
//! `PILOTHOUSE_FULL=1`; and the tests of what `cargo test --workspace` leaves out.

mod air_gap;
mod chart_shards;
mod churn;
mod differential;
mod events_away;
mod eviction;
mod hot_reload;
mod informer;
mod install_helm;
mod leader_election;
mod monitoring;
mod other_languages;
mod other_workspaces;
mod registry;
mod rolling_upgrade;
mod server_faults;
mod service_accounts;
mod shards;
mod shared_plugin_objects;
mod storm;
mod systemd;
mod traces;
mod tutorial;
mod web_page;
