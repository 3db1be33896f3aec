//! The rules on simulated hosts and a simulated server.

mod model;
mod rules;
mod session;
mod simulation;
