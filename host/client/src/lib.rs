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
mod rest;
mod retry;
mod retry_watcher;
mod runtime;
mod tls;
mod transport;
mod typed;
mod url;
mod verbs;
mod warnings;
mod watch;

pub use broadcaster::{BroadcastWatcher, Broadcaster, BroadcasterShutDown, FullChannelBehavior};
pub use client::{Client, ServerVersion};
pub use discovery::{
    ApiGroup, CachedDiscovery, DiscoveryClient, DiskCacheOptions, FailedGroup, GroupVersion,
    GroupVersionResources, MappingError, OpenApiEntry, OpenApiIndex, PartialResource, RestMapper,
    ServerResources,
};
pub use dynamic::{DynamicClient, DynamicResource, MetadataClient, MetadataResource};
pub use error::{Error, Result, Status, StatusCause, StatusDetails};
pub use exec::ExecPluginEvent;
pub use list::{ListSummary, Listed, ObjectList, PAGE_SIZE};
pub use options::{ClientOptions, Identity, Impersonation, ObservedRequest, RateLimit, RequestObserver};
pub use params::{
    ApiResource, DeleteParams, ListParams, Patch, Preconditions, Propagation, ResourceVersionMatch,
    WatchEvent, WatchParams, WriteParams,
};
pub use rest::{ByteStream, PatchKind, RestClient, RestRequest, RestResponse};
pub use retry::RetryPolicy;
pub use retry_watcher::RetryWatcher;
pub use typed::{Api, Resource, Scale, ScaleApi, ScaleSpec, ScaleStatus, TypedList, TypedWatch};
pub use verbs::Deleted;
pub use warnings::Warning;
pub use watch::WatchStream;
