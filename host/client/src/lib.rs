//! The Kubernetes client of the host: REST verbs, list pages and watch streams on our own hyper transport.
//!
//! ```text
//!   verbs  list  watch  discovery          what callers say
//!       └────┴─────┴───────┘
//!    url ──► call ◄── caller, auth         one request: address, identity, credentials; answer or error
//!              │
//!          transport ──► connect           connections: HTTP/2, pools, pings; TCP, TLS
//!                           ▲
//!           config ─────────┘              kubeconfig or service account, through kube-client
//! ```

mod answer;
mod auth;
mod broadcaster;
mod call;
mod caller;
mod client;
mod config;
mod connect;
mod discovery;
mod dynamic;
mod error;
mod lines;
mod list;
mod options;
mod params;
mod read_ahead;
mod rest;
mod retry_watcher;
mod runtime;
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
pub use list::{ListSummary, Listed, ObjectList, PAGE_SIZE};
pub use options::{ClientOptions, Identity, Impersonation, ObservedRequest, RequestObserver};
pub use params::{
    ApiResource, DeleteParams, ListParams, Patch, Preconditions, Propagation, ResourceVersionMatch,
    WatchEvent, WatchParams, WriteParams,
};
pub use rest::{ByteStream, PatchKind, RestClient, RestRequest, RestResponse};
pub use retry_watcher::RetryWatcher;
pub use typed::{Api, Resource, Scale, ScaleApi, ScaleSpec, ScaleStatus, TypedList, TypedWatch};
pub use verbs::Deleted;
pub use warnings::Warning;
pub use watch::WatchStream;
