//! The harness of the end-to-end tests in `tests/tests`: a control plane, the host, plugins, and helpers for
//! assertions.
//!
//! ```text
//!   ControlPlane ── builds and runs tests/controlplane (Go): etcd, kube-apiserver, kubectl
//!        ▲
//!      Proxy     ── optional, between the two: delays, stalls, cuts, refuses
//!        ▲
//!      Host      ── builds and runs the `pilothouse` binary on a kubeconfig and a folder of plugins
//!        ▲
//!     guests     ── builds the WebAssembly guests of `guests/` and `examples/`
//! ```
//!
//! Invariants: all functions block and use their own threads and processes, so they work in `#[test]` and in any
//! runtime of `#[tokio::test]`; no child process outlives the test process, however that ends; the harness waits by
//! polling with a deadline ([`poll`]) and never by sleeping.

pub mod audit;
pub mod calls;
pub mod cli;
pub mod clientgo;
pub mod cluster;
pub mod collector;
pub mod controlplane;
pub mod counted_maps;
pub mod dev;
pub mod examples;
pub mod fleet;
pub mod go_program;
pub mod helm;
pub mod host;
pub mod image;
pub mod informers;
pub mod install;
pub mod kube_rs;
pub mod latency;
pub mod load;
pub mod loglines;
pub mod metrics;
pub mod monitoring;
pub mod old_version;
pub mod opensearch;
pub mod plugins;
pub mod proxy;
pub mod rbac;
pub mod registry;
pub mod rest;
pub mod sample_controller;
pub mod sequence;
pub mod stage;
pub mod tutorial;
pub mod workload;

pub use audit::Audit;
pub use cluster::Cluster;
pub use controlplane::ControlPlane;
pub use fleet::Fleet;
pub use host::Host;
pub use old_version::OldVersion;
pub use pilothouse_testkit::skip::or_skip;
use pilothouse_testkit::tools;
pub use pilothouse_testkit::{Signal, full, guests, poll, process};
use pilothouse_testkit::{cargo, http, paths};
pub use proxy::Proxy;
pub use stage::Stage;
