//! [`WatchSpec`]: a watch of a descriptor, parsed and validated.

use pilothouse_object::{FieldSelector, Gvk, LabelSelector};
use serde::Deserialize;

use super::key_map::{self, KeyMap};
use super::predicate::{self, Predicate};
use super::text::WatchText;
use super::{DescribeError, at_most, error, kind};
use crate::limits::DescriptorLimits;
use crate::world::World;

/// Watched objects, and the treatment of their changes.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchSpec {
    /// How event handlers are told which watch an event is of: its kind, unless the descriptor says otherwise.
    pub name: String,
    /// The kind of the objects.
    pub kind: Gvk,
    /// Only these namespaces, sorted; empty for all granted namespaces.
    pub namespaces: Option<Vec<String>>,
    /// Only objects with these labels.
    pub label_selector: LabelSelector,
    /// Only objects with these fields.
    pub field_selector: FieldSelector,
    /// Only events that pass all of these.
    pub predicates: Vec<Predicate>,
    /// The mappings of a change to keys, one at least; [`KeyMap::Handler`] is the only one.
    pub maps: Vec<KeyMap>,
    /// Whether changes may be merged.
    pub delivery: Delivery,
}

impl WatchSpec {
    /// Whether the guest's event handlers are called.
    #[must_use]
    pub fn is_handled(&self) -> bool {
        matches!(self.maps[..], [KeyMap::Handler])
    }
}

/// Treatment of changes that arrive faster than they are handled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Delivery {
    /// The changes are merged.
    #[default]
    Latest,
    /// Each change is delivered, up to a limit.
    Every,
}

/// The number of terms of a selector, values of its sets included, as `limits.selectorTerms` counts them.
#[must_use]
pub fn selector_terms(selector: &str) -> usize {
    // Commas separate the terms, and the values of a set.
    if selector.is_empty() { 0 } else { selector.split(',').count() }
}

/// Maximum length in bytes of the name of a watch.
const MAX_WATCH_NAME: usize = 253;

pub(super) fn watch(
    at: &str,
    text: WatchText,
    world: World,
    limits: &DescriptorLimits,
) -> Result<WatchSpec, DescribeError> {
    let kind = kind(at, &text.group, &text.version, &text.kind)?;
    let mut namespaces = text.namespaces.unwrap_or_default();
    at_most(&format!("{at}.namespaces"), "watchNamespaces", namespaces.len(), limits.watch_namespaces)?;
    let predicates = predicate::predicates(&format!("{at}.predicates"), text.predicates, limits)?;
    for (field, selector) in
        [("labelSelector", &text.label_selector), ("fieldSelector", &text.field_selector)]
    {
        let terms = selector_terms(selector.as_deref().unwrap_or_default());
        at_most(&format!("{at}.{field}"), "selectorTerms", terms, limits.selector_terms)?;
    }
    namespaces.sort_unstable();
    namespaces.dedup();
    if namespaces.iter().any(String::is_empty) {
        return Err(error(
            format!("{at}.namespaces"),
            "an entry is empty",
            "leave it out; no entry at all means all namespaces",
        ));
    }
    let all = namespaces.is_empty() || namespaces.iter().any(|namespace| namespace == "*");
    let selector = |field: &str, e: &dyn std::fmt::Display, example| {
        error(format!("{at}.{field}"), e.to_string(), format!("write one like {example}"))
    };
    let name = match text.name {
        None => kind.kind.clone(),
        Some(name) if (1..=MAX_WATCH_NAME).contains(&name.len()) => name,
        Some(name) => {
            let reason = format!("it has {} bytes", name.len());
            return Err(error(format!("{at}.name"), reason, "write 1 to 253 bytes, or leave it out"));
        }
    };
    Ok(WatchSpec {
        name,
        kind,
        namespaces: (!all).then_some(namespaces),
        label_selector: text
            .label_selector
            .unwrap_or_default()
            .parse()
            .map_err(|e| selector("labelSelector", &e, "app=web,tier!=test"))?,
        field_selector: text
            .field_selector
            .unwrap_or_default()
            .parse()
            .map_err(|e| selector("fieldSelector", &e, "spec.nodeName=n1"))?,
        predicates,
        maps: key_map::maps(&format!("{at}.map"), text.map, world)?,
        delivery: text.delivery.unwrap_or_default(),
    })
}

/// Checks that watches whose events go to handlers have names of their own, by which handlers know them.
pub(super) fn check_names(watches: &[WatchSpec]) -> Result<(), DescribeError> {
    let handled = || watches.iter().enumerate().filter(|(_, watch)| watch.is_handled());
    for (position, watch) in handled() {
        let is_same = |(at, other): &(usize, &WatchSpec)| *at < position && other.name == watch.name;
        if let Some((first, _)) = handled().find(is_same) {
            let at = format!("watches[{position}] ({}).name", watch.kind);
            let reason = format!("{:?} is the name of watches[{first}] too", watch.name);
            return Err(error(at, reason, "give each watch of the event handlers a name of its own"));
        }
    }
    Ok(())
}

/// Checks that no watch is there twice, under whatever name. Their number is within its limit.
pub(super) fn check_distinct(watches: &[WatchSpec]) -> Result<(), DescribeError> {
    let is_same =
        |one: &WatchSpec, other: &WatchSpec| *one == WatchSpec { name: one.name.clone(), ..other.clone() };
    for (position, watch) in watches.iter().enumerate() {
        if let Some(first) = watches[..position].iter().position(|other| is_same(watch, other)) {
            let at = format!("watches[{position}] ({})", watch.kind);
            return Err(error(at, format!("it is identical to watches[{first}]"), "leave one of them out"));
        }
    }
    Ok(())
}
