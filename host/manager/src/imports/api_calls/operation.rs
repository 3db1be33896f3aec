//! The operation of a live call: its verb, the object or objects that it is on, and the options that it takes.

use pilothouse_engine::{CallOptions, ClientVerb, PatchKind, Refusal};

use super::body::{Body, BodyMeta};

/// The object of a call, for the check of grants.
pub(super) struct Target {
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
}

/// The verb of the API, as grants name it.
pub(super) fn verb_name(verb: &ClientVerb) -> &'static str {
    match verb {
        ClientVerb::Get(_) | ClientVerb::PodLog(_) | ClientVerb::May { .. } => "get",
        ClientVerb::List => "list",
        ClientVerb::Create(_) => "create",
        ClientVerb::Update(_) => "update",
        ClientVerb::Patch { .. } => "patch",
        ClientVerb::Delete(_) => "delete",
        ClientVerb::DeleteCollection => "deletecollection",
    }
}

/// How messages name the call.
fn call_name(verb: &ClientVerb) -> &'static str {
    match verb {
        ClientVerb::PodLog(_) => "pod-log",
        ClientVerb::May { .. } => "may",
        verb => verb_name(verb),
    }
}

/// Refuses options that the verb would not scope: one that is silently dropped could turn a call on a subresource, which
/// the grants allow, into one on the whole object, which they may not.
pub(super) fn check_options(options: &CallOptions, verb: &ClientVerb) -> Result<(), Refusal> {
    let list = matches!(verb, ClientVerb::List);
    let collection = list || matches!(verb, ClientVerb::DeleteCollection);
    let deletes_one = matches!(verb, ClientVerb::Delete(_));
    let deletes = deletes_one || matches!(verb, ClientVerb::DeleteCollection);
    let apply = matches!(verb, ClientVerb::Patch { kind: PatchKind::Apply, .. });
    let creates = matches!(verb, ClientVerb::Create(_));
    let body = creates || matches!(verb, ClientVerb::Update(_) | ClientVerb::Patch { .. });
    let get = matches!(verb, ClientVerb::Get(_));
    let log = matches!(verb, ClientVerb::PodLog(_));
    let creates_below = creates && options.target.is_some();
    let on_object = get || creates_below || (body && !creates);
    let selects = options.namespace.is_some()
        || !options.label_selector.is_empty()
        || !options.field_selector.is_empty();
    let pages = options.limit != 0 || options.continue_token.is_some() || options.version_match.is_some();
    let reads_log = options.container.is_some() || options.tail_lines.is_some() || options.previous;
    let foreign = [
        ("subresource", options.subresource.is_some() && !on_object),
        ("name", options.target.is_some() && !creates),
        ("dryRun", options.dry_run && !body && !deletes),
        ("fieldManager", options.field_manager.is_some() && !body),
        ("fieldValidation", options.field_validation.is_some() && !body),
        ("force", options.force && !apply),
        ("preconditions", options.preconditions.is_some() && !deletes_one),
        ("propagationPolicy", options.propagation.is_some() && !deletes),
        ("gracePeriodSeconds", options.grace_period_seconds.is_some() && !deletes),
        ("resourceVersion", options.resource_version.is_some() && !list && !get),
        ("namespace, labelSelector and fieldSelector", selects && !collection),
        ("limit, continue and resourceVersionMatch", pages && !list),
        ("container, tailLines and previous", reads_log && !log),
    ];
    if let Some((name, _)) = foreign.iter().find(|(_, given)| *given) {
        let call = call_name(verb);
        return Err(Refusal::invalid(format_args!("options: {name} has no meaning for {call}")));
    }
    if options.target.is_some() && options.subresource.is_none() {
        return Err(Refusal::invalid(
            "options: a name is of the object whose subresource is created: name the subresource too",
        ));
    }
    Ok(())
}

/// What a call is on.
pub(super) fn target(verb: &ClientVerb, options: &CallOptions) -> Result<Target, Refusal> {
    let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    Ok(match verb {
        ClientVerb::Get(key)
        | ClientVerb::Patch { key, .. }
        | ClientVerb::Delete(key)
        | ClientVerb::PodLog(key) => {
            Target { namespace: key.namespace().map(str::to_owned), name: Some(key.name().to_owned()) }
        }
        ClientVerb::List | ClientVerb::DeleteCollection => {
            Target { namespace: options.namespace.clone().filter(|ns| !ns.is_empty()), name: None }
        }
        ClientVerb::May { namespace, name, .. } => Target { namespace: given(namespace), name: given(name) },
        ClientVerb::Create(_) if let Some(key) = &options.target => {
            Target { namespace: key.namespace().map(str::to_owned), name: Some(key.name().to_owned()) }
        }
        ClientVerb::Create(body) | ClientVerb::Update(body) => {
            let body: Body =
                serde_json::from_slice(body).map_err(|e| Refusal::invalid(format_args!("body: {e}")))?;
            let BodyMeta { namespace, name, generate_name, .. } = body.metadata;
            let named = name.is_some() || (matches!(verb, ClientVerb::Create(_)) && generate_name.is_some());
            if !named {
                return Err(Refusal::invalid("body: metadata.name is missing"));
            }
            Target { namespace: namespace.filter(|ns| !ns.is_empty()), name }
        }
    })
}
