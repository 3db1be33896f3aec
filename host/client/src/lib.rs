//! The Kubernetes client of the host: REST verbs, list pages and watch streams on our own hyper transport.
//!
//! ```text
//!   typed  dynamic  rest                   what users say
//!   verbs  list  watch  discovery
//!       └────┴─────┴───────┘
//!    url ──► call ◄── caller, auth ◄─ exec   one request: address, identity, credentials; answer or error
//!              │ ◄─── rate_limiter, retry    when it may go, and whether again
//!          transport ──► pool, connection    HTTP/2 with pings; requests and watches apart
//!                           │
//!                        connect ◄─── tls    certificates that rotate
//!                           │
//!                  read_ahead, dial ◄─ proxy TCP, or a tunnel through a proxy
//!
//!           config                           kubeconfig or service account: makes auth, exec, tls, proxy
//!           broadcaster, retry_watcher       what stands on it, or beside it
//! ```
//!
//! # Features
//!
//! The host needs none of them; programs that use this crate choose.
//!
//! | feature | holds |
//! |---|---|
//! | `typed` | `Api` over `k8s-openapi` types or your own (`Resource`) |
//! | `scale` | `Client::scale`, and `scale` of the typed and the dynamic client |
//! | `dynamic` | `Client::dynamic` and `Client::metadata` |
//! | `rest` | `Client::rest`: requests put together part by part, streams of bytes |
//! | `discovery-disk` | `CachedDiscovery::on_disk`: discovery in kubectl's cache files |
//! | `openapi` | `DiscoveryClient::openapi_v2` and `openapi_v3` |
//! | `full` | all of them |

mod answer;
mod auth;
mod broadcaster;
mod call;
mod caller;
mod client;
mod config;
mod connect;
mod connection;
mod decompress;
mod dial;
mod discovery;
#[cfg(feature = "dynamic")]
mod dynamic;
mod error;
mod exec;
mod lines;
mod list;
mod options;
mod params;
mod pool;
mod proxy;
mod rate_limiter;
mod read_ahead;
#[cfg(feature = "rest")]
mod rest;
mod retry;
mod retry_watcher;
mod runtime;
#[cfg(feature = "scale")]
mod scale;
mod tls;
mod transport;
#[cfg(feature = "typed")]
mod typed;
mod url;
mod verbs;
mod warnings;
mod watch;

pub use broadcaster::{BroadcastWatcher, Broadcaster, BroadcasterShutDown, FullChannelBehavior};
pub use client::{Client, ServerVersion};
#[cfg(feature = "discovery-disk")]
pub use discovery::DiskCacheOptions;
pub use discovery::{
    ApiGroup, CachedDiscovery, DiscoveryClient, FailedGroup, GroupVersion, GroupVersionResources,
    MappingError, PartialResource, RestMapper, ServerResources,
};
#[cfg(feature = "openapi")]
pub use discovery::{OpenApiEntry, OpenApiIndex};
#[cfg(feature = "dynamic")]
pub use dynamic::{DynamicClient, DynamicResource, MetadataClient, MetadataResource};
pub use error::{Error, Result, Status, StatusCause, StatusDetails};
pub use exec::ExecPluginEvent;
pub use list::{ListSummary, Listed, ObjectList, PAGE_SIZE};
pub use options::{ClientOptions, Identity, Impersonation, ObservedRequest, RateLimit, RequestObserver};
pub use params::{
    ApiResource, DeleteParams, ListParams, Patch, PatchKind, Preconditions, Propagation,
    ResourceVersionMatch, WatchEvent, WatchParams, WriteParams,
};
#[cfg(feature = "rest")]
pub use rest::{ByteStream, RestClient, RestRequest, RestResponse};
pub use retry::RetryPolicy;
pub use retry_watcher::RetryWatcher;
#[cfg(feature = "scale")]
pub use scale::{Scale, ScaleApi, ScaleSpec, ScaleStatus};
#[cfg(feature = "typed")]
pub use typed::{Api, Resource, TypedList, TypedWatch};
pub use verbs::Deleted;
pub use warnings::Warning;
pub use watch::WatchStream;
