//! client-go's cache layer: one watch, one copy of the objects, any number of listeners.
//!
//! ```text
//! ListerWatcher ──► Reflector ──► DeltaFifo ──► SharedInformer ──► 1. Indexer   2. every Listener
//!                                                                              (a mapper of the host, or a Ring)
//! ```
//!
//! What the crate promises, whatever the server and the timing do:
//! - per key a listener sees a legal sequence: add, updates, delete, and again; a new UID is always a delete and an add;
//! - the store is changed before any listener hears of it, and a list is taken over as one snapshot;
//! - at rest, what a listener has been told, the store and the server agree;
//! - neither a slow nor a panicking listener holds up another listener or the watch;
//! - a listener that was removed, and an informer nobody leases, cost nothing any more.
//!
//! Objects are immutable by type ([`pilothouse_object::Object`]): everybody shares one, nobody can change it. Builds with
//! debug assertions also check it once a second when the environment says `KUBE_CACHE_MUTATION_DETECTOR=true`.
//!
//! The manager crate uses [`SharedInformerFactory`], [`Ring`] and [`Lister`]; everything else is public for tests, for
//! programs that use this crate alone, and for the admin pages.

mod aside;
mod availability;
mod backoff;
mod change;
mod client_lister_watcher;
mod controller;
mod delta;
mod delta_fifo;
mod error;
mod expiration_cache;
mod factory;
mod feed;
mod fifo;
mod filtered_lister_watcher;
mod handlers;
mod heap;
mod hot_reads;
mod index_fn;
mod indexer;
mod informer_source;
mod lease;
mod listener;
mod lister;
mod lister_watcher;
mod metrics;
mod mutation_cache;
mod mutation_detector;
mod packing;
mod processor;
mod reflector;
mod registration;
mod ring;
mod shared_informer;
mod snapshot;
mod store;
mod sync;
mod sync_progress;
mod tap;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod undelta_store;
mod version;

pub use availability::{Availability, Permit};
pub use backoff::Backoff;
pub use change::Change;
pub use client_lister_watcher::ClientListerWatcher;
pub use controller::{Config, Controller, ControllerHandle, ProcessFailure, ProcessFn, new_informer};
pub use delta::{Delta, DeltaType, Deltas};
pub use delta_fifo::{DeltaFifo, Work, WorkKind};
pub use error::CacheError;
pub use expiration_cache::ExpirationCache;
pub use factory::{
    FactoryOptions, InformerId, ListOptions, SharedInformerFactory, SourceFn, Start, TweakListOptions,
};
pub use fifo::{Fifo, KeyFn, PopError, ProcessError};
pub use filtered_lister_watcher::FilteredListerWatcher;
pub use handlers::{EventFilter, FilteringResourceEventHandler, ResourceEventHandlerFuncs};
pub use heap::Heap;
pub use index_fn::IndexFn;
pub use indexer::{Indexer, NAMESPACE_INDEX};
pub use lease::InformerLease;
pub use listener::Listener;
pub use lister::{Lister, NamespaceLister, TypedLister, TypedNamespaceLister};
pub use lister_watcher::{EventStream, FnListerWatcher, ItemSink, ListerWatcher};
pub use metrics::{Histogram, InformerMetrics, resource_version_gauge};
pub use mutation_cache::{MutationCache, MutationCacheOptions};
pub use packing::Compression;
pub use reflector::{Reflector, ReflectorOptions, ReflectorStatus, Transform, WatchErrorHandler};
pub use registration::Registration;
pub use ring::{Batch, Delivery, Event, Ring, RingMetrics, RingOptions};
pub use shared_informer::{InformerOptions, InformerStatus, SharedInformer};
pub use snapshot::{Cursor, Snapshot};
pub use sync_progress::{MissingInformer, SyncProgress};
pub use undelta_store::UndeltaStore;
pub use version::compare_resource_versions;
