//! Tests of the client against a server that answers as each test says, over plain HTTP/1.1 and over TLS.

mod config;
mod discovery;
mod faults;
mod list;
mod properties;
mod rest;
mod support;
mod transport;
mod typed;
mod verbs;
mod watch;
