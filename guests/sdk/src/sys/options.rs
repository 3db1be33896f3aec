//! Arguments of calls, as plain values: the options of live calls, Events, and uses of metrics.

use std::borrow::Cow;

use crate::client::{FieldValidation, Propagation, VersionMatch};
use crate::events::EventType;
use crate::metrics::MetricKind;
use crate::{Key, Kind};

pub(crate) use crate::bindings::imports::client::PatchKind;

/// Options of a live call; those that are not set are left to the host.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct CallOptions<'a> {
    pub(crate) subresource: Option<&'a str>,
    /// The object whose subresource is created.
    pub(crate) name: Option<&'a Key>,
    pub(crate) field_manager: Option<&'a str>,
    pub(crate) field_validation: Option<FieldValidation>,
    pub(crate) dry_run: bool,
    pub(crate) force: bool,
    pub(crate) precondition_uid: Option<&'a str>,
    pub(crate) precondition_resource_version: Option<&'a str>,
    pub(crate) propagation: Option<Propagation>,
    pub(crate) grace_period_seconds: Option<u32>,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) label_selector: Option<&'a str>,
    pub(crate) field_selector: Option<&'a str>,
    pub(crate) limit: Option<u32>,
    pub(crate) continue_token: Option<&'a str>,
    pub(crate) resource_version: Option<(&'a str, Option<VersionMatch>)>,
    pub(crate) container: Option<&'a str>,
    pub(crate) tail_lines: Option<u32>,
    pub(crate) previous: bool,
}

/// The object that an Event is about, or that is related to it.
#[derive(Clone)]
pub(crate) enum Target<'a> {
    Object(&'a super::Object),
    Key { kind: Cow<'a, Kind>, key: Cow<'a, Key>, uid: Cow<'a, str> },
}

/// An Event to record.
pub(crate) struct EventParts<'a> {
    pub(crate) about: &'a Target<'a>,
    pub(crate) event_type: EventType,
    pub(crate) reason: &'a str,
    pub(crate) note: &'a str,
    pub(crate) action: Option<&'a str>,
    pub(crate) related: Option<&'a Target<'a>>,
    pub(crate) field_path: Option<&'a str>,
    pub(crate) annotations: &'a [(String, String)],
    pub(crate) timestamp: Option<&'a str>,
}

/// What is done to a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum MetricUse {
    Add(f64),
    Set(f64),
    Observe(f64),
    Remove,
}

/// The declaration of a metric.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Declaration<'a> {
    pub(crate) kind: MetricKind,
    pub(crate) name: &'a str,
    #[cfg_attr(not(target_family = "wasm"), allow(dead_code, reason = "tests do not ask for it"))]
    pub(crate) help: &'a str,
    pub(crate) labels: &'a [&'a str],
    pub(crate) buckets: &'a [f64],
}
