//! [`FakeControllerSource`]: one resource of an API server, in memory; what client-go's type of that name is for.
//!
//! It answers as kube-apiserver does where a reflector can tell: lists have the version of the whole collection, "0" is
//! never paged unless asked for, a version in the future is refused, a watch goes on exactly after its version and one
//! from before the last compaction ends with an ERROR frame in a stream that opened well. Faults are scripted: errors
//! queue up for the next lists or watches, streams are dropped or broken, connections refused.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::unfold;
use parking_lot::Mutex;
use pilothouse_client::{
    ApiResource, Error, ListParams, ResourceVersionMatch, Result, WatchEvent, WatchParams,
};
use pilothouse_object::{ListMeta, Object, ObjectKey};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::errors;
use super::objects::object;
use super::selection::{Past, Selection};
use crate::source::lister_watcher::{EventStream, ItemSink, ListerWatcher};

/// One request that the server got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// A list or a page of one.
    List {
        /// When.
        at: Instant,
        /// What was asked for.
        params: ListParams,
    },
    /// A watch.
    Watch {
        /// When.
        at: Instant,
        /// What was asked for.
        params: WatchParams,
    },
}

impl Request {
    /// When it came.
    #[must_use]
    pub fn at(&self) -> Instant {
        match self {
            Self::List { at, .. } | Self::Watch { at, .. } => *at,
        }
    }
}

/// One resource of an API server, in memory; a clone is the same server.
#[derive(Clone)]
pub struct FakeControllerSource {
    resource: ApiResource,
    state: Arc<Mutex<State>>,
    requests: watch::Sender<usize>,
}

#[derive(Default)]
struct State {
    version: u64,
    next_uid: u64,
    objects: BTreeMap<ObjectKey, Object>,
    history: Vec<Past>,
    compacted: u64,
    watchers: Vec<Watcher>,
    requests: Vec<Request>,
    /// What becomes of the next requests; `None` is served.
    list_script: VecDeque<Option<Error>>,
    watch_script: VecDeque<Option<Error>>,
    /// Lists answered with what was, not with what is.
    stale_lists: VecDeque<(u64, Vec<Object>)>,
    refused: bool,
    pages_from_zero: bool,
    /// Whether sources serve streaming lists, and whether these have an end.
    watch_lists: Option<bool>,
    continued: HashMap<String, (u64, Vec<Object>)>,
    /// What discovery answers; by default that the resource is served.
    served: Option<Result<bool>>,
}

struct Watcher {
    selection: Selection,
    events: mpsc::UnboundedSender<Result<WatchEvent>>,
}

impl FakeControllerSource {
    /// A server without objects, at version 1.
    #[must_use]
    pub fn new(resource: ApiResource) -> Self {
        let state = State { version: 1, ..State::default() };
        Self { resource, state: Arc::new(Mutex::new(state)), requests: watch::Sender::new(0) }
    }

    /// A source of the objects of all namespaces.
    #[must_use]
    pub fn source(&self) -> Arc<dyn ListerWatcher> {
        self.source_in(None)
    }

    /// A source of the objects of one namespace.
    #[must_use]
    pub fn source_in(&self, namespace: Option<&str>) -> Arc<dyn ListerWatcher> {
        Arc::new(Source { server: self.clone(), namespace: namespace.map(str::to_owned) })
    }

    /// The resource that it serves.
    #[must_use]
    pub fn resource(&self) -> &ApiResource {
        &self.resource
    }

    // The cluster's life.

    /// Creates an object; `body` holds any fields but the identity.
    ///
    /// # Panics
    /// When it exists.
    pub fn create(&self, key: &str, body: Value) -> Object {
        let mut state = self.state.lock();
        state.next_uid += 1;
        let uid = format!("uid-{}", state.next_uid);
        let created = self.put(&mut state, key, &uid, body, WatchEvent::Added);
        assert!(created.1.is_none(), "{key} exists");
        created.0
    }

    /// Changes an object: `body` replaces all fields but the identity.
    ///
    /// # Panics
    /// When it does not exist.
    pub fn update(&self, key: &str, body: Value) -> Object {
        let mut state = self.state.lock();
        let uid = state.objects.get(key).map(|object| object.uid().to_owned());
        let uid = uid.unwrap_or_else(|| panic!("{key} does not exist"));
        self.put(&mut state, key, &uid, body, WatchEvent::Modified).0
    }

    /// Deletes an object; its last state.
    ///
    /// # Panics
    /// When it does not exist.
    pub fn delete(&self, key: &str) -> Object {
        let mut state = self.state.lock();
        let gone = state.objects.remove(key).unwrap_or_else(|| panic!("{key} does not exist"));
        state.version += 1;
        let version = state.version.to_string();
        // Its last state, at the version of the deletion.
        let body = serde_json::from_str(gone.json()).expect("JSON");
        let last = object(&self.resource.gvk, key, gone.uid(), &version, body);
        state.publish(Some(gone), WatchEvent::Deleted(last.clone()));
        last
    }

    /// Deletes an object and creates another one under its key.
    pub fn recreate(&self, key: &str, body: Value) -> Object {
        self.delete(key);
        self.create(key, body)
    }

    fn put(
        &self,
        state: &mut State,
        key: &str,
        uid: &str,
        body: Value,
        event: fn(Object) -> WatchEvent,
    ) -> (Object, Option<Object>) {
        state.version += 1;
        let new = object(&self.resource.gvk, key, uid, &state.version.to_string(), body);
        let old = state.objects.insert(new.key().clone(), new.clone());
        state.publish(old.clone(), event(new.clone()));
        (new, old)
    }

    /// What exists.
    #[must_use]
    pub fn objects(&self) -> Vec<Object> {
        self.state.lock().objects.values().cloned().collect()
    }

    /// The version of the collection.
    #[must_use]
    pub fn version(&self) -> String {
        self.state.lock().version.to_string()
    }

    /// The version moves on, by changes of other resources, without an event.
    pub fn skip_versions(&self, count: u64) {
        self.state.lock().version += count;
    }

    // Watches.

    /// Sends a bookmark to all watches.
    pub fn bookmark(&self) {
        let mut state = self.state.lock();
        let resource_version = state.version.to_string();
        state.send(&WatchEvent::Bookmark { resource_version, initial_events_end: false });
    }

    /// Ends all watches, as a server does at their time-out.
    pub fn drop_watches(&self) {
        self.state.lock().watchers.clear();
    }

    /// Ends all watches with an error.
    pub fn break_watches(&self, error: &Error) {
        for watcher in self.state.lock().watchers.drain(..) {
            let _ = watcher.events.send(Err(error.clone()));
        }
    }

    /// Forgets the history: watches from older versions get a 410 frame.
    pub fn compact(&self) {
        let mut state = self.state.lock();
        state.compacted = state.version;
        state.history.clear();
    }

    /// Open watches.
    #[must_use]
    pub fn open_watches(&self) -> usize {
        let mut state = self.state.lock();
        state.watchers.retain(|watcher| !watcher.events.is_closed());
        state.watchers.len()
    }

    // Faults.

    /// Refuses all connections, and breaks those that are open; or serves again.
    pub fn refuse(&self, refused: bool) {
        self.state.lock().refused = refused;
        if refused {
            self.break_watches(&errors::connection_reset());
        }
    }

    /// What discovery answers to whether the resource is served.
    pub fn set_served(&self, answer: Result<bool>) {
        self.state.lock().served = Some(answer);
    }

    /// The next lists (or pages) fail with these.
    pub fn fail_lists(&self, errors: impl IntoIterator<Item = Error>) {
        self.script_lists(errors.into_iter().map(Some));
    }

    /// The next lists (or pages) fail with these, or are served where there is none.
    pub fn script_lists(&self, outcomes: impl IntoIterator<Item = Option<Error>>) {
        self.state.lock().list_script.extend(outcomes);
    }

    /// The next watches fail to open with these.
    pub fn fail_watches(&self, errors: impl IntoIterator<Item = Error>) {
        self.state.lock().watch_script.extend(errors.into_iter().map(Some));
    }

    /// Forgets all scripted faults and serves connections again.
    pub fn heal(&self) {
        let mut state = self.state.lock();
        state.list_script.clear();
        state.watch_script.clear();
        state.stale_lists.clear();
        state.refused = false;
    }

    /// The next list that is no quorum read is answered with the present state, however late it comes.
    pub fn freeze_next_list(&self) {
        let mut state = self.state.lock();
        let frozen = (state.version, state.objects.values().cloned().collect());
        state.stale_lists.push_back(frozen);
    }

    /// Whether a list from "0" comes in pages, as without a watch cache.
    pub fn set_pages_from_zero(&self, pages: bool) {
        self.state.lock().pages_from_zero = pages;
    }

    /// Whether its sources serve streaming lists (`sendInitialEvents`); at first they say that they do not.
    pub fn set_watch_lists(&self, served: bool) {
        self.state.lock().watch_lists = served.then_some(true);
    }

    /// Whether the bookmark that ends the initial events of streaming lists, which it serves then, is sent.
    pub fn set_initial_events_end(&self, sent: bool) {
        self.state.lock().watch_lists = Some(sent);
    }

    /// All continue tokens given out so far are too old.
    pub fn expire_continue_tokens(&self) {
        self.state.lock().continued.clear();
    }

    /// The server is restored from a backup: what exists goes back to these objects, the version with them.
    pub fn restore(&self, version: u64, objects: Vec<Object>) {
        let mut state = self.state.lock();
        state.version = version;
        state.objects = objects.into_iter().map(|object| (object.key().clone(), object)).collect();
        state.history.clear();
        state.compacted = version;
        state.watchers.clear();
    }

    // What it was asked.

    /// All requests.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.state.lock().requests.clone()
    }

    /// The versions of all lists, in order; "" where none was asked for.
    #[must_use]
    pub fn list_versions(&self) -> Vec<String> {
        let lists = self.requests().into_iter().filter_map(|request| match request {
            Request::List { params, .. } => Some(params.resource_version.unwrap_or_default()),
            Request::Watch { .. } => None,
        });
        lists.collect()
    }

    /// All watch requests, in order.
    #[must_use]
    pub fn watches(&self) -> Vec<(Instant, WatchParams)> {
        let watches = self.requests().into_iter().filter_map(|request| match request {
            Request::Watch { at, params } => Some((at, params)),
            Request::List { .. } => None,
        });
        watches.collect()
    }

    /// Every change since the last compaction: version, `+` for a creation, `-` for a deletion, and the key.
    #[must_use]
    pub fn events(&self) -> Vec<(u64, &'static str, ObjectKey)> {
        let state = self.state.lock();
        let change = |past: &Past| match &past.event {
            WatchEvent::Added(object) => Some((past.version, "+", object.key().clone())),
            WatchEvent::Modified(object) => Some((past.version, "", object.key().clone())),
            WatchEvent::Deleted(object) => Some((past.version, "-", object.key().clone())),
            WatchEvent::Bookmark { .. } => None,
        };
        state.history.iter().filter_map(change).collect()
    }

    /// Waits until it got `count` requests in all that are of this kind.
    pub async fn wait_for_requests(&self, count: usize, of: impl Fn(&Request) -> bool) {
        let mut requests = self.requests.subscribe();
        while self.state.lock().requests.iter().filter(|request| of(request)).count() < count {
            let _ = requests.changed().await;
        }
    }

    /// Waits until it got `count` lists in all.
    pub async fn wait_for_lists(&self, count: usize) {
        self.wait_for_requests(count, |request| matches!(request, Request::List { .. })).await;
    }

    /// Waits until it got `count` watches in all.
    pub async fn wait_for_watches(&self, count: usize) {
        self.wait_for_requests(count, |request| matches!(request, Request::Watch { .. })).await;
    }

    fn note(&self, state: &mut State, request: Request) -> Result<()> {
        let scripted = match request {
            Request::List { .. } => &mut state.list_script,
            Request::Watch { .. } => &mut state.watch_script,
        };
        let refused = state.refused.then(errors::connection_refused);
        let outcome = refused.or_else(|| scripted.pop_front().flatten()).map_or(Ok(()), Err);
        state.requests.push(request);
        self.requests.send_modify(|count| *count += 1);
        outcome
    }
}

impl State {
    fn publish(&mut self, before: Option<Object>, event: WatchEvent) {
        let past = Past { version: self.version, before, event };
        self.watchers.retain(|watcher| {
            watcher.selection.event(&past).is_none_or(|event| watcher.events.send(Ok(event)).is_ok())
        });
        self.history.push(past);
    }

    fn send(&mut self, event: &WatchEvent) {
        self.watchers.retain(|watcher| watcher.events.send(Ok(event.clone())).is_ok());
    }

    fn list(&mut self, namespace: Option<&str>, params: &ListParams) -> Result<(Vec<Object>, ListMeta)> {
        let selection = Selection::new(namespace, &params.label_selector, &params.field_selector)?;
        let (version, mut items) = if let Some(token) = &params.continue_token {
            self.continued.remove(token).ok_or_else(errors::expired)?
        } else {
            let wanted = params.resource_version.as_deref().map(str::parse::<u64>);
            let exact = params.resource_version_match == Some(ResourceVersionMatch::Exact);
            let frozen = if wanted.is_some() && !exact { self.stale_lists.pop_front() } else { None };
            if let Some(Ok(wanted)) = wanted
                && wanted > self.version
            {
                return Err(errors::too_large_dialects()[0].clone());
            }
            match wanted {
                Some(Ok(wanted)) if exact => (wanted, self.objects_at(wanted)?),
                _ => frozen.unwrap_or_else(|| (self.version, self.objects.values().cloned().collect())),
            }
        };
        items.retain(|object| selection.shows(object));
        let mut meta = ListMeta { resource_version: version.to_string(), ..ListMeta::default() };
        let from_zero = params.resource_version.as_deref() == Some("0");
        let limit = params.limit as usize;
        if limit > 0 && items.len() > limit && (!from_zero || self.pages_from_zero) {
            let rest = items.split_off(limit);
            meta.continue_token = format!("token-{}", self.requests.len());
            meta.remaining_item_count = Some(rest.len() as u64);
            self.continued.insert(meta.continue_token.clone(), (version, rest));
        }
        Ok((items, meta))
    }

    /// What existed at a version.
    fn objects_at(&self, version: u64) -> Result<Vec<Object>> {
        if version < self.compacted {
            return Err(errors::expired());
        }
        let mut objects = self.objects.clone();
        for past in self.history.iter().rev().take_while(|past| past.version > version) {
            match (&past.before, &past.event) {
                (Some(before), _) => _ = objects.insert(before.key().clone(), before.clone()),
                (None, WatchEvent::Added(object)) => _ = objects.remove(object.key()),
                (None, _) => {}
            }
        }
        Ok(objects.into_values().collect())
    }

    fn watch(&mut self, namespace: Option<&str>, params: &WatchParams) -> Result<EventStream> {
        let selection = Selection::new(namespace, &params.label_selector, &params.field_selector)?;
        let from = params.resource_version.as_deref().and_then(|version| version.parse::<u64>().ok());
        if params.send_initial_events {
            if self.watch_lists.is_none() {
                let message =
                    "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
                return Err(errors::status(422, "Invalid", message));
            }
            if from.is_some_and(|from| from > self.version) {
                return Err(errors::too_large_dialects()[0].clone());
            }
        }
        let (events, stream) = mpsc::unbounded_channel();
        let send = |event| {
            let _ = events.send(event);
        };
        let from = if params.send_initial_events { 0 } else { from.unwrap_or_default() };
        if from == 0 {
            let shown = self.objects.values().filter(|object| selection.shows(object));
            shown.for_each(|object| send(Ok(WatchEvent::Added(object.clone()))));
            if params.send_initial_events && self.watch_lists == Some(true) {
                let resource_version = self.version.to_string();
                send(Ok(WatchEvent::Bookmark { resource_version, initial_events_end: true }));
            }
        } else if from < self.compacted {
            send(Err(errors::expired()));
        } else {
            let later = self.history.iter().filter(|past| past.version > from);
            later.filter_map(|past| selection.event(past)).for_each(|event| send(Ok(event)));
        }
        if from == 0 || from >= self.compacted {
            self.watchers.push(Watcher { selection, events });
        }
        Ok(unfold(stream, async |mut stream| stream.recv().await.map(|event| (event, stream))).boxed())
    }
}

struct Source {
    server: FakeControllerSource,
    namespace: Option<String>,
}

impl ListerWatcher for Source {
    fn list<'a>(&'a self, params: &'a ListParams, item: ItemSink<'a>) -> BoxFuture<'a, Result<ListMeta>> {
        Box::pin(async move {
            let mut state = self.server.state.lock();
            let request = Request::List { at: Instant::now(), params: params.clone() };
            self.server.note(&mut state, request)?;
            let (items, meta) = state.list(self.namespace.as_deref(), params)?;
            drop(state);
            items.into_iter().for_each(item);
            Ok(meta)
        })
    }

    fn watch<'a>(&'a self, params: &'a WatchParams) -> BoxFuture<'a, Result<EventStream>> {
        Box::pin(async move {
            let mut state = self.server.state.lock();
            let request = Request::Watch { at: Instant::now(), params: params.clone() };
            self.server.note(&mut state, request)?;
            state.watch(self.namespace.as_deref(), params)
        })
    }

    fn supports_watch_list(&self) -> bool {
        self.server.state.lock().watch_lists.is_some()
    }

    fn is_served(&self) -> BoxFuture<'_, Result<bool>> {
        let answer = self.server.state.lock().served.clone();
        Box::pin(async move { answer.unwrap_or(Ok(true)) })
    }
}

impl std::fmt::Debug for FakeControllerSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FakeControllerSource").field("version", &self.version()).finish_non_exhaustive()
    }
}
