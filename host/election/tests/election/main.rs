//! Rules of the election, each on a paused clock and a lock in memory, and a model of many candidates with a faulty lock.

mod acquiring;
mod memory;
mod model;
mod observers;
mod release;
mod renewing;
mod support;
