//! A [`World`] as the host of a plugin: checks of watches and permissions, and the calls themselves.

use std::rc::Rc;

use serde_json::{Value, json};

use super::World;
use super::checks::{check_key, invalid, place, place_of_all, refusal};
use super::clusters::check_cluster;
use super::grants::{self, Access, Place};
use super::records::{RecordedEvent, Write};
use super::selector::{self, Selector};
use super::server::{self, Part, kind_of, status};
use super::state::Prepared;
use super::time;
use crate::bindings::imports::types as raw;
use crate::cache::Query;
use crate::sys::{
    CallOptions, Called, Cursor, Declaration, EventParts, MetricHandle, MetricUse, NativeHost, Object, Page,
    PatchKind, Refused, Target, Values,
};
use crate::{Key, Kind, Reasons, Verb, http};

/// Objects of a page, and keys of one call.
const PAGE: usize = 500;
const KEYS: usize = 1_000;
const QUEUED_AT_ONCE: usize = 16_384;

/// The largest body.
const BODY: usize = 3 << 20;

impl World {
    /// The part of a live call that all have: the check of the permission, and what the test prepared.
    fn begin(&self, verb: Verb, kind: &Kind, subresource: &str, at: Place<'_>, name: &str) -> Called<()> {
        self.state().check_call(verb, kind, subresource, at, name)?;
        // Not in the condition of the loop: the closure uses the state.
        loop {
            let prepared = self.state().take_prepared(verb, kind);
            match prepared {
                Some(Prepared::Happens(closure)) => closure(self),
                Some(Prepared::Fails(error)) => return Err(error),
                None => return Ok(()),
            }
        }
    }

    /// Notes a write before it is made.
    fn note(&self, verb: Verb, kind: &Kind, key: &Key, body: &Value, options: &CallOptions<'_>) {
        let mut state = self.state();
        let plural = state.server.info(kind).plural;
        let resource = options.subresource.map_or(plural.clone(), |sub| format!("{plural}/{sub}"));
        let (kind, key, body) = (kind.clone(), key.clone(), body.clone());
        state.writes.push(Write { verb, kind, resource, key, body, dry_run: options.dry_run });
    }

    /// Makes a write, and shows it to the cache.
    fn write<T>(&self, write: impl FnOnce(&mut server::Server) -> server::Answer<T>) -> Called<T> {
        let mut state = self.state();
        let answer = write(&mut state.server);
        state.sync();
        answer.map_err(raw::ClientError::Api)
    }

    fn manager(&self, options: &CallOptions<'_>) -> String {
        options.field_manager.map_or_else(|| self.state().described.name.clone(), str::to_owned)
    }

    fn create_subresource(&self, kind: &Kind, key: &Key, subresource: &str, body: &Value) -> Called<Value> {
        let missing = |server: &server::Server| server.get(kind, key).map_err(raw::ClientError::Api);
        match subresource {
            "eviction" => {
                self.write(|server| server.delete(kind, key, &CallOptions::default()))?;
                Ok(body.clone())
            }
            "binding" => {
                let node = body["target"]["name"].clone();
                self.write(|server| {
                    let mut pod = (*server.get(kind, key)?).clone();
                    pod["spec"]["nodeName"] = node;
                    server.update(kind, pod, "scheduler", Part::Whole, false)
                })?;
                Ok(body.clone())
            }
            "token" => {
                let state = self.state();
                missing(&state.server)?;
                let seconds = body["spec"]["expirationSeconds"].as_u64().unwrap_or(3_600);
                let expires = time::rfc3339(state.server.now + seconds * 1_000);
                let mut answer = body.clone();
                answer["status"] =
                    json!({"token": format!("token-of-{key}"), "expirationTimestamp": expires});
                Ok(answer)
            }
            other => {
                let message = format!("the test world has no subresource {other:?}");
                Err(raw::ClientError::Api(status(404, "NotFound", message)))
            }
        }
    }
}

fn parse_body(body: &[u8]) -> Called<Value> {
    if body.len() > BODY {
        let message = format!("a body of {} bytes, more than {BODY}", body.len());
        return Err(raw::ClientError::Refused(refusal(raw::RefusalReason::OverLimit, message)));
    }
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| raw::ClientError::Refused(invalid(format!("the body is not JSON: {error}"))))?;
    if value["metadata"]["annotations"].get("pilothouse.dev/partial").is_some() {
        let message = "the body is that of a partial object, and would delete the fields that the store lacks: \
                       read it live, or patch what is different";
        return Err(raw::ClientError::Refused(invalid(message)));
    }
    Ok(value)
}

fn key_in(body: &Value) -> Key {
    let text = |name: &str| body["metadata"][name].as_str().unwrap_or_default();
    Key::namespaced(text("namespace"), text("name"))
}

fn live(value: Rc<Value>, cluster: u32) -> Object {
    Object::new(value, false).in_cluster(cluster)
}

fn called<T>(check: Refused<T>) -> Called<T> {
    check.map_err(raw::ClientError::Refused)
}

impl NativeHost for World {
    fn clusters(&self) -> Vec<String> {
        self.cluster_names()
    }

    fn cache_get(&self, cluster: u32, kind: &Kind, namespace: &str, name: &str) -> Refused<Option<Object>> {
        self.check_cached(cluster, kind)?;
        let key = Key::namespaced(namespace, name);
        check_key(&key)?;
        self.state().cache_get(kind, &key)
    }

    fn cache_get_many(&self, cluster: u32, kind: &Kind, keys: &[Key]) -> Refused<Vec<Option<Object>>> {
        self.check_cached(cluster, kind)?;
        if keys.len() > KEYS {
            let message = format!("{} keys in one call, more than {KEYS} (limits.pageObjects)", keys.len());
            return Err(refusal(raw::RefusalReason::OverLimit, message));
        }
        let state = self.state();
        keys.iter().map(|key| check_key(key).and_then(|()| state.cache_get(kind, key))).collect()
    }

    fn cache_list(&self, cluster: u32, kind: &Kind, query: &Query) -> Refused<Cursor> {
        self.check_cached(cluster, kind)?;
        let state = self.state();
        let objects = state.select(kind, query)?;
        Ok(Cursor::new(objects.into_iter().map(|(_, object)| state.cached(kind, object))))
    }

    fn cache_count(&self, cluster: u32, kind: &Kind, query: &Query) -> Refused<u64> {
        self.check_cached(cluster, kind)?;
        Ok(self.state().select(kind, query)?.len() as u64)
    }

    fn cache_index_values(&self, cluster: u32, kind: &Kind, index: &str) -> Refused<Values> {
        self.check_cached(cluster, kind)?;
        let state = self.state();
        state.check_list(kind, "")?;
        if !state.described.has_index(kind, index) {
            return Err(state.unknown_index(kind, index));
        }
        let objects = state.select(kind, &Query::all())?;
        let mut values: Vec<String> = objects
            .into_iter()
            .flat_map(|(_, object)| state.described.index_values(kind, index, object))
            .collect();
        values.sort_unstable();
        values.dedup();
        Ok(Values::new(values))
    }

    fn wait_for_writes(&self, _milliseconds: u64) -> bool {
        !self.state().is_held
    }

    fn client_get(&self, cluster: u32, kind: &Kind, key: &Key, options: &CallOptions<'_>) -> Called<Object> {
        let world = called(self.accessed(cluster).and_then(|world| check_key(key).map(|()| world)))?;
        let subresource = options.subresource.unwrap_or_default();
        world.begin(Verb::Get, kind, subresource, place(&key.namespace), &key.name)?;
        let object = world.state().server.get(kind, key).map_err(raw::ClientError::Api)?;
        if subresource != "scale" {
            return Ok(live(object, cluster));
        }
        let scale = json!({
            "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": object["metadata"],
            "spec": {"replicas": object["spec"]["replicas"]}, "status": {"replicas": object["status"]["replicas"]},
        });
        Ok(live(Rc::new(scale), cluster))
    }

    fn client_list(&self, cluster: u32, kind: &Kind, options: &CallOptions<'_>) -> Called<Page> {
        let world = called(self.accessed(cluster))?;
        let namespace = options.namespace.unwrap_or_default();
        let at = place_of_all(&world.state().server, kind, namespace);
        world.begin(Verb::List, kind, "", at, "")?;
        let labels = Selector::parse(options.label_selector.unwrap_or_default())
            .map_err(|error| raw::ClientError::Api(status(400, "BadRequest", error)))?;
        let fields = options.field_selector.unwrap_or_default();
        selector::check_fields(fields)
            .map_err(|error| raw::ClientError::Api(status(400, "BadRequest", error)))?;
        let first: usize = options.continue_token.unwrap_or("0").parse().map_err(|_| {
            raw::ClientError::Api(status(410, "Expired", "the continue token is not one of this list"))
        })?;
        let state = world.state();
        let matches = |object: &&Rc<Value>| {
            (namespace.is_empty() || object["metadata"]["namespace"] == namespace)
                && labels.matches(object)
                && selector::fields_match(fields, object)
        };
        let all: Vec<&Rc<Value>> = state.server.all(kind).filter(matches).collect();
        let size = options.limit.map_or(PAGE, |limit| (limit as usize).clamp(1, PAGE));
        let items: Vec<Object> =
            all.iter().skip(first).take(size).map(|object| live(Rc::clone(object), cluster)).collect();
        let next = first + items.len();
        let is_last = next >= all.len();
        Ok(Page {
            items,
            continue_token: (!is_last).then(|| next.to_string()),
            resource_version: state.server.version(),
            remaining_items: (!is_last).then(|| (all.len() - next) as u64),
        })
    }

    fn client_create(
        &self,
        cluster: u32,
        kind: &Kind,
        body: &[u8],
        options: &CallOptions<'_>,
    ) -> Called<Object> {
        let world = called(self.accessed(cluster))?;
        let body = parse_body(body)?;
        let (key, subresource) = match (options.name, options.subresource) {
            (Some(key), Some(subresource)) => (key.clone(), subresource),
            (None, None) => (key_in(&body), ""),
            _ => {
                let message = "the options `name` and `subresource` belong together";
                return Err(raw::ClientError::Refused(invalid(message)));
            }
        };
        world.begin(Verb::Create, kind, subresource, place(&key.namespace), &key.name)?;
        world.note(Verb::Create, kind, &key, &body, options);
        if !subresource.is_empty() {
            return Ok(live(Rc::new(world.create_subresource(kind, &key, subresource, &body)?), cluster));
        }
        let manager = world.manager(options);
        world
            .write(|server| server.create(kind, body, &manager, false, options.dry_run))
            .map(|value| live(value, cluster))
    }

    fn client_update(
        &self,
        cluster: u32,
        kind: &Kind,
        body: &[u8],
        options: &CallOptions<'_>,
    ) -> Called<Object> {
        let world = called(self.accessed(cluster))?;
        let body = parse_body(body)?;
        let key = key_in(&body);
        called(check_key(&key))?;
        let subresource = options.subresource.unwrap_or_default();
        world.begin(Verb::Update, kind, subresource, place(&key.namespace), &key.name)?;
        world.note(Verb::Update, kind, &key, &body, options);
        let part = if subresource.is_empty() { Part::Spec } else { Part::Status };
        let manager = world.manager(options);
        world
            .write(|server| server.update(kind, body, &manager, part, options.dry_run))
            .map(|value| live(value, cluster))
    }

    fn client_patch(
        &self,
        cluster: u32,
        kind: &Kind,
        key: &Key,
        patch: PatchKind,
        body: &[u8],
        options: &CallOptions<'_>,
    ) -> Called<Object> {
        let world = called(self.accessed(cluster).and_then(|world| check_key(key).map(|()| world)))?;
        let body = parse_body(body)?;
        let (subresource, at) = (options.subresource.unwrap_or_default(), place(&key.namespace));
        world.begin(Verb::Patch, kind, subresource, at, &key.name)?;
        if patch == PatchKind::Apply {
            // An apply creates a missing object.
            world.state().check_call(Verb::Create, kind, subresource, at, &key.name)?;
        }
        world.note(Verb::Patch, kind, key, &body, options);
        let manager = world.manager(options);
        if subresource == "scale" {
            let patch = json!({"spec": {"replicas": body["spec"]["replicas"]}});
            let whole = CallOptions { subresource: None, ..*options };
            return world
                .write(|server| server.patch(kind, key, PatchKind::Merge, &patch, &manager, &whole))
                .map(|value| live(value, cluster));
        }
        world
            .write(|server| server.patch(kind, key, patch, &body, &manager, options))
            .map(|value| live(value, cluster))
    }

    fn client_delete(
        &self,
        cluster: u32,
        kind: &Kind,
        key: &Key,
        options: &CallOptions<'_>,
    ) -> Called<Option<Object>> {
        let world = called(self.accessed(cluster).and_then(|world| check_key(key).map(|()| world)))?;
        world.begin(Verb::Delete, kind, "", place(&key.namespace), &key.name)?;
        world.note(Verb::Delete, kind, key, &Value::Null, options);
        Ok(world.write(|server| server.delete(kind, key, options))?.map(|value| live(value, cluster)))
    }

    fn client_delete_collection(&self, cluster: u32, kind: &Kind, options: &CallOptions<'_>) -> Called<()> {
        let world = called(self.accessed(cluster))?;
        let namespace = options.namespace.unwrap_or_default();
        let at = place_of_all(&world.state().server, kind, namespace);
        world.begin(Verb::DeleteCollection, kind, "", at, "")?;
        let collection = Key::namespaced(namespace, "");
        world.note(Verb::DeleteCollection, kind, &collection, &Value::Null, options);
        let labels = Selector::parse(options.label_selector.unwrap_or_default())
            .map_err(|error| raw::ClientError::Api(status(400, "BadRequest", error)))?;
        let fields = options.field_selector.unwrap_or_default();
        world.write(|server| {
            let matches = |object: &&Rc<Value>| {
                (namespace.is_empty() || object["metadata"]["namespace"] == namespace)
                    && labels.matches(object)
                    && selector::fields_match(fields, object)
            };
            let keys: Vec<Key> = server.all(kind).filter(matches).map(|object| key_in(object)).collect();
            keys.iter().try_for_each(|key| server.delete(kind, key, options).map(drop))
        })
    }

    fn pod_log(&self, cluster: u32, key: &Key, options: &CallOptions<'_>) -> Called<Vec<u8>> {
        let world = called(self.accessed(cluster).and_then(|world| check_key(key).map(|()| world)))?;
        let kind = Kind::core("v1", "Pod");
        world.begin(Verb::Get, &kind, "log", place(&key.namespace), &key.name)?;
        let state = world.state();
        state.server.get(&kind, key).map_err(raw::ClientError::Api)?;
        let log = state.logs.get(key).cloned().unwrap_or_default();
        let Some(lines) = options.tail_lines else { return Ok(log) };
        let all: Vec<&[u8]> = log.split_inclusive(|byte| *byte == b'\n').collect();
        Ok(all[all.len().saturating_sub(lines as usize)..].concat())
    }

    fn may(&self, cluster: u32, kind: &Kind, verb: &str, subresource: &str, key: &Key) -> Called<bool> {
        let world = called(self.accessed(cluster))?;
        let state = world.state();
        let plural = state.server.info(kind).plural;
        let resource = if subresource.is_empty() { plural } else { format!("{plural}/{subresource}") };
        let place = place_of_all(&state.server, kind, &key.namespace);
        let access = Access { verb, group: kind.group(), resource: &resource, place, name: &key.name };
        Ok(grants::check(&state.grants, &access).is_ok())
    }

    fn queue_add(&self, cluster: u32, key: &Key, priority: i32) -> Refused<()> {
        self.queue_add_many(cluster, std::slice::from_ref(key), priority)
    }

    fn queue_add_many(&self, cluster: u32, keys: &[Key], priority: i32) -> Refused<()> {
        check_cluster(cluster)?;
        if keys.len() > QUEUED_AT_ONCE {
            let message = format!("{} keys in one call, more than {QUEUED_AT_ONCE}", keys.len());
            return Err(refusal(raw::RefusalReason::OverLimit, message));
        }
        keys.iter().try_for_each(check_key)?;
        let mut state = self.state();
        keys.iter().for_each(|key| state.queue.add(key, Reasons::REQUEUED, priority));
        Ok(())
    }

    fn queue_add_after(&self, cluster: u32, key: &Key, milliseconds: u64) -> Refused<()> {
        check_cluster(cluster).and_then(|()| check_key(key))?;
        let mut state = self.state();
        let due = state.server.now.saturating_add(milliseconds);
        state.queue.add_at(key, due, Reasons::REQUEUED);
        Ok(())
    }

    fn queue_add_rate_limited(&self, cluster: u32, key: &Key) -> Refused<()> {
        check_cluster(cluster).and_then(|()| check_key(key))?;
        let mut state = self.state();
        let now = state.server.now;
        state.queue.add_rate_limited(key, now, 0);
        Ok(())
    }

    fn queue_forget(&self, cluster: u32, key: &Key) -> Refused<()> {
        check_cluster(cluster).and_then(|()| check_key(key))?;
        self.state().queue.forget(key);
        Ok(())
    }

    fn queue_num_requeues(&self, _cluster: u32, key: &Key) -> u32 {
        self.state().queue.failures(key)
    }

    fn queue_len(&self) -> u32 {
        u32::try_from(self.state().queue.len()).unwrap_or(u32::MAX)
    }

    fn record_event(&self, cluster: u32, parts: &EventParts<'_>) -> Refused<()> {
        check_cluster(cluster)?;
        for target in [Some(parts.about), parts.related].into_iter().flatten() {
            if let Target::Object(object) = target {
                check_cluster(object.cluster())?;
            }
        }
        let named = |target: &Target<'_>| match target {
            Target::Object(object) => (kind_of(object.value()), Key::from(object.key()), object.uid()),
            Target::Key { kind, key, uid } => {
                (kind.clone().into_owned(), key.clone().into_owned(), uid.clone().into_owned())
            }
        };
        let (kind, key, uid) = named(parts.about);
        if parts.reason.is_empty() {
            return Err(invalid("an Event needs a reason"));
        }
        let namespace = if key.is_namespaced() { key.namespace.as_str() } else { "default" };
        let mut state = self.state();
        let access = Access {
            verb: "create",
            group: "",
            resource: "events",
            place: Place::Namespace(namespace),
            name: "",
        };
        grants::check(&state.grants, &access)
            .map_err(|message| refusal(raw::RefusalReason::Forbidden, message))?;
        let related = parts.related.map(named).map(|(kind, key, _)| (kind, key));
        state.events.push(RecordedEvent {
            event_type: parts.event_type,
            reason: parts.reason.to_owned(),
            note: parts.note.to_owned(),
            action: parts.action.unwrap_or(parts.reason).to_owned(),
            kind,
            key,
            uid,
            related,
            field_path: parts.field_path.map(str::to_owned),
            annotations: parts.annotations.to_vec(),
            timestamp: parts.timestamp.map(str::to_owned),
        });
        Ok(())
    }

    fn now(&self) -> u64 {
        self.state().server.now
    }

    fn now_rfc3339(&self) -> String {
        time::rfc3339(self.state().server.now)
    }

    fn declare_metric(&self, declaration: &Declaration<'_>) -> Refused<MetricHandle> {
        self.state().metrics.declare(declaration)?;
        Ok(MetricHandle(declaration.name.to_owned()))
    }

    fn use_metric(&self, metric: &MetricHandle, labels: &[&str], what: MetricUse) -> Refused<()> {
        self.state().metrics.apply(&metric.0, labels, what)
    }

    fn send_http(&self, request: &http::Request) -> Result<http::Response, http::Error> {
        let authority = request.authority();
        let server = {
            let state = self.state();
            if !state.described.outgoing_hosts.iter().any(|host| host == "*" || *host == authority) {
                return Err(http::Error::denied(&authority));
            }
            state.http.clone()
        };
        match server {
            Some(server) => server(request),
            None => Err(http::Error::unanswered(&authority)),
        }
    }
}
