//! The Kubernetes client of the host: REST verbs, list pages and watch streams on our own hyper transport.

mod error;
mod params;

pub use error::{Error, Result, Status, StatusCause, StatusDetails};
pub use params::{
    ApiResource, DeleteParams, ListParams, Patch, Preconditions, Propagation, ResourceVersionMatch, WatchEvent,
    WatchParams, WriteParams,
};
