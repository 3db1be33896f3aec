//! Recordings of real components, made and replayed with the engine: equal for the same build, and with the first difference for
//! another one.

mod differences;
mod effects;
mod host;
mod http;
mod lists;
mod secrets;
mod worlds;
