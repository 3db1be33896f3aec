//! [`World`]: a cluster and a host in memory.

use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::descriptor::Described;
use super::grants::{Grants, Rule};
use super::plugin::Plugin;
use super::queue::WorkQueue;
use super::records::{LogLine, Metrics, RecordedEvent, Write};
use super::server::{KindInfo, Part, Server, kind_of};
use super::state::{Prepared, State};
use crate::bindings::imports::types as raw;
use crate::duration::milliseconds;
use crate::log::Level;
use crate::sys::{self, CallOptions};
use crate::typed::{body_of, transfer};
use crate::{
    ApiStatus, Config, Context, Descriptor, Error, Key, Kind, Permission, Reasons, RefusalReason, Resource,
    Scope, Verb, http,
};

/// The manager of the author's writes.
const AUTHOR: &str = "test";

/// The time at which a world begins: 2026-01-01T00:00:00Z.
const BEGINNING: u64 = 1_767_225_600_000;

/// A cluster and a host in memory. A clone is the same world.
///
/// Its own methods to create, change and delete objects are those of the test's author: they need no permission and are
/// not recorded. They panic when the server would refuse, since a test has nothing to do with such an error.
#[derive(Clone)]
pub struct World(Rc<RefCell<State>>);

/// A request of the plugin to another server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpRequest {
    /// The method, such as `POST`.
    pub method: String,
    /// The URL.
    pub url: String,
    /// The headers, in their order.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body.
    pub body: Vec<u8>,
}

impl World {
    /// The world of a plugin with this configuration.
    ///
    /// # Panics
    /// When the plugin refuses the configuration, or its descriptor is malformed.
    pub fn of<P: Plugin>(config: impl Into<Value>) -> Self {
        let config = config.into().to_string().into_bytes();
        let descriptor = P::describe(&Config::from_json(config.clone()))
            .unwrap_or_else(|error| panic!("describe refuses the configuration: {error}"));
        let world = Self::new(&descriptor);
        let mut state = world.state();
        state.config = config;
        state.reconciles = P::RECONCILES;
        state.is_batch = P::TAKES_MANY;
        drop(state);
        world
    }

    /// The world of a plugin with this descriptor, for tests of functions that take a [`Context`].
    ///
    /// # Panics
    /// When the descriptor is malformed.
    pub fn new(descriptor: &Descriptor) -> Self {
        let described = descriptor
            .to_json()
            .and_then(|json| Described::parse(&json))
            .unwrap_or_else(|error| panic!("the descriptor is malformed: {error}"));
        let lines = Rc::default();
        sys::log_to(&lines);
        Self(Rc::new(RefCell::new(State {
            is_batch: false,
            grants: Grants { rules: described.permissions.clone(), revoked: Vec::new() },
            described,
            config: b"{}".to_vec(),
            server: Server::new(BEGINNING),
            cache: BTreeMap::new(),
            is_held: false,
            reconciles: true,
            queue: WorkQueue::default(),
            pending: Vec::new(),
            is_started: false,
            events: Vec::new(),
            writes: Vec::new(),
            metrics: Metrics::default(),
            prepared: Vec::new(),
            http: None,
            logs: BTreeMap::new(),
            lines,
            remote_clusters: Vec::new(),
        })))
    }

    pub(super) fn state(&self) -> RefMut<'_, State> {
        self.0.borrow_mut()
    }

    /// An instance of the plugin.
    ///
    /// # Panics
    /// When `new` fails.
    pub fn start<P: Plugin>(&self) -> P {
        let config = Config::from_json(self.state().config.clone());
        P::new(&config).unwrap_or_else(|error| panic!("new fails: {error}"))
    }

    /// The access to this host, for a direct call: `plugin.reconcile(&world.context(), &Request::new(key))`.
    pub fn context(&self) -> Context {
        let state = self.state();
        sys::log_to(&state.lines);
        Context::new(Rc::new(self.clone()), 0, state.described.name.clone())
    }

    // The queue and the time.

    /// Puts a key on the queue, as an operator.
    pub fn enqueue(&self, key: &Key) {
        self.state().queue.add(key, Reasons::MANUAL, 0);
    }

    /// The keys that are ready to be reconciled.
    pub fn queued(&self) -> Vec<Key> {
        self.state().queue.keys()
    }

    /// The keys that wait for a time, and how long they do.
    pub fn delayed(&self) -> Vec<(Key, Duration)> {
        let state = self.state();
        let delays = state.queue.delays(state.server.now).into_iter();
        delays.map(|(key, delay)| (key, Duration::from_millis(delay))).collect()
    }

    /// Moves the clock. It begins at 2026-01-01T00:00:00Z and stands still otherwise.
    pub fn advance(&self, time: Duration) {
        let mut state = self.state();
        state.server.now += milliseconds(time);
        state.remote_clusters.iter().for_each(|(_, remote)| remote.advance(time));
    }

    /// The time.
    pub fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.state().server.now)
    }

    // Objects.

    /// Creates an object, with its status.
    ///
    /// # Panics
    /// When the server refuses.
    pub fn create<K: Resource>(&self, object: &K) -> K {
        self.define_type::<K>();
        parse(&self.create_object(value(&text_of(object))))
    }

    /// Creates an object from JSON with `apiVersion`, `kind` and `metadata`.
    ///
    /// # Panics
    /// When the server refuses.
    pub fn create_object(&self, object: Value) -> Value {
        let kind = kind_of(&object);
        self.change("create", |server| server.create(&kind, object, AUTHOR, true, false))
    }

    /// An object as the server has it.
    ///
    /// # Panics
    /// When it does not have the form of the type.
    pub fn get<K: Resource>(&self, key: &Key) -> Option<K> {
        self.get_object(&Kind::of::<K>(), key).map(|object| parse(&object))
    }

    /// An object as the server has it, as JSON.
    pub fn get_object(&self, kind: &Kind, key: &Key) -> Option<Value> {
        self.state().server.get(kind, key).ok().map(|object| (*object).clone())
    }

    /// All objects of a type, in the order of their keys.
    ///
    /// # Panics
    /// When one does not have the form of the type.
    pub fn list<K: Resource>(&self) -> Vec<K> {
        self.state().server.all(&Kind::of::<K>()).map(|object| parse(object)).collect()
    }

    /// Changes an object, its status too. Fields that the type does not have stay as they are.
    ///
    /// # Panics
    /// When the object does not exist, or the server refuses.
    pub fn modify<K: Resource>(&self, key: &Key, change: impl FnOnce(&mut K)) -> K {
        let kind = Kind::of::<K>();
        let mut whole = self.existing(&kind, key);
        let mut object: K = parse(&whole);
        let before = value(&text_of(&object));
        change(&mut object);
        transfer(&mut whole, &before, &value(&text_of(&object)));
        parse(&self.change("modify", |server| server.update(&kind, whole, AUTHOR, Part::Whole, false)))
    }

    /// Sets the status of an object, as the controller of another kind would.
    ///
    /// # Panics
    /// When the object does not exist.
    pub fn set_status(&self, kind: &Kind, key: &Key, status: impl Into<Value>) {
        let mut object = self.existing(kind, key);
        object["status"] = status.into();
        self.change("set_status", |server| server.update(kind, object, AUTHOR, Part::Whole, false));
    }

    /// Deletes an object, as a user. With finalizers it stays and has a deletion timestamp.
    ///
    /// # Panics
    /// When it does not exist.
    pub fn delete(&self, kind: &Kind, key: &Key) {
        let mut state = self.state();
        if let Err(error) = state.server.delete(kind, key, &CallOptions::default()) {
            panic!("delete: {}", error.message);
        }
        state.sync();
    }

    fn existing(&self, kind: &Kind, key: &Key) -> Value {
        self.get_object(kind, key).unwrap_or_else(|| panic!("there is no {} {key}", kind.kind()))
    }

    fn change(
        &self,
        what: &str,
        change: impl FnOnce(&mut Server) -> super::server::Answer<Rc<Value>>,
    ) -> Value {
        let mut state = self.state();
        let changed = change(&mut state.server).unwrap_or_else(|error| panic!("{what}: {}", error.message));
        state.sync();
        (*changed).clone()
    }

    /// Says what a kind is, where the guess is wrong: the plural in English, and objects with a namespace. Types that
    /// [`create`](World::create) was called with are known.
    pub fn define(&self, kind: &Kind, plural: &str, scope: Scope) {
        let info = KindInfo { plural: plural.to_owned(), is_namespaced: scope == Scope::Namespaced };
        self.state().server.define(kind, info);
    }

    /// [`define`](World::define) for a type.
    pub fn define_type<K: Resource>(&self) {
        self.define(&Kind::of::<K>(), &K::resource_plural(), K::resource_scope());
    }

    // The host.

    /// Grants a permission that the descriptor does not ask for.
    pub fn grant(&self, permission: &Permission) {
        // What a permission writes is what a rule reads.
        self.state().grants.rules.extend(serde_json::from_str::<Rule>(&permission.json()));
    }

    /// Takes all permissions away that the plugin has for a verb on a resource: `revoke("apps", "deployments", Verb::Patch)`.
    pub fn revoke(&self, group: &str, resource: &str, verb: Verb) {
        let revoked = [group, resource, verb.as_str()].map(str::to_owned);
        self.state().grants.revoked.push(revoked);
    }

    /// Stops the cache, as one that is behind: the plugin reads old states, and nothing is queued, until
    /// [`release_cache`](World::release_cache).
    pub fn hold_cache(&self) {
        self.state().is_held = true;
    }

    /// Shows the cache what changed since [`hold_cache`](World::hold_cache).
    pub fn release_cache(&self) {
        let mut state = self.state();
        state.is_held = false;
        state.sync();
    }

    /// Makes the next live call with this verb and kind fail.
    pub fn fail_next(&self, verb: Verb, kind: &Kind, error: impl Into<Error>) {
        self.state().prepared.push((verb, kind.clone(), Prepared::Fails(raw_error(error.into()))));
    }

    /// Does something just before the next live call with this verb and kind: another writer, between the plugin's read
    /// and its write.
    pub fn before_next(&self, verb: Verb, kind: &Kind, happens: impl FnOnce(&World) + 'static) {
        self.state().prepared.push((verb, kind.clone(), Prepared::Happens(Box::new(happens))));
    }

    /// Answers the plugin's requests to other servers. Hosts that the descriptor does not ask for are denied.
    pub fn on_http(&self, server: impl Fn(&HttpRequest) -> Result<http::Response, http::Error> + 'static) {
        self.state().http = Some(Rc::new(move |request: &http::Request| server(&request.parts())));
    }

    /// Sets the log of a pod's container.
    pub fn set_pod_log(&self, pod: &Key, log: impl Into<Vec<u8>>) {
        self.state().logs.insert(pod.clone(), log.into());
    }

    // What the plugin did.

    /// The live calls that write, in their order, since the last call of this method.
    pub fn take_writes(&self) -> Vec<Write> {
        std::mem::take(&mut self.state().writes)
    }

    /// The Kubernetes Events that the plugin recorded, since the last call of this method.
    pub fn take_events(&self) -> Vec<RecordedEvent> {
        std::mem::take(&mut self.state().events)
    }

    /// The lines that the plugin logged, since the last call of this method.
    pub fn take_log(&self) -> Vec<LogLine> {
        let lines = self.state().lines.take();
        let line =
            |line: sys::Line| LogLine { level: line.level, message: line.message, fields: line.fields };
        lines.into_iter().map(line).collect()
    }

    /// Logs only lines of this level and above. The default is all.
    pub fn log_from(&self, level: Level) {
        sys::log_from(level);
    }

    /// The value of a counter or gauge with these label values.
    pub fn metric(&self, name: &str, labels: &[&str]) -> Option<f64> {
        self.state().metrics.values(name, labels).first().copied()
    }

    /// The values that a histogram got with these label values.
    pub fn observations(&self, name: &str, labels: &[&str]) -> Vec<f64> {
        self.state().metrics.values(name, labels)
    }
}

fn text_of<K: Resource>(object: &K) -> String {
    body_of(object).unwrap_or_else(|error| panic!("{error}"))
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn parse<K: Resource>(object: &Value) -> K {
    K::deserialize(object).unwrap_or_else(|error| {
        panic!("{} does not have the form of its type: {error}", object["metadata"]["name"])
    })
}

fn raw_error(error: Error) -> raw::ClientError {
    match error {
        Error::Api(status) => raw::ClientError::Api(raw_status(status)),
        Error::Refused(refusal) => {
            let reason = match refusal.reason {
                RefusalReason::Forbidden => raw::RefusalReason::Forbidden,
                RefusalReason::Invalid => raw::RefusalReason::Invalid,
                RefusalReason::NotWatched => raw::RefusalReason::NotWatched,
                RefusalReason::UnknownIndex => raw::RefusalReason::UnknownIndex,
                RefusalReason::OverLimit => raw::RefusalReason::OverLimit,
                RefusalReason::Unavailable => raw::RefusalReason::Unavailable,
                RefusalReason::Unsupported => raw::RefusalReason::Unsupported,
            };
            raw::ClientError::Refused(raw::Refusal { reason, message: refusal.message })
        }
        error => panic!("a live call cannot fail so: {error}"),
    }
}

fn raw_status(status: ApiStatus) -> raw::Status {
    let cause = |cause: crate::StatusCause| raw::StatusCause {
        reason: cause.reason,
        message: cause.message,
        field: cause.field,
    };
    raw::Status {
        code: status.code,
        reason: status.reason,
        message: status.message,
        causes: status.causes.into_iter().map(cause).collect(),
        retry_after: status.retry_after.map(milliseconds),
    }
}
