//! From a change of a watched object to keys of the plugin's queue: filters, predicates and mappings, all on the host.
//!
//! An update is seen through the filters as client-go's filtering handler sees it: an object that comes into view is added,
//! one that goes out of view is deleted. Predicates judge the event that the filters show, and all must pass. Mappings to other
//! keys give those of the old **and** the new object.

use std::any::Any;
use std::sync::Arc;

use pilothouse_cache::{Event, EventFilter, InformerId, Interest, Judge, Notification, Requirement, Verdict};
use pilothouse_object::{FieldSelector, FieldValues, LabelSelector, Object, ObjectKey, json_string};
use pilothouse_plugin::{KeyMap, Visibility, WatchSpec};

use crate::access::Rights;

/// Most bytes of a key that is read from an object, or that a guest adds to its queue. Namespace and name have 317, but for few
/// kinds.
pub(crate) const LONGEST_KEY: usize = 1024;

/// Which objects a subscription shows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Filter {
    pub(crate) visible: Visibility,
    /// What the ServiceAccount of the plugin may watch.
    pub(crate) rights: Rights,
    /// Namespaces asked for; empty: all that are visible.
    pub(crate) namespaces: Vec<String>,
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
    /// Other informers, whose listeners deliver the objects that they have.
    pub(crate) elsewhere: Arc<[InformerId]>,
}

impl Filter {
    pub(crate) fn new(
        watch: &WatchSpec,
        visible: Visibility,
        rights: Rights,
        elsewhere: Arc<[InformerId]>,
    ) -> Self {
        Self {
            visible,
            rights,
            namespaces: watch.namespaces.clone().unwrap_or_default(),
            labels: watch.label_selector.clone(),
            fields: watch.field_selector.clone(),
            elsewhere,
        }
    }

    /// The interest of a listener whose judge has a verdict only on what the filter shows.
    pub(crate) fn interest_of(&self, judge: impl Judge) -> Interest {
        let mut interest = Interest::new(judge);
        if let Some(scopes) = self.visible.scopes() {
            let required = |(namespace, name): (Option<&str>, Option<&str>)| match (namespace, name) {
                (namespace, None) => Requirement::Namespace(namespace.unwrap_or_default().into()),
                (None, Some(name)) => Requirement::Name(name.into()),
                (Some(""), Some(name)) => Requirement::Key(name.into()),
                (Some(namespace), Some(name)) => Requirement::Key([namespace, "/", name].concat().into()),
            };
            interest = interest.within(scopes.map(required));
        }
        if !self.namespaces.is_empty() {
            // Cluster-scoped objects are in none, and are shown.
            let namespaces = self.namespaces.iter().map(String::as_str).chain([""]);
            interest = interest.within(namespaces.map(|namespace| Requirement::Namespace(namespace.into())));
        }
        interest.with_labels(&self.labels).with_fields(&self.fields)
    }

    /// An event that another subscription took in, as this one shows it; none if it shows none of it.
    pub(crate) fn show(&self, event: Event) -> Option<Event> {
        match event {
            Event::Updated { old: Some(old), new } => {
                let verdict = self.verdict(&Notification::updated(&old, &new, false))?;
                Some(match verdict {
                    Verdict::Added => Event::Added { object: new, initial: false, updated: false },
                    Verdict::Updated => Event::Updated { old: Some(old), new },
                    Verdict::Deleted | Verdict::Forgotten => Event::Deleted {
                        key: new.key().clone(),
                        object: Some(old),
                        final_state_unknown: false,
                    },
                })
            }
            Event::Added { object: ref shown, .. } | Event::Updated { new: ref shown, .. } => {
                self.shows(shown).then_some(event)
            }
            Event::Deleted { ref key, ref object, .. } => {
                let is_shown = object.as_ref().map_or_else(|| self.shows_key(key), |last| self.shows(last));
                is_shown.then_some(event)
            }
        }
    }
}

impl EventFilter for Filter {
    fn shows_key(&self, key: &ObjectKey) -> bool {
        // The namespaces are sorted.
        let wanted = self.namespaces.is_empty()
            || key
                .namespace()
                .is_none_or(|ns| self.namespaces.binary_search_by(|own| (**own).cmp(ns)).is_ok());
        wanted
            && self.visible.sees(key)
            && self.rights.allow(key)
            && !self.elsewhere.iter().any(|id| id.covers(key))
    }

    fn shows(&self, object: &Object) -> bool {
        self.shows_values(&FieldValues::new(object))
    }

    fn shows_values(&self, values: &FieldValues<'_>) -> bool {
        let object = values.object();
        self.shows_key(object.key()) && self.labels.matches(object) && self.fields.matches_values(values)
    }

    fn interest(&self) -> Option<Interest> {
        Some(self.interest_of(self.clone()))
    }
}

impl Judge for Filter {
    fn judge(&self, notification: &Notification<'_>) -> Option<Verdict> {
        self.verdict(notification)
    }

    fn is_equal(&self, other: &dyn Judge) -> bool {
        (other as &dyn Any).downcast_ref() == Some(self)
    }
}

/// Calls `found` with the keys that an object stands for; `namespaced_owner` tells whether the owner kind of an owner
/// mapping lives in namespaces. All keys of a kind are not an object's own, and are found elsewhere ([`Sweep`]).
///
/// [`Sweep`]: crate::dispatch::backfill::Sweep
pub(crate) fn keys(
    map: &KeyMap,
    namespaced_owner: bool,
    values: &FieldValues<'_>,
    found: &mut dyn FnMut(ObjectKey),
) {
    let object = values.object();
    match map {
        KeyMap::Itself => found(object.key().clone()),
        KeyMap::Handler | KeyMap::AllKeys(_) => {}
        KeyMap::Owner { group, kind, controller_only } => {
            for owner in values.owner_references() {
                let same_group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group) == group;
                let counts = !controller_only || owner.controller == Some(true);
                if same_group && owner.kind == *kind && counts {
                    let namespace = object.namespace().filter(|_| namespaced_owner);
                    found_key(ObjectKey::new(namespace, &owner.name), found);
                }
            }
        }
        KeyMap::Label { name, same_namespace } => {
            if let Some(value) = object.label(name) {
                value_key(&value, *same_namespace, object, found);
            }
        }
        KeyMap::Annotation { name, same_namespace } => {
            if let Some(value) = object.annotation(name) {
                value_key(&value, *same_namespace, object, found);
            }
        }
        KeyMap::Field { path, same_namespace } => {
            for value in values.select(path).iter().filter_map(|raw| json_string(raw)) {
                value_key(&value, *same_namespace, object, found);
            }
        }
    }
}

fn value_key(value: &str, same_namespace: bool, object: &Object, found: &mut dyn FnMut(ObjectKey)) {
    let key = if same_namespace { ObjectKey::new(object.namespace(), value) } else { value.parse() };
    found_key(key, found);
}

/// A value that is no key (an empty field, say) maps to nothing, and so does one that names no object: users of the cluster
/// choose it, and the queue of each plugin that maps it would keep it.
fn found_key<E>(key: Result<ObjectKey, E>, found: &mut dyn FnMut(ObjectKey)) {
    if let Ok(key) = key
        && key.as_str().len() <= LONGEST_KEY
        && !key.as_str().contains(char::is_control)
    {
        found(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pilothouse_plugin::{Grants, Rule};

    fn object(json: &str) -> Object {
        Object::decode(json.as_bytes()).unwrap()
    }

    fn pod(node: &str, label: &str) -> Object {
        object(&format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p","namespace":"ns","generation":1,
            "labels":{{"app":"{label}"}},"ownerReferences":[
            {{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"rs","uid":"1","controller":true}},
            {{"apiVersion":"v1","kind":"Node","name":"n","uid":"2"}}]}},"spec":{{"nodeName":"{node}"}}}}"#
        ))
    }

    fn mapped(map: &KeyMap, namespaced: bool, object: &Object) -> Vec<String> {
        let mut out = Vec::new();
        keys(map, namespaced, &FieldValues::new(object), &mut |key| out.push(key.to_string()));
        out
    }

    #[test]
    fn each_mapping_gives_its_keys() {
        let pod = pod("n1", "web");
        assert_eq!(mapped(&KeyMap::Itself, true, &pod), ["ns/p"]);
        let field =
            |path: &str, same_namespace| KeyMap::Field { path: path.parse().unwrap(), same_namespace };
        assert_eq!(mapped(&field("/spec/nodeName", false), true, &pod), ["n1"]);
        assert_eq!(mapped(&field("/spec/nodeName", true), true, &pod), ["ns/n1"]);
        assert_eq!(mapped(&field("/metadata/ownerReferences/[*]/name", false), true, &pod), ["rs", "n"]);
        assert_eq!(mapped(&field("/spec/absent", false), true, &pod), [""; 0]);
        let label = KeyMap::Label { name: "app".into(), same_namespace: true };
        assert_eq!(mapped(&label, true, &pod), ["ns/web"]);
        let owner = |group: &str, kind: &str, controller_only| KeyMap::Owner {
            group: group.into(),
            kind: kind.into(),
            controller_only,
        };
        assert_eq!(mapped(&owner("apps", "ReplicaSet", true), true, &pod), ["ns/rs"]);
        assert_eq!(mapped(&owner("", "Node", false), false, &pod), ["n"]);
        assert_eq!(mapped(&owner("", "Node", true), false, &pod), [""; 0]);
        assert_eq!(mapped(&owner("other", "ReplicaSet", true), true, &pod), [""; 0]);
    }

    /// What an event becomes, and of what it keeps the old state.
    fn shown(filter: &Filter, event: Event) -> &'static str {
        match filter.show(event) {
            None => "nothing",
            Some(Event::Added { .. }) => "added",
            Some(Event::Updated { .. }) => "updated",
            Some(Event::Deleted { .. }) => "deleted",
        }
    }

    #[test]
    fn an_event_of_another_subscription_is_shown_as_this_one_would_have_taken_it_in() {
        let rule = |namespace: &str| Rule {
            groups: vec![String::new()],
            resources: vec!["pods".into()],
            verbs: vec!["watch".into()],
            namespaces: vec![namespace.into()],
            names: Vec::new(),
        };
        let filter = |namespace| Filter {
            visible: Grants::new(vec![rule(namespace)]).visibility("watch", "", "pods"),
            rights: Rights::default(),
            namespaces: Vec::new(),
            labels: "app=web".parse().unwrap(),
            fields: FieldSelector::default(),
            elsewhere: Arc::default(),
        };
        let (web, db) = (|| pod("n", "web"), || pod("n", "db"));
        let key = || web().key().clone();
        let deleted = |object| Event::Deleted { key: key(), object, final_state_unknown: false };
        let cases = [
            (Event::Added { object: web(), initial: true, updated: false }, "added"),
            (Event::Added { object: db(), initial: false, updated: false }, "nothing"),
            (Event::Updated { old: Some(web()), new: web() }, "updated"),
            (Event::Updated { old: Some(db()), new: web() }, "added"),
            (Event::Updated { old: Some(web()), new: db() }, "deleted"),
            (Event::Updated { old: Some(db()), new: db() }, "nothing"),
            (Event::Updated { old: None, new: web() }, "updated"),
            (Event::Updated { old: None, new: db() }, "nothing"),
            (deleted(Some(web())), "deleted"),
            (deleted(Some(db())), "nothing"),
            (deleted(None), "deleted"),
        ];
        for (event, wanted) in cases {
            assert_eq!(shown(&filter("ns"), event.clone()), wanted, "{event:?}");
            assert_eq!(shown(&filter("other"), event.clone()), "nothing", "{event:?}");
        }
    }

    #[test]
    fn a_field_that_names_no_object_maps_to_nothing() {
        let map = |same_namespace| KeyMap::Field { path: "/spec/nodeName".parse().unwrap(), same_namespace };
        let longest = "n".repeat(LONGEST_KEY);
        assert_eq!(mapped(&map(false), true, &pod(&longest, "x")), [&*longest]);
        for value in ["", "a/b/c", "n\\nforged", "n\\u001b[2J", &format!("{longest}n")] {
            assert_eq!(mapped(&map(false), true, &pod(value, "x")), [""; 0], "{value}");
        }
        // With the namespace it is too long.
        assert_eq!(mapped(&map(true), true, &pod(&longest, "x")), [""; 0]);
        let owner = KeyMap::Owner { group: String::new(), kind: "Node".into(), controller_only: false };
        let owned = object(
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"ns","ownerReferences":[
            {"apiVersion":"v1","kind":"Node","name":"n\u001b[2J","uid":"2"}]}}"#,
        );
        assert_eq!(mapped(&owner, false, &owned), [""; 0]);
    }
}
