//! Faults of a real API server, produced at will: which calls they hit, when, and what they do.
//!
//! A [`FaultRule`] is set in process ([`Faults::add`]) or by `POST /_faults` as JSON. Of the rules that hit a call all
//! that only delay, repeat or reorder count, and of the others the first.

mod rule;
mod script;

pub use rule::{Fault, FaultRule, When};
pub use script::{FaultState, Faults};
pub(crate) use script::{Hit, RequestAttributes};

#[cfg(test)]
mod tests;
