//! Parses and validates manifests and descriptors of plugins. Nothing here runs a component or connects to a cluster.
//!
//! ```text
//!  plugin directory ──► directory::Scanner ──► Manifest (what the operator wrote) ──► Grants, PluginLimits, OutgoingHosts
//!                                                                                        │ compared by the manager
//!  component ─ describe ──► Description (what the author asks for) ──────────────────────┘
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`manifest`](Manifest) | the YAML file beside a component: name, grants, limits, configuration |
//! | [`descriptor`](Description) | the answer to `describe`: watches, mapping, predicates, indexes, permissions asked for |
//! | [`grants`](Grants) | rules of what may be read and written, and which objects they show |
//! | [`watchable`](Unwatchable) | which objects informers show, by a description and grants |
//! | [`limits`](Limits), [`outgoing hosts`](OutgoingHosts), [`world`](World) | bounds on calls, hosts that may be called, the exports of a component |
//! | [`clusters`](run_name) | the clusters of a host, and what the runs of a plugin in them are called |
//! | [`allow lists`](AllowLists), [`component hosts`](ComponentHosts) | what the operator of a host lets manifests name |
//! | [`OCI references`](OciReference) | artifacts in registries |
//! | [`yaml`] | YAML to types, with positions in the errors |
//! | [`directory`] | files to plugins: which files belong together, which have settled, and which have changed |
//!
//! Invariants: no wasmtime and no tokio; every error names the field, the reason and the remedy. Users: the engine
//! (limits, hosts, world), the manager (all of it), `pilothouse dev` (manifests).

mod address;
mod allow_lists;
mod clusters;
mod component_hosts;
mod descriptor;
pub mod directory;
mod duration;
mod grants;
mod limits;
mod manifest;
mod oci_reference;
mod outgoing_hosts;
mod plural;
mod printable;
mod private_folder;
mod quantity;
mod watchable;
mod world;
pub mod yaml;

pub use address::{canonical, special};
pub use allow_lists::{AllowLists, AllowedAccount};
pub use clusters::{HOME_CLUSTER, check_cluster_name, run_name, split_run};
pub use component_hosts::{ComponentHost, ComponentHosts, ComponentUrl};
pub use descriptor::{
    Batch, Bucket, Delivery, DescribeError, Description, EventKinds, IndexSource, IndexSpec, KeyMap,
    Predicate, ProjectionSpec, RateLimiter, Schedule, WatchSpec, selector_terms,
};
pub use duration::{DurationError, parse_duration};
pub use grants::{Access, Grants, Missing, NoScopes, NotGranted, Place, Rule, Scope, Visibility, WatchScope};
pub use limits::{
    BOUNDS, Bound, Ceilings, DataLimits, DescriptorLimits, HostLimits, Limits, PluginLimits, Unit,
};
pub use manifest::{
    ConfigFrom, Manifest, ManifestError, NamespacedName, ObjectReference, OciComponent, OnReload, Position,
    RemoteClusters, RemoteComponent, RollbackPolicy, Source,
};
pub use oci_reference::{OciReference, OciRepository, is_digest};
pub use outgoing_hosts::{Host, OutgoingHost, OutgoingHostError, OutgoingHosts, split_port};
pub use plural::guess_plural;
pub use printable::{is_control, printable};
pub use private_folder::open_private_folder;
pub use quantity::{QuantityError, parse_memory};
pub use watchable::Unwatchable;
pub use world::World;
