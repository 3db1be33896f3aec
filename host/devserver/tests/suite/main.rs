//! The server over HTTP: what clients see. The real API server is the measure; what it answers to the same questions is
//! compared in `tests/tests/peers` and by client-go's own tests in `tests/clientgo`.

mod builtins;
mod client;
mod definitions;
mod deletion;
mod documents;
mod faults;
mod forms;
mod garbage;
mod hostile;
mod lists;
mod network;
mod objects;
mod openapi;
mod random;
mod schemas;
mod seed;
mod strategies;
mod subresources;
mod timeouts;
mod watches;
