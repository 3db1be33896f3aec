//! The border in a component: calls of the generated bindings.
//!
//! Kinds are named to the host once: their handles stay for the life of the instance, as many as [`KINDS`] says.

use std::cell::RefCell;

pub(crate) use crate::bindings::imports::cache::{Cursor, Values};
pub(crate) use crate::bindings::imports::objects::Object;
use crate::bindings::imports::{
    cache, client, clock, config, events, kinds, log, metrics, queue, types as raw,
};
use crate::cache::Query;
use crate::client::{FieldValidation, Propagation, VersionMatch};
use crate::events::EventType;
use crate::log::Level;
use crate::metrics::MetricKind;
use crate::{Key, Kind};

use super::{CallOptions, Called, Declaration, EventParts, MetricUse, Page, PatchKind, Refused, Target};

/// Handles of kinds that are kept; the host allows 256 at a time. The least recently used goes first.
const KINDS: usize = 200;

struct KindHandle {
    cluster: u32,
    kind: Kind,
    handle: kinds::Kind,
}

thread_local! {
    /// The most recently used is the last.
    static HANDLES: RefCell<Vec<KindHandle>> = const { RefCell::new(Vec::new()) };
}

/// Calls a function with the handle of a kind. The function must not name another kind.
fn with_kind<R>(cluster: u32, kind: &Kind, call: impl FnOnce(&kinds::Kind) -> R) -> Refused<R> {
    HANDLES.with_borrow_mut(|handles| {
        let at = place_of(handles, cluster, kind)?;
        Ok(call(&handles[at].handle))
    })
}

/// Where the handle of a kind is; names the kind to the host if it is not there. Once for all calls, and not within each.
#[inline(never)]
fn place_of(handles: &mut Vec<KindHandle>, cluster: u32, kind: &Kind) -> Refused<usize> {
    let found = handles.iter().rposition(|known| known.cluster == cluster && known.kind == *kind);
    let at = match found {
        Some(at) => at,
        None => {
            let handle = kinds::resolve(cluster, kind.group(), kind.version(), kind.kind())?;
            if handles.len() == KINDS {
                handles.remove(0);
            }
            handles.push(KindHandle { cluster, kind: kind.clone(), handle });
            handles.len() - 1
        }
    };
    if at + 1 < handles.len() && handles.len() > KINDS / 2 {
        handles[at..].rotate_left(1);
        return Ok(handles.len() - 1);
    }
    Ok(at)
}

/// The host, which every component has exactly one of.
#[derive(Clone)]
pub(crate) struct Host;

impl Host {
    pub(crate) fn clusters(&self) -> Vec<String> {
        kinds::clusters()
    }

    pub(crate) fn cache_get(
        &self,
        cluster: u32,
        kind: &Kind,
        namespace: &str,
        name: &str,
    ) -> Refused<Option<Object>> {
        with_kind(cluster, kind, |kind| cache::get(kind, namespace, name))?
    }

    pub(crate) fn cache_get_many(
        &self,
        cluster: u32,
        kind: &Kind,
        keys: &[Key],
    ) -> Refused<Vec<Option<Object>>> {
        let keys: Vec<raw::ObjectKey> = keys.iter().map(Into::into).collect();
        with_kind(cluster, kind, |kind| cache::get_many(kind, &keys))?
    }

    pub(crate) fn cache_list(&self, cluster: u32, kind: &Kind, query: &Query) -> Refused<Cursor> {
        with_kind(cluster, kind, |kind| raw_query(kind, query))??.run()
    }

    pub(crate) fn cache_count(&self, cluster: u32, kind: &Kind, query: &Query) -> Refused<u64> {
        with_kind(cluster, kind, |kind| raw_query(kind, query))??.count()
    }

    pub(crate) fn cache_index_values(&self, cluster: u32, kind: &Kind, index: &str) -> Refused<Values> {
        with_kind(cluster, kind, |kind| cache::index_values(kind, index))?
    }

    pub(crate) fn wait_for_writes(&self, milliseconds: u64) -> bool {
        cache::wait_for_writes(milliseconds)
    }

    pub(crate) fn client_get(
        &self,
        cluster: u32,
        kind: &Kind,
        key: &Key,
        options: &CallOptions<'_>,
    ) -> Called<Object> {
        let options = raw_options(options)?;
        call(cluster, kind, |kind| client::get(kind, &key.namespace, &key.name, options.as_ref()))
    }

    pub(crate) fn client_list(&self, cluster: u32, kind: &Kind, options: &CallOptions<'_>) -> Called<Page> {
        let options = raw_options(options)?;
        let page = call(cluster, kind, |kind| client::list(kind, options.as_ref()))?;
        Ok(Page {
            items: page.items(),
            continue_token: page.continue_token(),
            resource_version: page.resource_version(),
            remaining_items: page.remaining_items(),
        })
    }

    pub(crate) fn client_create(
        &self,
        cluster: u32,
        kind: &Kind,
        body: &[u8],
        options: &CallOptions<'_>,
    ) -> Called<Object> {
        let options = raw_options(options)?;
        call(cluster, kind, |kind| client::create(kind, body, options.as_ref()))
    }

    pub(crate) fn client_update(
        &self,
        cluster: u32,
        kind: &Kind,
        body: &[u8],
        options: &CallOptions<'_>,
    ) -> Called<Object> {
        let options = raw_options(options)?;
        call(cluster, kind, |kind| client::update(kind, body, options.as_ref()))
    }

    pub(crate) fn client_patch(
        &self,
        cluster: u32,
        kind: &Kind,
        key: &Key,
        patch: PatchKind,
        body: &[u8],
        options: &CallOptions<'_>,
    ) -> Called<Object> {
        let options = raw_options(options)?;
        call(cluster, kind, |kind| {
            client::patch(kind, &key.namespace, &key.name, patch, body, options.as_ref())
        })
    }

    pub(crate) fn client_delete(
        &self,
        cluster: u32,
        kind: &Kind,
        key: &Key,
        options: &CallOptions<'_>,
    ) -> Called<Option<Object>> {
        let options = raw_options(options)?;
        call(cluster, kind, |kind| client::delete(kind, &key.namespace, &key.name, options.as_ref()))
    }

    pub(crate) fn client_delete_collection(
        &self,
        cluster: u32,
        kind: &Kind,
        options: &CallOptions<'_>,
    ) -> Called<()> {
        let options = raw_options(options)?;
        call(cluster, kind, |kind| client::delete_collection(kind, options.as_ref()))
    }

    pub(crate) fn pod_log(&self, cluster: u32, key: &Key, options: &CallOptions<'_>) -> Called<Vec<u8>> {
        let options = raw_options(options)?;
        client::pod_log(cluster, &key.namespace, &key.name, options.as_ref())
    }

    pub(crate) fn may(
        &self,
        cluster: u32,
        kind: &Kind,
        verb: &str,
        subresource: &str,
        key: &Key,
    ) -> Called<bool> {
        call(cluster, kind, |kind| client::may(kind, verb, subresource, &key.namespace, &key.name))
    }

    pub(crate) fn queue_add(&self, cluster: u32, key: &Key, priority: i32) -> Refused<()> {
        queue::add(cluster, &key.into(), priority)
    }

    pub(crate) fn queue_add_many(&self, cluster: u32, keys: &[Key], priority: i32) -> Refused<()> {
        let keys: Vec<raw::ObjectKey> = keys.iter().map(Into::into).collect();
        queue::add_many(cluster, &keys, priority)
    }

    pub(crate) fn queue_add_after(&self, cluster: u32, key: &Key, milliseconds: u64) -> Refused<()> {
        queue::add_after(cluster, &key.into(), milliseconds)
    }

    pub(crate) fn queue_add_rate_limited(&self, cluster: u32, key: &Key) -> Refused<()> {
        queue::add_rate_limited(cluster, &key.into())
    }

    pub(crate) fn queue_forget(&self, cluster: u32, key: &Key) -> Refused<()> {
        queue::forget(cluster, &key.into())
    }

    pub(crate) fn queue_num_requeues(&self, cluster: u32, key: &Key) -> u32 {
        queue::num_requeues(cluster, &key.into())
    }

    pub(crate) fn queue_len(&self) -> u32 {
        queue::len()
    }

    pub(crate) fn record_event(&self, cluster: u32, parts: &EventParts<'_>) -> Refused<()> {
        let event_type = match parts.event_type {
            EventType::Normal => events::EventType::Normal,
            EventType::Warning => events::EventType::Warning,
        };
        let event = match parts.about {
            Target::Object(object) => events::Event::about(object, event_type, parts.reason, parts.note)?,
            Target::Key { kind, key, uid } => with_kind(cluster, kind, |kind| {
                events::Event::about_key(
                    kind,
                    &key.as_ref().into(),
                    uid,
                    event_type,
                    parts.reason,
                    parts.note,
                )
            })??,
        };
        if let Some(action) = parts.action {
            event.action(action);
        }
        match parts.related {
            Some(Target::Object(object)) => event.related(object),
            Some(Target::Key { kind, key, uid }) => {
                with_kind(cluster, kind, |kind| event.related_key(kind, &key.as_ref().into(), uid))?;
            }
            None => {}
        }
        if let Some(path) = parts.field_path {
            event.field_path(path);
        }
        for (name, value) in parts.annotations {
            event.annotation(name, value);
        }
        if let Some(time) = parts.timestamp {
            event.timestamp(time);
        }
        event.record()
    }

    pub(crate) fn now(&self) -> u64 {
        clock::now()
    }

    pub(crate) fn now_rfc3339(&self) -> String {
        clock::now_rfc3339()
    }
}

/// The configuration of the manifest.
pub(crate) fn config() -> Vec<u8> {
    config::get()
}

pub(crate) fn log_enabled(level: Level) -> bool {
    log::enabled(level)
}

pub(crate) fn log_write(level: Level, message: &str, fields: &[(String, String)]) {
    log::write(level, message, fields);
}

/// A declared metric. The handle is good until the instance ends.
pub(crate) type MetricHandle = metrics::Metric;

impl Host {
    pub(crate) fn declare_metric(&self, declaration: &Declaration<'_>) -> Refused<MetricHandle> {
        let kind = match declaration.kind {
            MetricKind::Counter => metrics::MetricKind::Counter,
            MetricKind::Gauge => metrics::MetricKind::Gauge,
            MetricKind::Histogram => metrics::MetricKind::Histogram,
        };
        let labels: Vec<String> = declaration.labels.iter().map(|label| (*label).to_owned()).collect();
        metrics::declare(kind, declaration.name, declaration.help, &labels, declaration.buckets)
    }

    pub(crate) fn use_metric(&self, metric: &MetricHandle, labels: &[&str], what: MetricUse) -> Refused<()> {
        let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
        match what {
            MetricUse::Add(value) => metric.add(&labels, value),
            MetricUse::Set(value) => metric.set(&labels, value),
            MetricUse::Observe(value) => metric.observe(&labels, value),
            MetricUse::Remove => metric.remove(&labels),
        }
    }
}

fn call<R>(cluster: u32, kind: &Kind, call: impl FnOnce(&kinds::Kind) -> Called<R>) -> Called<R> {
    with_kind(cluster, kind, call).map_err(raw::ClientError::Refused)?
}

fn raw_query(kind: &kinds::Kind, query: &Query) -> Refused<cache::Query> {
    let raw = cache::Query::new(kind)?;
    if let Some(namespace) = &query.namespace {
        raw.namespace(namespace);
    }
    if let Some(selector) = &query.label_selector {
        raw.label_selector(selector);
    }
    if let Some((name, value)) = &query.index {
        raw.index(name, value);
    }
    if let Some(limit) = query.limit {
        raw.limit(limit);
    }
    Ok(raw)
}

/// Sets the options of these names that have a value.
macro_rules! set {
    ($raw:ident, $options:ident: $($name:ident)+) => {
        $(if let Some(value) = $options.$name {
            $raw.$name(value);
        })+
    };
}

/// The options as a resource of the host; none if none is set.
fn raw_options(options: &CallOptions<'_>) -> Called<Option<client::Options>> {
    if *options == CallOptions::default() {
        return Ok(None);
    }
    let raw = client::Options::new().map_err(raw::ClientError::Refused)?;
    set!(raw, options: subresource field_manager precondition_uid precondition_resource_version namespace label_selector);
    set!(raw, options: field_selector continue_token container grace_period_seconds limit tail_lines);
    if let Some(key) = options.name {
        raw.name(&key.namespace, &key.name);
    }
    if options.dry_run {
        raw.dry_run();
    }
    if options.force {
        raw.force();
    }
    if options.previous {
        raw.previous();
    }
    if let Some(mode) = options.field_validation {
        raw.field_validation(match mode {
            FieldValidation::Ignore => client::FieldValidation::Ignore,
            FieldValidation::Warn => client::FieldValidation::Warn,
            FieldValidation::Strict => client::FieldValidation::Strict,
        });
    }
    if let Some(policy) = options.propagation {
        raw.propagation(match policy {
            Propagation::Background => client::Propagation::Background,
            Propagation::Foreground => client::Propagation::Foreground,
            Propagation::Orphan => client::Propagation::Orphan,
        });
    }
    if let Some((version, meaning)) = options.resource_version {
        let meaning = meaning.map(|meaning| match meaning {
            VersionMatch::Exact => client::VersionMatch::Exact,
            VersionMatch::NotOlderThan => client::VersionMatch::NotOlderThan,
        });
        raw.resource_version(version, meaning);
    }
    Ok(Some(raw))
}
