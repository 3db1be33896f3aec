//! What a [`World`](super::World) checks before a call: keys, watches and permissions.

use std::rc::Rc;

use serde_json::Value;

use super::grants::{self, Access, Place};
use super::selector::Selector;
use super::server::{Server, group_of};
use super::state::State;
use crate::bindings::imports::types as raw;
use crate::cache::Query;
use crate::sys::{Called, Object, Refused};
use crate::{Key, Kind, Verb};

/// Most terms of the label selector of a query.
const SELECTOR_TERMS: usize = 64;

pub(super) fn refusal(reason: raw::RefusalReason, message: impl Into<String>) -> raw::Refusal {
    raw::Refusal { reason, message: message.into() }
}

pub(super) fn invalid(message: impl Into<String>) -> raw::Refusal {
    refusal(raw::RefusalReason::Invalid, message)
}

pub(super) fn place(namespace: &str) -> Place<'_> {
    if namespace.is_empty() { Place::Cluster } else { Place::Namespace(namespace) }
}

/// The place of all objects of a kind in a namespace; an empty one means all.
pub(super) fn place_of_all<'a>(server: &Server, kind: &Kind, namespace: &'a str) -> Place<'a> {
    match namespace {
        "" if server.is_namespaced(kind.group(), kind.kind()) => Place::AllNamespaces,
        "" => Place::Cluster,
        namespace => Place::Namespace(namespace),
    }
}

pub(super) fn check_key(key: &Key) -> Refused<()> {
    let is_part =
        |part: &str| part.len() <= 253 && !part.contains('/') && !part.contains(char::is_whitespace);
    if key.name.is_empty() || !is_part(&key.name) || !is_part(&key.namespace) {
        return Err(invalid(format!("`{key}` is not a key")));
    }
    Ok(())
}

impl State {
    pub(super) fn not_watched(&self, kind: &Kind, namespace: &str) -> raw::Refusal {
        let place = if namespace.is_empty() { String::new() } else { format!(" in namespace {namespace}") };
        let message = format!(
            "plugin {} reads {kind}{place} from the cache but does not watch it there: add it to `watches` of the descriptor",
            self.described.name
        );
        refusal(raw::RefusalReason::NotWatched, message)
    }

    /// Checks that the cache may be read for a kind and namespace; an empty one means all.
    pub(super) fn check_list(&self, kind: &Kind, namespace: &str) -> Refused<()> {
        let mut watches = self.described.watches_of(kind).peekable();
        if watches.peek().is_none() {
            return Err(self.not_watched(kind, ""));
        }
        let plural = self.server.info(kind).plural;
        if !grants::sees_any(&self.grants, "list", kind.group(), &plural, namespace) {
            let place = if namespace.is_empty() { Place::AllNamespaces } else { Place::Namespace(namespace) };
            let access = Access { verb: "list", group: kind.group(), resource: &plural, place, name: "" };
            let message = grants::check(&self.grants, &access).err().unwrap_or_default();
            return Err(refusal(raw::RefusalReason::Forbidden, message));
        }
        if !namespace.is_empty() && !watches.any(|watch| watch.covers_namespace(namespace)) {
            return Err(self.not_watched(kind, namespace));
        }
        Ok(())
    }

    pub(super) fn cached(&self, kind: &Kind, object: &Rc<Value>) -> Object {
        match self.described.projected(kind, object) {
            Some(projected) => Object::new(Rc::new(projected), true),
            None => Object::new(Rc::clone(object), false),
        }
    }

    pub(super) fn cache_get(&self, kind: &Kind, key: &Key) -> Refused<Option<Object>> {
        let mut watches = self.described.watches_of(kind).peekable();
        if watches.peek().is_none() {
            return Err(self.not_watched(kind, ""));
        }
        let plural = self.server.info(kind).plural;
        let (verb, group, place) = ("get", kind.group(), place(&key.namespace));
        let access = Access { verb, group, resource: &plural, place, name: &key.name };
        grants::check(&self.grants, &access)
            .map_err(|message| refusal(raw::RefusalReason::Forbidden, message))?;
        if !watches.any(|watch| watch.covers_namespace(&key.namespace)) {
            return Err(self.not_watched(kind, &key.namespace));
        }
        // Selectors of watches limit events, not what the cache shows.
        let found = self.cache.get(&group_of(kind)).and_then(|objects| objects.get(key));
        Ok(found.map(|object| self.cached(kind, object)))
    }

    pub(super) fn select<'a>(
        &'a self,
        kind: &'a Kind,
        query: &Query,
    ) -> Refused<Vec<(&'a Key, &'a Rc<Value>)>> {
        let namespace = query.namespace.as_deref().unwrap_or_default();
        if let Some((index, _)) = &query.index
            && self.described.watches_of(kind).next().is_some()
            && !self.described.has_index(kind, index)
        {
            return Err(self.unknown_index(kind, index));
        }
        self.check_list(kind, namespace)?;
        let selector = query.label_selector.as_deref().unwrap_or_default();
        // Commas separate the terms, and the values of a set.
        let terms = if selector.is_empty() { 0 } else { selector.split(',').count() };
        if terms > SELECTOR_TERMS {
            let message = format!(
                "the label selector has {terms} terms, values of sets included, at most {SELECTOR_TERMS} are allowed \
                 (limits.selectorTerms): use an index, or raise the limit"
            );
            return Err(refusal(raw::RefusalReason::OverLimit, message));
        }
        let selector = Selector::parse(selector).map_err(invalid)?;
        let plural = self.server.info(kind).plural;
        let selected = self.cache.get(&group_of(kind)).into_iter().flatten().filter(|(key, object)| {
            (namespace.is_empty() || key.namespace == namespace)
                && grants::sees(&self.grants, "list", kind.group(), &plural, key)
                && self.described.watches_of(kind).any(|watch| watch.covers_namespace(&key.namespace))
                && selector.matches(object)
                && query.index.as_ref().is_none_or(|(index, value)| {
                    self.described.index_values(kind, index, object).contains(value)
                })
        });
        let limit = query.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(selected.take(limit).collect())
    }

    pub(super) fn unknown_index(&self, kind: &Kind, index: &str) -> raw::Refusal {
        let message = format!(
            "plugin {} has no index {index:?} on {kind}: add it to `indexes` of the descriptor",
            self.described.name
        );
        refusal(raw::RefusalReason::UnknownIndex, message)
    }

    /// Checks a live call.
    pub(super) fn check_call(
        &self,
        verb: Verb,
        kind: &Kind,
        subresource: &str,
        at: Place<'_>,
        name: &str,
    ) -> Called<()> {
        let plural = self.server.info(kind).plural;
        let resource = if subresource.is_empty() { plural } else { format!("{plural}/{subresource}") };
        let access =
            Access { verb: verb.as_str(), group: kind.group(), resource: &resource, place: at, name };
        grants::check(&self.grants, &access)
            .map_err(|message| raw::ClientError::Refused(refusal(raw::RefusalReason::Forbidden, message)))
    }
}
