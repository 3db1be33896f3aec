//! The Kubernetes client of the host: REST verbs, list pages and watch streams on our own hyper transport.
//!
//! Modules use only modules of lower layers, or of their own:
//!
//! ```text
//!   typed  dynamic  retry_watcher             other forms of the same verbs
//!   rest
//!   list  watch  discovery  subresources      what a client can ask for
//!   verbs
//!   client                                    one call: identity, limits, retries; its response or error
//!   config                                    kubeconfig or service account: makes all below
//!   documents  options                        discovery documents: forms, cache, files; what users set
//!   transport                                 connections: HTTP/2 with pings; requests and watches apart
//!   credentials  identity                     headers, certificates that rotate, exec plugins
//!   url  rate_limiter  warnings  proxy        where, when
//!   params  retry  observer                   what users set
//!   error  decompress  lines                  errors, bodies
//!   text
//! ```
//!
//! # Features
//!
//! The host needs none of them; programs that use this crate choose.
//!
//! | feature | holds |
//! |---|---|
//! | `typed` | `Api` over `k8s-openapi` types or your own (`Resource`) |
//! | `dynamic` | `Client::dynamic` and `Client::metadata` |
//! | `rest` | `Client::rest`: requests put together part by part, streams of bytes |
//! | `discovery-disk` | `CachedDiscovery::on_disk`: discovery in kubectl's cache files |
//! | `full` | all of them |

mod client;
mod config;
mod credentials;
mod decompress;
mod discovery;
mod documents;
#[cfg(feature = "dynamic")]
mod dynamic;
mod error;
mod identity;
mod lines;
mod list;
mod observer;
mod options;
mod params;
mod proxy;
mod rate_limiter;
#[cfg(feature = "rest")]
mod rest;
mod retry;
mod retry_watcher;
mod subresources;
mod text;
mod transport;
#[cfg(feature = "typed")]
mod typed;
mod url;
mod verbs;
mod warnings;
mod watch;

pub use client::{Client, ServerVersion};
pub use discovery::{CachedDiscovery, DiscoveryClient, MappingError, PartialResource, RestMapper};
#[cfg(feature = "discovery-disk")]
pub use documents::DiskCacheOptions;
pub use documents::{ApiGroup, FailedGroup, GroupVersion, GroupVersionResources, ServerResources};
#[cfg(feature = "dynamic")]
pub use dynamic::{DynamicClient, DynamicResource, MetadataClient};
pub use error::{Error, Result, Status, StatusCause, StatusDetails};
pub use identity::{Identity, Impersonation};
pub use list::{ListSummary, Listed, ObjectList, PAGE_SIZE};
pub use observer::{ExecPluginEvent, ObservedRequest, RequestObserver};
pub use options::ClientOptions;
pub use params::{
    ApiResource, DeleteParams, ListParams, Patch, PatchKind, Preconditions, Propagation,
    ResourceVersionMatch, WatchEvent, WatchParams, WriteParams,
};
pub use rate_limiter::RateLimit;
#[cfg(feature = "rest")]
pub use rest::{ByteStream, RestClient, RestRequest, RestResponse};
pub use retry::RetryPolicy;
pub use retry_watcher::RetryWatcher;
pub use subresources::LogParams;
pub use transport::WriteGate;
#[cfg(feature = "typed")]
pub use typed::{Api, Resource, TypedList, TypedWatch};
pub use verbs::Deleted;
pub use warnings::Warning;
pub use watch::WatchStream;
