//! Probes of containers, and what is done when one starts or stops.

use super::node::Node;
use crate::api::syntax;
use crate::schema::Causes;

/// What a probe is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Probe {
    Liveness,
    Readiness,
    Startup,
}

/// A probe, which may be absent.
pub(super) fn probe(of: Probe, probe: &Node<'_, '_>, causes: &mut Causes) {
    if !probe.is_set() {
        return;
    }
    handler(probe, &["exec", "httpGet", "tcpSocket", "grpc"], None, causes);
    for field in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        probe.field(field).non_negative(causes);
    }
    let grace = probe.field("terminationGracePeriodSeconds");
    if grace.int().is_some_and(|grace| grace <= 0) {
        grace.invalid_number(causes, "must be greater than 0");
    }
    let successes = probe.field("successThreshold");
    if of == Probe::Readiness {
        if grace.is_set() {
            grace.invalid(causes, "must not be set for readinessProbes");
        }
    } else if successes.int_or_zero() != 1 {
        successes.invalid_number(causes, "must be 1");
    }
}

/// `lifecycle` of a container, which may be absent.
pub(super) fn lifecycle(lifecycle: &Node<'_, '_>, grace: Option<i64>, causes: &mut Causes) {
    for name in ["postStart", "preStop"] {
        let action = lifecycle.field(name);
        if action.is_set() {
            handler(&action, &["exec", "httpGet", "tcpSocket", "sleep"], grace, causes);
        }
    }
}

/// Of the handlers just one is there.
fn handler(of: &Node<'_, '_>, names: &[&str], grace: Option<i64>, causes: &mut Causes) {
    let mut has_one = false;
    for name in names {
        let handler = of.field(name);
        if !handler.is_set() {
            continue;
        }
        if has_one {
            handler.forbidden(causes, "may not specify more than 1 handler type");
            continue;
        }
        has_one = true;
        match *name {
            "exec" => {
                if handler.field("command").is_empty() {
                    handler.field("command").required(causes, "");
                }
            }
            "httpGet" => http_get(&handler, causes),
            "sleep" => sleep(&handler, grace, causes),
            _ => handler.field("port").port(causes),
        }
    }
    if !has_one {
        of.required(causes, "must specify a handler type");
    }
}

fn http_get(http: &Node<'_, '_>, causes: &mut Causes) {
    http.field("path").is_given(causes);
    http.field("port").port(causes);
    http.field("scheme").one_of(causes, &["HTTP", "HTTPS"]);
    let headers = http.field("httpHeaders");
    for header in headers.each() {
        let name = header.field("name").text();
        headers.faults_of(causes, name, syntax::header_name(name));
    }
}

fn sleep(sleep: &Node<'_, '_>, grace: Option<i64>, causes: &mut Causes) {
    let seconds = sleep.field("seconds").int_or_zero();
    if let Some(grace) = grace
        && !(0..=grace).contains(&seconds)
    {
        let why = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        sleep.invalid_as(causes, &seconds.into(), &why);
    }
}
