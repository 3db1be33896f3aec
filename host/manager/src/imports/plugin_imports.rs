//! [`PluginImports`]: the host's side of the imports of one generation, limited by the plugin's grants.
//!
//! Cached reads and queue calls are answered here; live calls go to [`ApiCalls`]. The engine calls this from guest
//! threads; nothing in this file blocks.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pilothouse_cache::{CacheError, Cursor, InformerId, InformerLease};
use pilothouse_client::ApiResource;
use pilothouse_engine::{
    CacheImports, CacheQuery, CallContext, ClientCall, ClientFuture, ClientImports, ConfigImports,
    EventImports, GuestEvent, GuestMetric, HttpClient, HttpImports, LogImports, LogLevel, MetricImports,
    MetricSpec, ObjectCursor, QueueImports, Refusal, RefusalReason, SystemImports, WaitFuture,
};
use pilothouse_object::{Gvk, LabelSelector, Object, ObjectKey};
use pilothouse_plugin::{Access, Grants, Place, Scope, Visibility, WatchSpec, printable, selector_terms};
use pilothouse_workqueue::{Priority, Queue};
use tokio::time::Instant;

use crate::access::{KindRights, Rights};
use crate::dispatch::mapping::{Filter, LONGEST_KEY};
use crate::dispatch::reasons::Reasons;
use crate::dispatch::writes::{self, WaitOutcome, WaitScope};
use crate::imports::api_calls::ApiCalls;
use crate::imports::guest_events::PluginEvents;
use crate::imports::http_client::LazyHttpClient;
use crate::imports::kind_views::KindViews;
use crate::imports::log_limit::LogLimit;
use crate::imports::remote_clusters::RemoteClusters;
use crate::imports::visible_objects::{ShownCursor, VisibleObjects};
use crate::lifecycle::shared_indexes::IndexLease;
use crate::observe::denials::Denied;
use crate::observe::metrics::cpu::HostTime;
use crate::observe::metrics::guest::GuestMetrics;
use crate::observe::warnings::Warnings;

/// The imports of one generation.
pub(crate) struct PluginImports {
    pub(crate) plugin: Arc<str>,
    pub(crate) generation: u64,
    pub(crate) config: Arc<[u8]>,
    pub(crate) queue: Queue<ObjectKey, Reasons>,
    /// Keys that the queue may hold when the guest adds another.
    pub(crate) queue_depth: usize,
    /// Terms that the label selector of a query may have.
    pub(crate) selector_terms: usize,
    /// Live calls to the cluster of the run.
    pub(crate) api_calls: ApiCalls,
    /// Live calls to others.
    pub(crate) remote_clusters: RemoteClusters,
    /// Records the Events of guests.
    pub(crate) events: Arc<PluginEvents>,
    /// Sends HTTP requests to the granted hosts.
    pub(crate) http: LazyHttpClient,
    pub(crate) log_limit: Arc<LogLimit>,
    /// The metrics that the plugin declares, and how many series they may have.
    pub(crate) metrics: Arc<GuestMetrics>,
    pub(crate) metric_series: usize,
    /// The account of what the host works for the plugin.
    pub(crate) host_time: HostTime,
    pub(crate) warnings: Arc<Warnings>,
    /// Set once the descriptor's kinds are resolved; nothing can be read from the cache before.
    pub(crate) kinds: OnceLock<KindViews>,
}

/// One kind as this generation may see it.
pub(crate) struct KindView {
    /// The informers of the kind, at least one: one for each namespace or name where the grants are that narrow.
    pub(crate) leases: Vec<InformerLease>,
    /// For each of them, those before it that may have the same objects: they show them.
    pub(crate) shown_before: Vec<Arc<[InformerId]>>,
    grants: Grants,
    /// What the ServiceAccount of the plugin may do.
    rights: KindRights,
    /// The objects that `get` shows.
    gettable: Visibility,
    /// The objects that `list`, `keys`, `by-index` and `index-values` show, and their namespaces.
    listable: Visibility,
    list_scope: Scope,
    /// By the descriptor's index names: the indexes of the informers, in the order of `leases`.
    pub(crate) indexes: HashMap<String, Vec<IndexLease>>,
}

impl KindView {
    pub(crate) fn new(leases: Vec<InformerLease>, grants: &Grants, rights: KindRights) -> Self {
        let before = |at: usize| {
            let earlier = leases[..at].iter().map(InformerLease::id);
            earlier.filter(|id| id.overlaps(leases[at].id())).cloned().collect()
        };
        let shown_before = (0..leases.len()).map(before).collect();
        let resource = leases[0].resource();
        let (group, plural) = (resource.gvk.group.clone(), resource.plural.clone());
        Self {
            gettable: grants.visibility("get", &group, &plural),
            listable: grants.visibility("list", &group, &plural),
            list_scope: grants.scope("list", &group, &plural, resource.namespaced),
            grants: grants.clone(),
            rights,
            indexes: HashMap::new(),
            shown_before,
            leases,
        }
    }

    /// The resource of the kind.
    pub(crate) fn resource(&self) -> &ApiResource {
        self.leases[0].resource()
    }

    /// The objects of the informers that hold a namespace, or of all, as if they had one store. An object that two of them
    /// have, as one of a name and one of a namespace may, is shown by the first.
    fn cursors(
        &self,
        namespace: Option<&str>,
        cursor: impl Fn(usize, &InformerLease) -> Result<Cursor, CacheError>,
    ) -> Result<Vec<ShownCursor>, CacheError> {
        let all = self.leases.iter().zip(&self.shown_before).enumerate();
        let held = all.filter(|(_, (lease, _))| holds(lease, namespace));
        held.map(|(at, (lease, before))| Ok((cursor(at, lease)?, Arc::clone(before)))).collect()
    }

    /// Which objects a watch of this kind may show; those of the informers `elsewhere` are shown by others.
    pub(crate) fn filter(&self, watch: &WatchSpec, elsewhere: Arc<[InformerId]>) -> Filter {
        let resource = self.resource();
        let visible = self.grants.visibility("watch", &resource.gvk.group, &resource.plural);
        Filter::new(watch, visible, self.rights.watch.clone(), elsewhere)
    }

    /// What the ServiceAccount of the plugin may watch.
    pub(crate) fn watch_rights(&self) -> &Rights {
        &self.rights.watch
    }

    /// The refusal of a read that the manifest grants and the ServiceAccount may not do.
    fn beyond_account(api_calls: &ApiCalls, why: &str) -> Refusal {
        let message = format!(
            "plugin {}: {why}; grant it to the ServiceAccount: spec.permissions of the manifest only narrow what it may do",
            api_calls.plugin
        );
        api_calls.denials.record(Denied::Account, &message);
        Refusal::forbidden(message)
    }

    fn forbidden(&self, api_calls: &ApiCalls, verb: &str, place: Place<'_>, name: Option<&str>) -> Refusal {
        let resource = self.resource();
        let (group, plural) = (resource.gvk.group.as_str(), resource.plural.as_str());
        let access = Access { verb, group, resource: plural, subresource: None, place, name };
        let missing = self.grants.check(&access).err().map(|missing| missing.to_string());
        let message = format!("plugin {}: {}", api_calls.plugin, missing.unwrap_or_default());
        api_calls.denials.record(Denied::Cache, &message);
        Refusal::forbidden(message)
    }

    /// Whether no informer of the kind holds objects of this namespace.
    fn outside(&self, namespace: Option<&str>) -> bool {
        !self.leases.iter().any(|lease| holds(lease, namespace))
    }

    /// Whether a list may show anything at all, in one namespace or in all.
    fn check_list(&self, api_calls: &ApiCalls, namespace: Option<&str>) -> Result<(), Refusal> {
        let allowed = match (&self.list_scope, namespace) {
            (Scope::None, _) => false,
            (Scope::All, _) | (Scope::Some(_), None) => true,
            (Scope::Some(namespaces), Some(wanted)) => namespaces.iter().any(|ns| ns == wanted),
        };
        let everywhere = if self.resource().namespaced { Place::AllNamespaces } else { Place::Cluster };
        let place = namespace.map_or(everywhere, Place::Namespace);
        if !allowed {
            return Err(self.forbidden(api_calls, "list", place, None));
        }
        self.rights.list.refusal(namespace).map_or(Ok(()), |why| Err(Self::beyond_account(api_calls, &why)))
    }
}

/// Whether an informer holds objects of a namespace, or any where none is asked for.
fn holds(lease: &InformerLease, namespace: Option<&str>) -> bool {
    lease.id().namespace.as_deref().is_none_or(|held| namespace.is_none_or(|wanted| held == wanted))
}

fn invalid(error: &dyn std::fmt::Display) -> Refusal {
    Refusal::invalid(error)
}

/// The longest that a guest may wait for its own writes to come into the cache: far longer than a watch that works takes.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

impl PluginImports {
    /// The caches that this generation reads; none before its kinds are resolved.
    pub(crate) fn caches(&self) -> impl Iterator<Item = writes::Cache<'_>> {
        let views = self.kinds.get().into_iter().flat_map(KindViews::values);
        views.flat_map(|view| &view.leases).map(|lease| (lease.id(), lease.indexer()))
    }

    /// Whether the ServiceAccount may watch again all that this generation watches, after changes may have been missed.
    pub(crate) fn are_rights_restored(&self) -> bool {
        let views = || self.kinds.get().into_iter().flat_map(KindViews::values);
        views().any(|view| view.rights.watch.are_broken())
            && views().all(|view| view.rights.watch.refusal(None).is_none())
    }

    /// The view of a watched kind; none before the kinds are resolved.
    pub(crate) fn kind(&self, kind: &Gvk) -> Option<&KindView> {
        self.kinds.get()?.get(kind)
    }

    fn view(&self, kind: &Gvk) -> Result<&KindView, Refusal> {
        self.kind(kind).ok_or_else(|| self.not_watched(kind, None))
    }

    fn not_watched(&self, kind: &Gvk, namespace: Option<&str>) -> Refusal {
        let place = namespace.map_or(String::new(), |namespace| format!(" in namespace {namespace}"));
        Refusal {
            reason: RefusalReason::NotWatched,
            message: format!(
                "plugin {} reads {kind}{place} from the cache but does not watch it there: add it to `watches` of the descriptor",
                self.plugin
            ),
        }
    }

    /// The indexes of this name, in the order of the informers.
    fn indexed<'a>(&self, view: &'a KindView, kind: &Gvk, index: &str) -> Result<&'a [IndexLease], Refusal> {
        view.indexes.get(index).map(Vec::as_slice).ok_or_else(|| Refusal {
            reason: RefusalReason::UnknownIndex,
            message: format!(
                "plugin {} has no index {index:?} on {kind}: add it to `indexes` of the descriptor",
                self.plugin
            ),
        })
    }
}

impl ConfigImports for PluginImports {
    fn config(&self) -> Arc<[u8]> {
        Arc::clone(&self.config)
    }
}

impl LogImports for PluginImports {
    fn host_time(&self, time: Duration) {
        self.host_time.add_imports(time);
    }

    fn log_enabled(&self, level: LogLevel) -> bool {
        match level {
            LogLevel::Trace => tracing::enabled!(target: "guest", tracing::Level::TRACE),
            LogLevel::Debug => tracing::enabled!(target: "guest", tracing::Level::DEBUG),
            LogLevel::Info => tracing::enabled!(target: "guest", tracing::Level::INFO),
            LogLevel::Warn => tracing::enabled!(target: "guest", tracing::Level::WARN),
            LogLevel::Error => tracing::enabled!(target: "guest", tracing::Level::ERROR),
        }
    }

    fn log(&self, context: &CallContext, level: LogLevel, message: &str, fields: &[(String, String)]) {
        if !self.log_enabled(level) {
            return;
        }
        let message = printable(message);
        let fields = Fields::of(fields);
        if !self
            .log_limit
            .allows(&self.plugin, message.len() + fields.as_ref().map_or(0, |fields| fields.0.len()))
        {
            return;
        }
        macro_rules! line {
            ($level:ident) => {
                tracing::event!(
                    target: "guest",
                    tracing::Level::$level,
                    plugin = &*self.plugin,
                    generation = self.generation,
                    key = context.key.as_ref().map(tracing::field::display),
                    call = (context.call_id > 0).then_some(context.call_id),
                    fields = fields.as_ref().map(|fields| tracing::field::display(&fields.0)),
                    "{message}"
                )
            };
        }
        match level {
            LogLevel::Trace => line!(TRACE),
            LogLevel::Debug => line!(DEBUG),
            LogLevel::Info => line!(INFO),
            LogLevel::Warn => line!(WARN),
            LogLevel::Error => line!(ERROR),
        }
    }
}

impl CacheImports for PluginImports {
    fn cache_get(&self, kind: &Gvk, key: &ObjectKey) -> Result<Option<Object>, Refusal> {
        let view = self.view(kind)?;
        if !view.gettable.sees(key) {
            let place = Place::of_object(key.namespace());
            return Err(view.forbidden(&self.api_calls, "get", place, Some(key.name())));
        }
        if !view.rights.get.allow(key) {
            let why = view.rights.get.refusal(key.namespace());
            let why = why.unwrap_or_else(|| "the ServiceAccount may not get this object".to_owned());
            return Err(KindView::beyond_account(&self.api_calls, &why));
        }
        let mut holding = view.leases.iter().filter(|lease| lease.id().covers(key)).peekable();
        if holding.peek().is_none() {
            return Err(self.not_watched(kind, key.namespace()));
        }
        Ok(holding.find_map(|lease| lease.indexer().get(key)))
    }

    fn cache_list(&self, kind: &Gvk, query: CacheQuery<'_>) -> Result<Box<dyn ObjectCursor>, Refusal> {
        let view = self.view(kind)?;
        let (terms, most) = (selector_terms(query.label_selector), self.selector_terms);
        if terms > most {
            return Err(Refusal::over_limit(format_args!(
                "the label selector has {terms} terms, values of sets included, at most {most} are allowed \
                 (limits.selectorTerms): use an index, or raise the limit"
            )));
        }
        let selector: LabelSelector = query.label_selector.parse().map_err(|e| invalid(&e))?;
        let namespace = Some(query.namespace).filter(|ns| !ns.is_empty());
        view.check_list(&self.api_calls, namespace)?;
        if view.outside(namespace) {
            return Err(self.not_watched(kind, namespace));
        }
        let index = match query.index {
            Some((name, value)) => Some((self.indexed(view, kind, name)?, value)),
            None => None,
        };
        let objects = view.cursors(namespace, |at, lease| {
            let snapshot = lease.indexer().snapshot();
            Ok(match (index, namespace) {
                (Some((indexes, value)), _) => snapshot.cursor_of_index(indexes[at].name(), value)?,
                (None, Some(namespace)) => snapshot.cursor_of_namespace(namespace),
                (None, None) => snapshot.cursor(),
            })
        });
        let objects = objects.map_err(|e| invalid(&e))?;
        // An index has the objects of all namespaces.
        let only = namespace.filter(|_| index.is_some());
        Ok(Box::new(VisibleObjects::new(objects, selector, view.listable.clone(), only)))
    }

    fn cache_index_values(
        &self,
        kind: &Gvk,
        index: &str,
        visit: &mut dyn FnMut(Option<&str>) -> ControlFlow<()>,
    ) -> Result<(), Refusal> {
        let view = self.view(kind)?;
        let indexes = self.indexed(view, kind, index)?.iter().map(IndexLease::name);
        view.check_list(&self.api_calls, None)?;
        let snapshots = view.leases.iter().map(|lease| lease.indexer().snapshot());
        let snapshots: Vec<_> = snapshots.zip(indexes).collect();
        // Objects of several informers may have the same value.
        let mut values = BTreeSet::new();
        for (snapshot, name) in &snapshots {
            for value in snapshot.index_values(name).map_err(|e| invalid(&e))? {
                values.insert(value);
                if visit(None).is_break() {
                    return Ok(());
                }
            }
        }
        for value in values {
            let mut shown = view.listable.sees_all();
            for (snapshot, name) in &snapshots {
                // A value that only hidden objects have is hidden too.
                let mut objects = snapshot.by_index(name, value).map_err(|e| invalid(&e))?;
                while !shown && let Some(object) = objects.next() {
                    shown = view.listable.sees(object.key());
                    if !shown && visit(None).is_break() {
                        return Ok(());
                    }
                }
            }
            if shown && visit(Some(value)).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn cache_wait_for_writes(&self, limit: Duration) -> WaitFuture {
        let writes = Arc::clone(&self.api_calls.writes);
        let caches: Vec<_> = self.caches().map(|(id, indexer)| (id.clone(), Arc::clone(indexer))).collect();
        let until = Instant::now() + limit.min(LONGEST_WAIT);
        Box::pin(async move {
            let caches = caches.iter().map(|(id, indexer)| (id, indexer));
            writes.wait(caches, WaitScope::All, until).await != WaitOutcome::TimedOut
        })
    }
}

impl ClientImports for PluginImports {
    fn clusters(&self) -> Arc<[String]> {
        self.remote_clusters.names()
    }

    fn client(&self, call: ClientCall) -> ClientFuture {
        match call.cluster.checked_sub(1) {
            None => self.api_calls.call(call),
            Some(place) => self.remote_clusters.call(place, call),
        }
    }
}

impl EventImports for PluginImports {
    fn record_event(&self, _context: &CallContext, event: GuestEvent) -> Result<(), Refusal> {
        let election = &self.api_calls.election;
        let not_here = (!election.is_leader()).then(|| election.why_not("records Events"));
        self.events.record(self.generation, not_here, &self.api_calls.grants, event).inspect_err(|refusal| {
            if refusal.reason == RefusalReason::Forbidden {
                self.api_calls.denials.record(Denied::Event, &refusal.message);
            }
        })
    }
}

impl MetricImports for PluginImports {
    fn metric_declare(&self, spec: MetricSpec) -> Result<Arc<dyn GuestMetric>, Refusal> {
        self.metrics.declare(spec, self.generation, self.metric_series)
    }
}

impl HttpImports for PluginImports {
    fn denied(&self, what: &str) {
        self.api_calls.denials.record(Denied::Http, what);
    }

    fn http(&self) -> Option<HttpClient> {
        Some(self.http.get())
    }
}

impl SystemImports for PluginImports {}

impl QueueImports for PluginImports {
    fn queue_room(&self, keys: &[ObjectKey]) -> Result<(), Refusal> {
        check_lengths(keys)?;
        let most = self.queue_depth;
        let has_room = match keys {
            [key] => self.queue.has_room_for(key, most),
            keys => self.queue.has_room_for_all(keys, most),
        };
        if has_room {
            return Ok(());
        }
        let adds = match keys {
            [key] => key.to_string(),
            keys => format!("{} keys", keys.len()),
        };
        Err(Refusal::over_limit(format_args!(
            "the queue is full: it may have {most} keys (limits.queueDepth), and the plugin adds {adds}"
        )))
    }

    fn queue_add(&self, keys: Vec<ObjectKey>, priority: i32) {
        let priority = Priority(priority);
        self.queue.add_batch(keys.into_iter().map(|key| (key, Reasons::ASKED, priority)));
    }

    fn queue_add_after(&self, key: ObjectKey, delay: Duration) {
        self.queue.add_after(key, Reasons::ASKED, Priority::NORMAL, delay);
    }

    fn queue_add_rate_limited(&self, key: ObjectKey) {
        self.queue.add_rate_limited(key, Reasons::ASKED, Priority::NORMAL);
    }

    fn queue_forget(&self, key: &ObjectKey) {
        self.queue.forget(key);
    }

    fn queue_num_requeues(&self, key: &ObjectKey) -> u32 {
        self.queue.num_requeues(key)
    }

    fn queue_len(&self) -> usize {
        self.queue.len()
    }
}

/// Maximum number of fields of a guest in one log line.
const MAX_FIELDS: usize = 32;

/// A guest's own fields as one JSON object: their names are not known at compile time, as tracing's must be.
struct Fields(String);

impl Fields {
    fn of(fields: &[(String, String)]) -> Option<Self> {
        let texts =
            fields.iter().take(MAX_FIELDS).map(|(name, value)| (printable(name), printable(value).into()));
        let map: serde_json::Map<String, serde_json::Value> = texts.collect();
        (!map.is_empty()).then(|| Self(serde_json::Value::Object(map).to_string()))
    }
}

/// Refuses keys that no object has: the queue keeps them outside of the memory of the guest.
fn check_lengths(keys: &[ObjectKey]) -> Result<(), Refusal> {
    match keys.iter().map(|key| key.as_str().len()).find(|length| *length > LONGEST_KEY) {
        Some(length) => Err(Refusal::over_limit(format_args!(
            "a key in the queue may have {LONGEST_KEY} bytes, and the plugin adds one of {length}: add the key of an object"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_no_object_has_is_not_taken_into_the_queue() {
        let key = |length: usize| ObjectKey::new(None, &"k".repeat(length)).unwrap();
        assert!(check_lengths(&[]).is_ok() && check_lengths(&[key(1), key(LONGEST_KEY)]).is_ok());
        let refused = check_lengths(&[key(1), key(LONGEST_KEY + 1)]).unwrap_err();
        assert_eq!(refused.reason, RefusalReason::OverLimit);
        assert!(refused.message.contains("adds one of 1025: add the key"), "{}", refused.message);
    }
}
