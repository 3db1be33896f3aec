//! End-to-end tests that take long: expiries of Leases, storms of faults, loads and differential runs.

mod churn;
mod differential;
mod events_away;
mod hot_reload;
mod informer;
mod leader_election;
mod server_faults;
mod storm;
