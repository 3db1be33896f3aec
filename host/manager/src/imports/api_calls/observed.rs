//! What the audit and the traces get of a write.

use pilothouse_client::{ApiResource, Error};
use pilothouse_engine::{ClientAnswer, ClientCall, ClientVerb, PatchKind};
use tracing::{Span, field};

use super::ApiCalls;
use super::operation::{Target, verb_name};
use crate::observe::audit::{self, Ended, LONGEST, Write, clip};
use crate::observe::traces::{TRACE, failed, number};

impl ApiCalls {
    /// A call as the audit and the traces have it.
    pub(super) fn as_write<'a>(
        &'a self,
        resource: &'a ApiResource,
        call: &'a ClientCall,
        target: &'a Target,
    ) -> Write<'a> {
        Write {
            key: call.context.key.as_ref(),
            call: call.context.call_id,
            cluster: self.remote_cluster.as_deref(),
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
        }
    }

    /// Hands a write that has ended to the audit, and ends its span.
    pub(super) fn observe(
        &self,
        span: &Span,
        write: &Write<'_>,
        call: &ClientCall,
        outcome: &Result<ClientAnswer, Error>,
    ) {
        let ended = ended(call, outcome);
        if !span.is_disabled() {
            span.record("k8s.name", ended.name.or(write.name).map(|name| clip(name, LONGEST)));
            span.record("http.response.status_code", ended.code.map(number));
            outcome.as_ref().err().into_iter().for_each(|error| failed(span, &error.to_string()));
        }
        audit::record(&self.plugin, write, &ended);
    }
}

/// The span of a write within that of its call; none if the call has none.
pub(super) fn span(within: &Span, write: &Write<'_>) -> Span {
    if within.is_disabled() {
        return Span::none();
    }
    tracing::info_span!(
        target: TRACE,
        parent: within,
        "write",
        otel.kind = "client",
        k8s.cluster.name = write.cluster,
        k8s.verb = write.verb,
        k8s.group = clip(write.group, LONGEST),
        k8s.resource = clip(write.resource, LONGEST),
        k8s.subresource = write.subresource.map(|text| clip(text, LONGEST)),
        k8s.namespace = write.namespace.map(|text| clip(text, LONGEST)),
        k8s.name = field::Empty,
        http.response.status_code = field::Empty,
        otel.status_description = field::Empty,
    )
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
