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
//! - a panic of a listener costs that one call; one that blocks holds up its informer, and is logged;
//! - a listener that was removed, and an informer nobody leases, cost nothing any more.
//!
//! | files | hold |
//! |---|---|
//! | `source/` | where lists and watches come from |
//! | `reflector/` | list, watch, resume, back off, relist; streaming lists |
//! | `delta_fifo`, `delta` | deltas between reflector and informer |
//! | `indexer`, `store/`, `index_fn`, `snapshot`, `packing`, `hot_reads` | the objects: by key, by index, as of a moment, compressed |
//! | `shared_informer/`, `processor/`, `registration`, `listener`, `interest`, `notification`, `handlers` | one cache, many listeners |
//! | `ring/` | the bounded queue of events of one listener |
//! | `factory`, `factory_informer`, `followers`, `lease` | one informer per kind and scope, as long as it has leases; narrow ones follow a wide one |
//! | `lister` | typed reads |
//! | `availability`, `backoff`, `sync`, `metrics` | when to ask again; what is synced; figures |
//! | `controller` | client-go's `Controller`: a reflector and a function for its deltas |
//! | `keyed/` | client-go's `Fifo`, `Heap`, `ExpirationCache`, `UndeltaStore`: one store by key; and its `MutationCache` |
//!
//! Objects are immutable by type ([`pilothouse_object::Object`]): everybody shares one, nobody can change it.
//!
//! The manager crate uses [`SharedInformerFactory`] and [`Ring`]; everything else is public for tests, for
//! programs that use this crate alone, and for the admin pages.

mod aside;
mod availability;
mod backoff;
mod change;
mod controller;
mod delta;
mod delta_fifo;
mod distinct_values;
mod error;
mod factory;
mod factory_informer;
mod followers;
mod handlers;
mod hot_reads;
mod index_fn;
mod indexer;
mod interest;
mod keyed;
mod lease;
mod listener;
mod lister;
mod metrics;
mod notification;
mod packing;
mod poll_clock;
mod processor;
mod reflector;
mod registration;
mod ring;
mod shared_informer;
mod snapshot;
mod source;
mod store;
mod sync;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod version;

pub use availability::{Availability, Permit};
pub use backoff::Backoff;
pub use change::Change;
pub use controller::{Config, Controller, ControllerHandle, ProcessFailure, ProcessFn, new_informer};
pub use delta::{Delta, DeltaType, Deltas};
pub use delta_fifo::{DeltaFifo, Work, WorkKind};
pub use error::CacheError;
pub use factory::{
    FactoryOptions, InformerId, ListOptions, SharedInformerFactory, SourceFn, Start, TweakInformerOptions,
    TweakListOptions,
};
pub use handlers::{EventFilter, FilteringResourceEventHandler, ResourceEventHandlerFuncs};
pub use index_fn::{IndexFn, IndexLimit, IndexLimits, LimitExceeded};
pub use indexer::{Indexer, NAMESPACE_INDEX};
pub use interest::{Interest, Judge, Requirement};
pub use keyed::mutation_cache::MutationCache;
pub use keyed::queues::{Fifo, Heap};
pub use keyed::{ExpirationCache, KeyedStore, UndeltaStore};
pub use lease::InformerLease;
pub use listener::Listener;
pub use lister::{Lister, NamespaceLister};
pub use metrics::{Histogram, InformerMetrics, resource_version_gauge};
pub use notification::{Notification, Verdict};
pub use packing::Compression;
pub use reflector::{Reflector, ReflectorOptions, ReflectorStatus, Transform, WatchErrorHandler};
pub use registration::Registration;
pub use ring::{Batch, Delivery, Event, Ring, RingMetrics, RingOptions};
pub use shared_informer::{InformerOptions, InformerStatus, SharedInformer};
pub use snapshot::{Cursor, Snapshot};
pub use source::client_lister_watcher::ClientListerWatcher;
pub use source::lister_watcher::{EventStream, FnListerWatcher, ItemSink, ListerWatcher};
pub use version::{ResourceVersion, compare_resource_versions};
