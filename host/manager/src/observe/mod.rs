//! What is seen from outside: status, metrics, admin endpoints, Kubernetes Events of the host.

pub mod admin;
pub(crate) mod audit;
pub(crate) mod caches;
pub(crate) mod command;
pub(crate) mod denials;
pub(crate) mod detail;
pub(crate) mod heartbeat;
pub(crate) mod host_events;
pub(crate) mod metrics;
pub(crate) mod pages;
pub(crate) mod recent_errors;
pub(crate) mod recent_log;
pub(crate) mod rest;
pub(crate) mod status;
pub(crate) mod traces;
pub(crate) mod usage;
pub(crate) mod warnings;
