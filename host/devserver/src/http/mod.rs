//! The server on the network: connections, requests, answers, faults and the log of what was served.

mod answer;
mod connection;
mod control;
mod endpoints;
mod fault_injection;
mod faulty_watch;
mod hosts;
mod impersonation;
mod listener;
mod request_info;
mod served;
mod service;
mod tls;

pub(crate) use control::Connections;
pub(crate) use hosts::AllowedHosts;
pub(crate) use listener::{Listener, bind};
pub(crate) use served::Log;
pub use served::Served;
pub(crate) use service::{LONG_ANSWERS, Service};
pub(crate) use tls::Identity;

#[cfg(test)]
mod tests;
