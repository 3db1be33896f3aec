//! From a change of an object to a call of the plugin: filters, mapping, the queue's gate, workers, handlers' pumps.

pub(crate) mod leadership_gate;
pub(crate) mod limiter;
pub(crate) mod mapper;
pub(crate) mod mapping;
pub(crate) mod pump;
pub(crate) mod reasons;
pub(crate) mod tombstones;
pub(crate) mod worker;
pub(crate) mod writes;
