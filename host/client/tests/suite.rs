//! Tests of the client against a server that answers as each test says, over plain HTTP/1.1 and over TLS.

mod config;
mod connections;
mod discovery;
mod exec;
mod faults;
mod identity;
mod layers;
mod list;
mod policy;
mod properties;
mod proxy;
mod responses;
mod rest;
mod support;
mod tls;
mod transport;
mod typed;
mod verbs;
mod watch;
