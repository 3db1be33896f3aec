//! [`Descriptor`]: the builder of the JSON document that `describe` returns (`docs/describe.md`). Each part has its
//! own file.
//!
//! Invariant: fields that were not set are omitted, so the defaults of the running host apply, also of a newer one.

mod index;
mod map;
mod permission;
mod predicate;
mod projection;
mod rate_limiter;
mod schedule;
#[cfg(test)]
mod tests;
mod watch;
mod writer;

use std::time::Duration;

pub use index::Index;
pub use map::Map;
pub use permission::{Permission, Verb};
pub use predicate::Predicate;
pub use projection::Projection;
pub use rate_limiter::RateLimiter;
pub use schedule::Schedule;
pub use watch::{Delivery, Watch};

use crate::{Resource, Scope, duration};
use writer::{Fields, Writer};

/// The descriptor of a plugin: its watches, indexes, requested permissions and settings.
///
/// ```
/// use pilothouse_sdk::prelude::*;
///
/// const NODE: Kind = Kind::core("v1", "Node");
/// const POD: Kind = Kind::core("v1", "Pod");
///
/// let descriptor = Descriptor::new("pods-per-node")
///     .watch(Watch::new(NODE))
///     .watch(Watch::new(POD).map(Map::field("/spec/nodeName")))
///     .index(Index::by_path(POD, "by-node", "/spec/nodeName"))
///     .max_concurrent_reconciles(4)
///     .permission(Permission::new("", ["nodes", "pods"]));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    name: String,
    watches: Vec<Watch>,
    permissions: Vec<Requested>,
    outgoing_hosts: Vec<String>,
    /// Names and JSON texts of other lists.
    lists: Vec<(&'static str, Vec<String>)>,
    fields: Fields,
    /// Fields that [`field`](Self::field) sets, instead of those above.
    more: Fields,
    /// The first mistake of the builder.
    mistake: Option<String>,
}

impl Descriptor {
    /// A descriptor with the author's name of the plugin. The manifest sets the name under which the plugin runs.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            watches: Vec::new(),
            permissions: Vec::new(),
            outgoing_hosts: Vec::new(),
            lists: Vec::new(),
            fields: Fields::default(),
            more: Fields::default(),
            mistake: None,
        }
    }

    fn add(&mut self, list: &'static str, json: String) {
        match self.lists.iter_mut().find(|(name, _)| *name == list) {
            Some((_, values)) => values.push(json),
            None => self.lists.push((list, vec![json])),
        }
    }

    /// Adds a watch.
    #[must_use]
    pub fn watch(mut self, watch: Watch) -> Self {
        self.watches.push(watch);
        self
    }

    /// Watches the objects of a type that the objects of the first watch control, in its namespaces: a change of such an
    /// object reconciles its controller. What is written to them is declared with [`writes`](Descriptor::writes).
    ///
    /// ```
    /// # use pilothouse_sdk::prelude::*;
    /// # #[derive(Resource, Serialize, Deserialize)]
    /// # #[resource(group = "example.com", version = "v1")]
    /// # struct Foo { metadata: Metadata, status: Option<()> }
    /// # #[derive(Resource, Serialize, Deserialize)]
    /// # #[resource(group = "apps", version = "v1")]
    /// # struct Deployment { metadata: Metadata }
    /// let descriptor = Descriptor::new("foo-controller")
    ///     .watch(Watch::of::<Foo>().predicate(Predicate::GenerationChanged))
    ///     .owns::<Deployment>()
    ///     .writes::<Deployment>(Verb::APPLY)
    ///     .writes_status::<Foo>()
    ///     .records_events();
    /// ```
    #[must_use]
    pub fn owns<K: Resource>(mut self) -> Self {
        if let Err(mistake) = self.add_owned(Watch::of::<K>(), K::resource_scope()) {
            self.mistake.get_or_insert(mistake);
        }
        self
    }

    /// The part of [`owns`](Self::owns) that is the same for all types.
    fn add_owned(&mut self, watch: Watch, scope: Scope) -> Result<(), String> {
        let Some(first) = self.watches.first() else {
            return Err(format!(
                "`owns::<{}>()` needs a watch of the owner before it: `.watch(Watch::of::<Owner>())`",
                watch.kind().kind
            ));
        };
        let owner = first.kind().clone();
        let mut watch =
            watch.map(Map::controller(&crate::Kind::from_parts(owner.group, owner.version, owner.kind)));
        if scope == Scope::Namespaced {
            // An owner with a namespace owns objects of that namespace only.
            watch = watch.namespaces(first.only_namespaces());
        }
        self.watches.push(watch);
        Ok(())
    }

    /// Asks for the permission to write objects of a type: in the namespaces that its watches are limited to, or
    /// everywhere.
    #[must_use]
    pub fn writes<K: Resource>(self, verbs: impl IntoIterator<Item = Verb>) -> Self {
        let permission = Permission::of::<K>().verbs(verbs);
        self.limited::<K>(permission)
    }

    /// Asks for the permission to write the status of objects of a type, as [`writes`](Descriptor::writes).
    #[must_use]
    pub fn writes_status<K: Resource>(self) -> Self {
        let permission = Permission::subresource_of::<K>("status");
        self.limited::<K>(permission)
    }

    /// Asks for the permission to record Events everywhere.
    #[must_use]
    pub fn records_events(self) -> Self {
        self.permission(Permission::new("", ["events"]).verbs([Verb::Create]))
    }

    fn limited<K: Resource>(mut self, permission: Permission) -> Self {
        let of = Some(KindFields::from(K::resource_kind()));
        self.permissions.push(Requested { permission, of });
        self
    }

    /// All permissions: those of typed watches, and those that were asked for.
    fn all_permissions(&self) -> Vec<Permission> {
        let watched = self.watches.iter().filter_map(Watch::permission);
        let requested = self.permissions.iter().map(|requested| self.resolve(requested));
        let mut all: Vec<Permission> = Vec::new();
        for permission in watched.chain(requested) {
            if !all.iter_mut().any(|own| own.absorb(&permission)) {
                all.push(permission);
            }
        }
        all
    }

    /// A permission in the namespaces of the watches of its kind, which may come after it.
    fn resolve(&self, requested: &Requested) -> Permission {
        let permission = requested.permission.clone();
        let of = |watch: &&Watch| Some(watch.kind()) == requested.of.as_ref();
        let watches: Vec<&Watch> = self.watches.iter().filter(of).collect();
        if watches.is_empty() || watches.iter().any(|watch| watch.only_namespaces().is_empty()) {
            return permission;
        }
        let mut namespaces: Vec<&String> = Vec::new();
        for namespace in watches.iter().flat_map(|watch| watch.only_namespaces()) {
            if !namespaces.contains(&namespace) {
                namespaces.push(namespace);
            }
        }
        permission.namespaces(namespaces)
    }

    /// Adds an index over a watched kind, for [`Query::by_index`](crate::cache::Query::by_index).
    #[must_use]
    pub fn index(mut self, index: Index) -> Self {
        self.add("indexes", index.json());
        self
    }

    /// Declares the fields that the plugin reads of a watched kind. Without a projection the host keeps whole objects.
    #[must_use]
    pub fn projection(mut self, projection: Projection) -> Self {
        self.add("projections", projection.json());
        self
    }

    /// Adds a key that is reconciled periodically.
    #[must_use]
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.add("schedules", schedule.json());
        self
    }

    /// Sets the maximum number of keys that are reconciled at the same time, each in its own instance.
    #[must_use]
    pub fn max_concurrent_reconciles(mut self, limit: u32) -> Self {
        self.fields.set("maxConcurrentReconciles", limit.to_string());
        self
    }

    /// Sets the maximum number of keys per call of a [`BatchReconciler`](crate::BatchReconciler). The default is 100,
    /// the maximum 10,000.
    #[must_use]
    pub fn max_batch(mut self, keys: u32) -> Self {
        self.fields.set("maxBatch", keys.to_string());
        self
    }

    /// Sets how long the host collects keys for a call of a [`BatchReconciler`](crate::BatchReconciler), counted from
    /// the first key; at most one minute. By default a call takes the keys that are ready.
    #[must_use]
    pub fn linger(mut self, time: Duration) -> Self {
        self.fields.set_text("linger", &duration::format(time));
        self
    }

    /// Sets the delays between retries.
    #[must_use]
    pub fn rate_limiter(mut self, limiter: RateLimiter) -> Self {
        self.fields.set("rateLimiter", limiter.json());
        self
    }

    /// Reconciles every key of the watches again in this interval, changed or not.
    #[must_use]
    pub fn resync(mut self, interval: Duration) -> Self {
        self.fields.set_text("resync", &duration::format(interval));
        self
    }

    /// Asks for a permission. Only the manifest grants permissions; the host logs missing ones when it loads the
    /// plugin.
    #[must_use]
    pub fn permission(mut self, permission: Permission) -> Self {
        self.permissions.push(Requested { permission, of: None });
        self
    }

    /// Asks for a host (`name:port`) that the plugin calls over HTTP. Only the manifest grants hosts.
    #[must_use]
    pub fn outgoing_host(mut self, host: impl Into<String>) -> Self {
        self.outgoing_hosts.push(host.into());
        self
    }

    /// Sets a field for which this version of the SDK has no builder, or replaces one. A host that does not know the
    /// field refuses the plugin.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, value: impl Into<serde_json::Value>) -> Self {
        self.more.set(&name.into(), value.into().to_string());
        self
    }

    /// Serializes the descriptor as JSON.
    ///
    /// # Errors
    /// When the builder was misused.
    pub fn to_json(&self) -> Result<Vec<u8>, String> {
        if let Some(mistake) = &self.mistake {
            return Err(mistake.clone());
        }
        let mut writer = Writer::without(self.more.names());
        writer.text("apiVersion", "pilothouse.dev/describe/v1alpha1");
        writer.text("name", &self.name);
        let watches: Vec<String> = self.watches.iter().map(Watch::json).collect();
        let permissions: Vec<String> = self.all_permissions().iter().map(Permission::json).collect();
        for (name, values) in [("watches", &watches), ("permissions", &permissions)] {
            if !values.is_empty() {
                writer.list(name, values);
            }
        }
        for (name, values) in &self.lists {
            writer.list(name, values);
        }
        if !self.outgoing_hosts.is_empty() {
            writer.texts("outgoingHosts", &self.outgoing_hosts);
        }
        self.fields.write(&mut writer);
        writer.skip_nothing();
        self.more.write(&mut writer);
        Ok(writer.end().into_bytes())
    }
}

/// A permission that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Requested {
    permission: Permission,
    /// The kind whose watches limit it to their namespaces.
    of: Option<KindFields>,
}

/// The three fields of a kind, flattened into other types of the schema.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KindFields {
    group: String,
    version: String,
    kind: String,
}

impl KindFields {
    #[inline(never)]
    fn write(&self, writer: &mut Writer) {
        writer.text("group", &self.group);
        writer.text("version", &self.version);
        writer.text("kind", &self.kind);
    }
}

impl From<crate::Kind> for KindFields {
    fn from(kind: crate::Kind) -> Self {
        Self { group: kind.group().into(), version: kind.version().into(), kind: kind.kind().into() }
    }
}

/// Converts and collects strings of any string type.
fn strings(names: impl IntoIterator<Item = impl Into<String>>) -> Vec<String> {
    names.into_iter().map(Into::into).collect()
}
