//! [`WatchSpec`]: a watch of a descriptor, parsed and validated.

use pilothouse_object::{FieldSelector, Gvk, LabelSelector, Pointer};
use serde::Deserialize;

use super::predicate::Predicate;
use super::text::{MapText, PredicateText, WatchText};
use super::{DescribeError, at_most, error, kind, pointer, required};
use crate::limits::DescriptorLimits;
use crate::world::World;

/// Watched objects, and the treatment of their changes.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchSpec {
    /// How event handlers of contract 0.2 are told which watch an event is of: its kind, unless the descriptor says otherwise.
    pub name: String,
    /// The kind of the objects.
    pub kind: Gvk,
    /// Only these namespaces, sorted; empty for all granted namespaces.
    pub namespaces: Option<Vec<String>>,
    /// Only objects with these labels.
    pub label_selector: LabelSelector,
    /// Only objects with these fields.
    pub field_selector: FieldSelector,
    /// Only updates that pass all of these.
    pub predicates: Vec<Predicate>,
    /// The mapping of a change to keys.
    pub map: KeyMap,
    /// Whether changes may be merged.
    pub delivery: Delivery,
}

/// Maps a changed object to keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyMap {
    /// The object's own key.
    Itself,
    /// The owners of this group and kind.
    Owner {
        /// API group of the owner.
        group: String,
        /// Kind of the owner.
        kind: String,
        /// Only the owner that is the managing controller.
        controller_only: bool,
    },
    /// The value of a label.
    Label {
        /// Name of the label.
        name: String,
        /// Whether the value is a name in the object's namespace instead of a key.
        same_namespace: bool,
    },
    /// The strings at a pointer.
    Field {
        /// The pointer.
        path: Pointer,
        /// Whether the value is a name in the object's namespace instead of a key.
        same_namespace: bool,
    },
    /// The guest's event handlers are called instead.
    Handler,
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
    at_most(&format!("{at}.predicates"), "predicates", text.predicates.len(), limits.predicates)?;
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
    let predicates =
        text.predicates.into_iter().enumerate().map(|(i, p)| predicate(&format!("{at}.predicates[{i}]"), p));
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
        predicates: predicates.collect::<Result<_, _>>()?,
        map: map(&format!("{at}.map"), text.map, world)?,
        delivery: text.delivery.unwrap_or_default(),
    })
}

/// Checks that no watch is there twice. Their number is within its limit.
pub(super) fn check_distinct(watches: &[WatchSpec]) -> Result<(), DescribeError> {
    for (position, watch) in watches.iter().enumerate() {
        if let Some(first) = watches[..position].iter().position(|other| other == watch) {
            let at = format!("watches[{position}] ({})", watch.kind);
            return Err(error(at, format!("it is identical to watches[{first}]"), "leave one of them out"));
        }
    }
    Ok(())
}

fn predicate(at: &str, text: PredicateText) -> Result<Predicate, DescribeError> {
    Ok(match text {
        PredicateText::GenerationChanged {} => Predicate::GenerationChanged,
        PredicateText::ResourceVersionChanged {} => Predicate::ResourceVersionChanged,
        PredicateText::LabelsChanged {} => Predicate::LabelsChanged,
        PredicateText::AnnotationsChanged {} => Predicate::AnnotationsChanged,
        PredicateText::FieldChanged { path } => Predicate::FieldChanged(pointer(at, &path)?),
    })
}

fn map(at: &str, text: Option<MapText>, world: World) -> Result<KeyMap, DescribeError> {
    let Some(text) = text else {
        return Ok(if world.reconciles() { KeyMap::Itself } else { KeyMap::Handler });
    };
    let map = match text {
        MapText::Itself {} => KeyMap::Itself,
        MapText::Owner { group, kind, controller_only } => {
            required(at, "kind", &kind)?;
            KeyMap::Owner { group, kind, controller_only }
        }
        MapText::Label { name, same_namespace } => {
            required(at, "name", &name)?;
            KeyMap::Label { name, same_namespace }
        }
        MapText::Field { path, same_namespace } => {
            KeyMap::Field { path: pointer(at, &path)?, same_namespace }
        }
        MapText::Handler {} => KeyMap::Handler,
    };
    match (&map, world.handles(), world.reconciles()) {
        (KeyMap::Handler, false, _) => Err(error(
            at,
            "the guest exports no handler, so nothing would be called",
            "use self, owner, label or field, or build the guest for the world controller",
        )),
        (KeyMap::Handler, true, _) | (_, _, true) => Ok(map),
        (_, _, false) => Err(error(
            at,
            "the guest exports no reconcile, so no key would be worked on",
            "leave the map out, or build the guest for a world with reconcile or reconcile-many",
        )),
    }
}
