//! What the audit and the traces get of a write that has ended.

use std::time::Instant;

use pilothouse_client::{ApiResource, Error};
use pilothouse_engine::{ClientAnswer, ClientCall, ClientVerb, PatchKind};

use super::ApiCalls;
use super::operation::{Target, verb_name};
use crate::observe::audit::{self, Ended, Write};
use crate::observe::traces::{Attribute, CallTrace};

impl ApiCalls {
    /// Hands a write to the audit, and to the trace of its call.
    pub(super) fn observe(
        &self,
        began: Instant,
        of: Option<CallTrace>,
        resource: &ApiResource,
        call: &ClientCall,
        target: &Target,
        outcome: &Result<ClientAnswer, Error>,
    ) {
        let write = Write { cluster: self.remote_cluster.as_deref(), ..write_of(resource, call, target) };
        let ended = ended(call, outcome);
        if let (Some(traces), Some(of)) = (&self.traces, of) {
            let error = outcome.as_ref().err().map(ToString::to_string);
            traces.write(of, began, attributes(&write, &ended), error);
        }
        audit::record(&self.plugin, &write, &ended);
    }
}

fn write_of<'a>(resource: &'a ApiResource, call: &'a ClientCall, target: &'a Target) -> Write<'a> {
    Write {
        key: call.context.key.as_ref(),
        call: call.context.call_id,
        verb: match call.verb {
            ClientVerb::Patch { kind: PatchKind::Apply, .. } => "apply",
            _ => verb_name(&call.verb),
        },
        group: &resource.gvk.group,
        resource: &resource.plural,
        subresource: call.options.subresource.as_deref(),
        namespace: target.namespace.as_deref().filter(|_| resource.namespaced),
        name: target.name.as_deref(),
        dry_run: call.options.dry_run,
        ..Write::default()
    }
}

fn ended<'a>(call: &ClientCall, outcome: &'a Result<ClientAnswer, Error>) -> Ended<'a> {
    // The answer to a create of a subresource is another object.
    let is_of_target = call.options.target.is_none();
    match outcome {
        Ok(ClientAnswer::Object(object) | ClientAnswer::Deleted(Some(object))) if is_of_target => {
            Ended::done(Some(object.name()))
        }
        Ok(_) => Ended::done(None),
        Err(error) => error.into(),
    }
}

fn attributes(write: &Write<'_>, ended: &Ended<'_>) -> Vec<(&'static str, Attribute)> {
    let mut attributes: Vec<(&'static str, Attribute)> = vec![
        ("k8s.verb", write.verb.into()),
        ("k8s.group", write.group.into()),
        ("k8s.resource", write.resource.into()),
    ];
    let name = ended.name.or(write.name);
    let texts = [
        ("k8s.cluster.name", write.cluster),
        ("k8s.subresource", write.subresource),
        ("k8s.namespace", write.namespace),
        ("k8s.name", name),
    ];
    attributes.extend(texts.into_iter().filter_map(|(key, text)| Some((key, text?.into()))));
    attributes.extend(ended.code.map(|code| ("http.response.status_code", u64::from(code).into())));
    attributes
}
