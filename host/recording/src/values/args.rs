//! Arguments and results of guests as JSON.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pilothouse_engine::{
    CacheQuery, CallOptions, ClientCall, ClientVerb, Dependents, Event, EventTarget, Failure, Fault,
    GuestEvent, HttpRequestHead, LogLevel, MetricChange, MetricKind, MetricSpec, Outcome, PatchKind,
    ReasonSet, Request, VersionMatch,
};
use pilothouse_object::{Gvk, Object, ObjectKey};
use serde_json::{Map, Value, json};

/// A value that was put in as text can be read back.
pub(crate) trait Back: Sized {
    fn back(value: &Value) -> Option<Self>;
}

/// A kind.
pub(crate) fn kind(kind: &Gvk) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
}

/// What a body of a kind is to the masks, if it is anything.
fn secrecy(kind: &Gvk) -> Option<&'static str> {
    match (&*kind.group, &*kind.kind) {
        ("", "Secret") => Some("Secret"),
        ("authentication.k8s.io", "TokenRequest") => Some("TokenRequest"),
        _ => None,
    }
}

/// A key.
pub(crate) fn key(key: &ObjectKey) -> Value {
    json!({"key": key.as_str()})
}

/// Keys.
pub(crate) fn keys(keys: &[ObjectKey]) -> Value {
    keys.iter().map(ObjectKey::as_str).collect()
}

/// A key that is queued after a delay.
pub(crate) fn delayed(key: &ObjectKey, delay: Duration) -> Value {
    json!({"key": key.as_str(), "milliseconds": milliseconds(delay)})
}

/// One object of a kind.
pub(crate) fn object_at(of: &Gvk, key: &ObjectKey) -> Value {
    json!({"kind": kind(of), "key": key.as_str()})
}

/// An index of a kind.
pub(crate) fn index(of: &Gvk, index: &str) -> Value {
    json!({"kind": kind(of), "index": index})
}

/// The names of the levels, the least first.
const LEVELS: [(LogLevel, &str); 5] = [
    (LogLevel::Trace, "trace"),
    (LogLevel::Debug, "debug"),
    (LogLevel::Info, "info"),
    (LogLevel::Warn, "warn"),
    (LogLevel::Error, "error"),
];

/// The name of the least level that is enabled.
pub(crate) fn least_level(enabled: impl Fn(LogLevel) -> bool) -> Option<&'static str> {
    LEVELS.iter().find(|(level, _)| enabled(*level)).map(|(_, name)| *name)
}

impl Back for LogLevel {
    fn back(value: &Value) -> Option<Self> {
        LEVELS.iter().find(|(_, name)| value == name).map(|(level, _)| *level)
    }
}

/// A line of the log.
pub(crate) fn log_line(level: LogLevel, message: &str, fields: &[(String, String)]) -> Value {
    let name = least_level(|other| other == level);
    json!({"level": name, "message": message, "fields": fields})
}

/// Bytes that may be text.
pub(crate) fn bytes(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!({"text": text}),
        Err(_) => json!({"base64": STANDARD.encode(bytes)}),
    }
}

impl Back for Vec<u8> {
    fn back(value: &Value) -> Option<Self> {
        match value.get("text") {
            Some(text) => Some(text.as_str()?.as_bytes().to_vec()),
            None => STANDARD.decode(value.get("base64")?.as_str()?).ok(),
        }
    }
}

/// A JSON text that may have secrets.
pub(crate) fn body(text: &[u8], of: &Gvk, patch: Option<&str>) -> Value {
    let Ok(text) = std::str::from_utf8(text) else { return bytes(text) };
    let mut body = Map::new();
    body.insert("json".to_owned(), text.into());
    if let Some(of) = secrecy(of) {
        body.insert("of".to_owned(), of.into());
    }
    if let Some(patch) = patch {
        body.insert("patch".to_owned(), patch.into());
    }
    Value::Object(body)
}

/// An object as the guest reads it.
pub(crate) fn object(object: &Object) -> Value {
    // Its text is unpacked for this record alone.
    let object = object.fresh();
    let mut value = body(object.bytes(), &object.gvk(), None);
    if object.is_partial() {
        value["partial"] = true.into();
    }
    value
}

impl Back for Object {
    fn back(value: &Value) -> Option<Self> {
        let partial = value.get("partial").is_some_and(|partial| partial == true);
        Self::decode_again(value.get("json")?.as_str()?, partial).ok()
    }
}

/// A configuration, of which these members are secret.
pub(crate) fn config(config: &[u8], secret: &[String]) -> Value {
    let Ok(text) = std::str::from_utf8(config) else { return bytes(config) };
    json!({"json": text, "of": "config", "keys": secret})
}

fn milliseconds(time: Duration) -> Value {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).into()
}

/// A request.
pub(crate) fn request(request: &Request<'_>) -> Value {
    let reasons: Vec<_> = request.reasons.names().collect();
    json!({"key": request.key.as_str(), "attempt": request.attempt, "reasons": reasons, "priority": request.priority})
}

/// A request that was recorded.
pub(crate) struct OwnRequest {
    pub(crate) key: ObjectKey,
    attempt: u32,
    reasons: ReasonSet,
    priority: i32,
}

impl OwnRequest {
    pub(crate) fn as_request(&self) -> Request<'_> {
        let Self { key, attempt, reasons, priority } = self;
        Request { key, attempt: *attempt, reasons: *reasons, priority: *priority }
    }
}

impl Back for OwnRequest {
    fn back(value: &Value) -> Option<Self> {
        let mut bits = 0;
        for reason in value.get("reasons")?.as_array()? {
            let place = ReasonSet::NAMES.iter().position(|name| reason == *name)?;
            bits |= 1 << place;
        }
        Some(Self {
            key: value.get("key")?.as_str()?.parse().ok()?,
            attempt: value.get("attempt")?.as_u64()?.try_into().ok()?,
            reasons: ReasonSet::of_bits(bits),
            priority: value.get("priority")?.as_i64()?.try_into().ok()?,
        })
    }
}

/// Requests of a batch.
pub(crate) fn requests(all: &[Request<'_>]) -> Value {
    json!({"requests": all.iter().map(request).collect::<Vec<_>>()})
}

/// The arguments of a call with events.
pub(crate) fn event_args(watch: &str, events: &[Event<'_>]) -> Value {
    let event = |event: &Event<'_>| match event {
        Event::Added { object: new, initial } => json!({"added": object(new), "initial": initial}),
        Event::Updated { old, new } => json!({"updated": object(new), "old": old.map(object)}),
        Event::Deleted { key, object: last, final_state_unknown } => json!({
            "deleted": key.as_str(), "object": last.map(object), "finalStateUnknown": final_state_unknown,
        }),
    };
    json!({"watch": watch, "events": events.iter().map(event).collect::<Vec<_>>()})
}

/// The result of a reconcile.
pub(crate) fn outcome(answer: &Result<Outcome, Failure>) -> Value {
    match answer {
        Ok(Outcome::Done) => json!("done"),
        Ok(Outcome::Requeue) => json!("requeue"),
        Ok(Outcome::RequeueAfter(after)) => json!({"requeueAfter": milliseconds(*after)}),
        Err(failure) => failed(failure),
    }
}

/// A failure of a guest.
pub(crate) fn failed(failure: &Failure) -> Value {
    let mut value = json!({"failure": failure.message, "terminal": failure.terminal});
    if let Some(after) = failure.retry_after {
        value["retryAfter"] = milliseconds(after);
    }
    value
}

/// The results of a call with events.
pub(crate) fn handled(answers: &[Result<(), Failure>]) -> Value {
    let one = |answer: &Result<(), Failure>| answer.as_ref().map_or_else(failed, |()| json!("done"));
    answers.iter().map(one).collect()
}

/// The result of `describe`.
pub(crate) fn described(answer: &Result<Vec<u8>, String>) -> Value {
    match answer {
        Ok(description) => json!({"description": bytes(description)}),
        Err(message) => json!({"refused": message}),
    }
}

/// A fault.
pub(crate) fn fault(fault: &Fault) -> Value {
    json!({"fault": fault.kind.as_str(), "message": fault.message})
}

/// Which objects are read from the cache.
pub(crate) fn query(of: &Gvk, query: &CacheQuery<'_>) -> Value {
    let mut value = json!({"kind": kind(of)});
    for (name, text) in [("namespace", query.namespace), ("labelSelector", query.label_selector)] {
        if !text.is_empty() {
            value[name] = text.into();
        }
    }
    if let Some((index, of)) = query.index {
        value["index"] = json!({"name": index, "value": of});
    }
    value
}

/// A live call.
pub(crate) fn client_args(call: &ClientCall) -> (&'static str, Value) {
    let of = match (&*call.kind.kind, call.options.subresource.as_deref()) {
        ("ServiceAccount", Some("token")) => Gvk::new("authentication.k8s.io", "v1", "TokenRequest"),
        _ => call.kind.clone(),
    };
    let mut args = json!({"kind": kind(&call.kind)});
    if call.cluster > 0 {
        args["cluster"] = call.cluster.into();
    }
    let op = match &call.verb {
        ClientVerb::Get(key) => {
            args["key"] = key.as_str().into();
            "client.get"
        }
        ClientVerb::List => "client.list",
        ClientVerb::Create(text) => {
            args["body"] = body(text, &of, None);
            "client.create"
        }
        ClientVerb::Update(text) => {
            args["body"] = body(text, &of, None);
            "client.update"
        }
        ClientVerb::Patch { key, kind: patch, body: text } => {
            let patch = match patch {
                PatchKind::Json => "json",
                PatchKind::Merge => "merge",
                PatchKind::Strategic => "strategic",
                PatchKind::Apply => "apply",
            };
            args["key"] = key.as_str().into();
            args["body"] = body(text, &of, Some(patch));
            "client.patch"
        }
        ClientVerb::Delete(key) => {
            args["key"] = key.as_str().into();
            "client.delete"
        }
        ClientVerb::DeleteCollection => "client.delete-collection",
        ClientVerb::PodLog(key) => {
            args["key"] = key.as_str().into();
            "client.pod-log"
        }
        ClientVerb::May { verb, subresource, namespace, name } => {
            args["may"] =
                json!({"verb": verb, "subresource": subresource, "namespace": namespace, "name": name});
            "client.may"
        }
    };
    let options = options(&call.options);
    if !options.is_empty() {
        args["options"] = Value::Object(options);
    }
    (op, args)
}

/// The options that are set.
fn options(options: &CallOptions) -> Map<String, Value> {
    let CallOptions {
        subresource,
        dry_run,
        field_manager,
        field_validation,
        force,
        preconditions,
        propagation,
        grace_period_seconds,
        namespace,
        label_selector,
        field_selector,
        limit,
        continue_token,
        resource_version,
        version_match,
        target,
        container,
        tail_lines,
        previous,
    } = options;
    let propagation = propagation.map(|policy| match policy {
        Dependents::Background => "Background",
        Dependents::Foreground => "Foreground",
        Dependents::Orphan => "Orphan",
    });
    let version_match = version_match.map(|meaning| match meaning {
        VersionMatch::Exact => "Exact",
        VersionMatch::NotOlderThan => "NotOlderThan",
    });
    let preconditions = preconditions
        .as_ref()
        .map(|wanted| json!({"uid": wanted.uid, "resourceVersion": wanted.resource_version}));
    let all = json!({
        "subresource": subresource, "fieldManager": field_manager, "fieldValidation": field_validation,
        "preconditions": preconditions, "propagation": propagation, "gracePeriodSeconds": grace_period_seconds,
        "namespace": namespace, "continue": continue_token, "resourceVersion": resource_version,
        "versionMatch": version_match, "target": target.as_ref().map(ObjectKey::as_str), "container": container,
        "tailLines": tail_lines, "dryRun": dry_run.then_some(true), "force": force.then_some(true),
        "previous": previous.then_some(true), "limit": (*limit > 0).then_some(limit),
        "labelSelector": Some(label_selector).filter(|text| !text.is_empty()),
        "fieldSelector": Some(field_selector).filter(|text| !text.is_empty()),
    });
    match all {
        Value::Object(all) => all.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        _ => Map::new(),
    }
}

/// An Event that a guest records.
pub(crate) fn guest_event(event: &GuestEvent) -> Value {
    let target = |target: &EventTarget| {
        let EventTarget { kind: of, key, uid, resource_version } = target;
        json!({"kind": kind(of), "key": key.as_str(), "uid": uid, "resourceVersion": resource_version})
    };
    let mut value = json!({
        "regarding": target(&event.regarding), "warning": event.is_warning, "reason": event.reason,
        "action": event.action, "note": event.note,
    });
    if let Some(related) = &event.related {
        value["related"] = target(related);
    }
    let options = &event.options;
    if !options.annotations.is_empty() {
        value["annotations"] = json!(options.annotations);
    }
    if !options.field_path.is_empty() {
        value["fieldPath"] = options.field_path.clone().into();
    }
    if let Some(timestamp) = &options.timestamp {
        value["timestamp"] = timestamp.clone().into();
    }
    value
}

/// A metric that is declared.
pub(crate) fn metric_spec(spec: &MetricSpec) -> Value {
    let kind = match spec.kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::Histogram => "histogram",
    };
    let buckets: Vec<String> = spec.buckets.iter().map(f64::to_string).collect();
    json!({"kind": kind, "name": spec.name, "help": spec.help, "labels": spec.labels, "buckets": buckets})
}

/// A change of a metric. Numbers are text: JSON has no infinity.
pub(crate) fn metric_change(name: &str, labels: &[String], change: MetricChange) -> Value {
    let (how, by) = match change {
        MetricChange::Add(by) => ("add", by.to_string()),
        MetricChange::Set(to) => ("set", to.to_string()),
        MetricChange::Observe(value) => ("observe", value.to_string()),
        MetricChange::Remove => ("remove", String::new()),
    };
    json!({"name": name, "labels": labels, how: by})
}

/// Headers, sorted by their names.
pub(crate) fn headers(headers: &[(String, Vec<u8>)]) -> Value {
    let mut sorted: Vec<_> = headers.iter().collect();
    sorted.sort_by(|a, b| a.0.cmp(&b.0));
    sorted.into_iter().map(|(name, value)| json!([name, bytes(value)])).collect()
}

/// Adds the body of a request over HTTP, as far as it was sent. The network decides how far that is, unless it is all.
pub(crate) fn add_sent(args: &mut Value, sent: &[u8], is_all: bool) {
    let length = |header: &Value| {
        let is_length = header.get(0)? == "content-length";
        let length = Vec::back(header.get(1)?).filter(|_| is_length)?;
        std::str::from_utf8(&length).ok()?.parse::<usize>().ok()
    };
    let announced = args.get("headers").and_then(Value::as_array).and_then(|all| all.iter().find_map(length));
    args["body"] = bytes(sent);
    if !is_all && announced != Some(sent.len()) {
        args["sent"] = sent.len().into();
    }
}

/// How much of the body of a recorded request over HTTP was sent, if it was not all.
pub(crate) fn sent(args: &Value) -> Option<usize> {
    usize::try_from(args.get("sent")?.as_u64()?).ok()
}

/// A request over HTTP.
pub(crate) fn http_args(head: &HttpRequestHead) -> Value {
    json!({"method": head.method, "url": head.url, "headers": headers(&head.headers)})
}
