//! client-go's further containers and the plain `Controller`. No other crate of the host uses them.

pub(crate) mod controller;
pub(crate) mod expiration_cache;
pub(crate) mod fifo;
pub(crate) mod heap;
pub(crate) mod mutation_cache;
pub(crate) mod undelta_store;
