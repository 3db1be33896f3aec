//! [`Projection`]: the set of fields that are kept of an object.
//!
//! A projection always keeps `apiVersion`, `kind` and the whole `metadata`, because no controller can work without
//! them. Of the rest it keeps the values that its pointers select. A projected object is marked partial
//! ([`Object::is_partial`]) whether or not a field was removed, so that nobody writes it back as a whole object.
//!
//! Invariants: every pointer of the set selects the same values before and after; arrays keep their length, so an index
//! selects the same element; applying a projection twice has the same result as once. A value that is not JSON, which only
//! the text of a trusted sender can have, is kept as it is where a pointer leads into it: the code that parses it gets the error.
//!
//! The informer factory applies projections while decoding. It uses the [`union`](Projection::union) of the projections
//! that its users requested.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::kind::Gvk;
use crate::object::Object;
use crate::pointer::{Pointer, PointerError, PointerStep};
use crate::scan::MemberName;
use crate::walk::{each_element, each_member};

/// A set of JSON pointers: the fields of an object that are kept in addition to `apiVersion`, `kind` and `metadata`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Projection {
    root: ProjectionNode,
}

/// The part of one value that is kept. The default keeps nothing of a scalar, `{}` of an object, and the length of an
/// array.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct ProjectionNode {
    /// Keep the whole value; the other fields are then empty.
    all: bool,
    /// Nodes of members by name, or of array elements by index.
    members: BTreeMap<Box<str>, ProjectionNode>,
    /// The node of every array element.
    each: Option<Box<ProjectionNode>>,
}

impl Projection {
    /// Keeps everything. The result of applying it is not marked partial.
    #[must_use]
    pub fn full() -> Self {
        Self { root: ProjectionNode { all: true, ..ProjectionNode::default() } }
    }

    /// Keeps `apiVersion`, `kind` and `metadata` only.
    #[must_use]
    pub fn metadata_only() -> Self {
        Self { root: ProjectionNode::default() }
    }

    /// Keeps the values that the pointers select. The empty pointer selects everything; a pointer below `/metadata` has
    /// no effect.
    #[must_use]
    pub fn of(pointers: impl IntoIterator<Item = Pointer>) -> Self {
        let mut root = ProjectionNode::default();
        for pointer in pointers {
            root.add(pointer.steps());
        }
        for always in ["apiVersion", "kind", "metadata"] {
            root.members.remove(always);
        }
        Self { root }
    }

    /// As [`of`](Self::of), from pointers in text form.
    ///
    /// # Errors
    /// When a text is not a [`Pointer`].
    pub fn parse<S: AsRef<str>>(pointers: impl IntoIterator<Item = S>) -> Result<Self, PointerError> {
        let parsed = pointers.into_iter().map(|text| Pointer::from_str(text.as_ref()));
        Ok(Self::of(parsed.collect::<Result<Vec<_>, _>>()?))
    }

    /// Whether everything is kept.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.root.all
    }

    /// Whether only `apiVersion`, `kind` and `metadata` are kept.
    #[must_use]
    pub fn is_metadata_only(&self) -> bool {
        self.root == ProjectionNode::default()
    }

    /// The projection that keeps the fields of both.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut root = self.root.clone();
        root.merge(&other.root);
        Self { root }
    }

    /// Whether this projection keeps every field that `other` keeps. An index in `other` is covered by the same index
    /// only: `[*]` does not cover it.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.root.covers(&other.root)
    }

    /// Removes the other fields and returns the projected object; a clone of `object` for the full projection.
    #[must_use]
    pub fn apply(&self, object: &Object) -> Object {
        self.project(object, None)
    }

    /// As [`apply`](Self::apply), and replaces `apiVersion` and `kind` by `kind`: for responses in the form
    /// `PartialObjectMetadata`.
    #[must_use]
    pub fn apply_as(&self, object: &Object, kind: &Gvk) -> Object {
        self.project(object, Some(kind))
    }

    fn project(&self, object: &Object, kind: Option<&Gvk>) -> Object {
        if self.is_full() && kind.is_none() {
            return object.clone();
        }
        let partial = kind.is_some() || !self.is_full();
        let api_version = kind.map_or_else(|| object.api_version().to_owned(), Gvk::api_version);
        let kind = kind.map_or_else(|| object.kind(), |kind| &kind.kind);
        let mut out = String::with_capacity(object.json().len().min(4096));
        out.push_str("{\"apiVersion\":");
        quote(&api_version, &mut out);
        out.push_str(",\"kind\":");
        quote(kind, &mut out);
        let read = each_member(object.json(), |name, value| {
            let node = match name.unescaped().as_deref() {
                None | Some("apiVersion" | "kind") => None,
                Some("metadata") => Some(&WHOLE),
                Some(_) if self.root.all => Some(&WHOLE),
                Some(name) => self.root.members.get(name),
            };
            if let Some(node) = node {
                node.write_member(name, value, &mut out);
            }
            true
        });
        out.push('}');
        // Neither step can fail: decoding the object went over the same text in the same way.
        match read.ok().and_then(|()| Object::decode_again(&out, partial).ok()) {
            Some(projected) => projected,
            None => object.clone(),
        }
    }
}

/// The node of a value that is kept whole.
static WHOLE: ProjectionNode = ProjectionNode { all: true, members: BTreeMap::new(), each: None };

impl ProjectionNode {
    fn add(&mut self, steps: &[PointerStep]) {
        if self.all {
            return;
        }
        match steps.split_first() {
            None => *self = Self { all: true, ..Self::default() },
            Some((PointerStep::Member(name), rest)) => {
                self.members.entry(name.clone()).or_default().add(rest);
            }
            Some((PointerStep::Each, rest)) => self.each.get_or_insert_default().add(rest),
        }
    }

    fn merge(&mut self, other: &Self) {
        if self.all || other.all {
            *self = Self { all: true, ..Self::default() };
            return;
        }
        for (name, node) in &other.members {
            self.members.entry(name.clone()).or_default().merge(node);
        }
        if let Some(each) = &other.each {
            self.each.get_or_insert_default().merge(each);
        }
    }

    fn covers(&self, other: &Self) -> bool {
        let each = || match (&self.each, &other.each) {
            (_, None) => true,
            (Some(mine), Some(theirs)) => mine.covers(theirs),
            (None, Some(_)) => false,
        };
        let members = || {
            let mut theirs = other.members.iter();
            theirs.all(|(name, node)| self.members.get(name).is_some_and(|mine| mine.covers(node)))
        };
        self.all || (!other.all && each() && members())
    }

    /// Appends a comma if needed, the name, and the kept part of the value; nothing when nothing is kept.
    fn write_member(&self, name: &MemberName<'_>, value: &str, out: &mut String) {
        let before = out.len();
        if !out.ends_with('{') {
            out.push(',');
        }
        out.extend(["\"", name.raw().unwrap_or_default(), "\":"]);
        if !self.write(value, out) {
            out.truncate(before);
        }
    }

    /// Appends the kept part of a value. Returns `false` and appends nothing when nothing is kept of a scalar.
    fn write(&self, value: &str, out: &mut String) -> bool {
        let before = out.len();
        let read = if self.all {
            out.push_str(value);
            Ok(())
        } else if value.starts_with('{') {
            out.push('{');
            let read = each_member(value, |name, value| {
                // No pointer leads to a member whose name cannot be unescaped.
                if let Some(node) = name.unescaped().and_then(|name| self.members.get(&*name)) {
                    node.write_member(name, value, out);
                }
                true
            });
            out.push('}');
            read
        } else if value.starts_with('[') {
            out.push('[');
            let mut index = 0_usize;
            let read = each_element(value, |value| {
                if index > 0 {
                    out.push(',');
                }
                if !self.element(index).write(value, out) {
                    out.push_str("null");
                }
                index += 1;
                true
            });
            out.push(']');
            read
        } else {
            return false;
        };
        if read.is_err() {
            out.truncate(before);
            out.push_str(value);
        }
        true
    }

    /// The node of the element at an index.
    fn element(&self, index: usize) -> Cow<'_, Self> {
        let named = if self.members.is_empty() { None } else { self.members.get(index.to_string().as_str()) };
        match (&self.each, named) {
            (None, None) => Cow::Owned(Self::default()),
            (Some(node), None) => Cow::Borrowed(node),
            (None, Some(node)) => Cow::Borrowed(node),
            (Some(each), Some(named)) => {
                let mut node = Self::clone(each);
                node.merge(named);
                Cow::Owned(node)
            }
        }
    }

    fn show(&self, path: &str, out: &mut Vec<String>) {
        if self.all {
            out.push(path.to_owned());
        }
        for (name, node) in &self.members {
            node.show(&format!("{path}/{}", name.replace('~', "~0").replace('/', "~1")), out);
        }
        if let Some(each) = &self.each {
            each.show(&format!("{path}/[*]"), out);
        }
    }
}

/// The pointers in sorted order, separated by spaces; `metadata` for no pointers, `full` for the full projection.
impl fmt::Display for Projection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_full() {
            return f.write_str("full");
        }
        let mut pointers = Vec::new();
        self.root.show("", &mut pointers);
        if pointers.is_empty() {
            return f.write_str("metadata");
        }
        f.write_str(&pointers.join(" "))
    }
}

fn quote(text: &str, out: &mut String) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"a","uid":"u",
        "resourceVersion":"7","labels":{"app":"x"}},"spec":{"nodeName":"n1","a/b":1,"containers":[{"image":"a","ports":[1,2]},
        {"image":"b"},{"name":"no image"},3]},"status":{"phase":"Running"}}"#;

    fn pod() -> Object {
        Object::decode(POD.as_bytes()).unwrap()
    }

    fn projection(pointers: &[&str]) -> Projection {
        Projection::parse(pointers).unwrap()
    }

    fn rest(pointers: &[&str]) -> serde_json::Value {
        let projected = projection(pointers).apply(&pod());
        let mut value: serde_json::Value = serde_json::from_str(projected.json()).unwrap();
        value
            .as_object_mut()
            .unwrap()
            .retain(|name, _| !["apiVersion", "kind", "metadata"].contains(&name.as_str()));
        value
    }

    #[test]
    fn identity_and_metadata_always_stay_and_the_object_is_partial() {
        for pointers in [&[][..], &["/metadata/name"], &["/spec/nodeName"]] {
            let projected = projection(pointers).apply(&pod());
            assert!(projected.is_partial() && !pod().is_partial());
            assert_eq!(projected.get("/metadata"), pod().get("/metadata"));
            assert_eq!((projected.key(), projected.gvk()), (pod().key(), pod().gvk()));
            assert_eq!((projected.uid(), projected.resource_version()), ("u", "7"));
            assert_eq!(projected.label("app").as_deref(), Some("x"));
        }
        assert!(projection(&["/metadata/name"]).is_metadata_only());
    }

    #[test]
    fn the_full_projection_keeps_the_object_itself() {
        let pod = pod();
        for full in [Projection::full(), projection(&["/spec", ""])] {
            assert!(full.is_full() && !full.apply(&pod).is_partial());
            assert!(std::ptr::eq(full.apply(&pod).bytes(), pod.bytes()));
        }
    }

    #[test]
    fn only_what_is_selected_stays() {
        assert_eq!(rest(&["/spec/nodeName"]), serde_json::json!({"spec": {"nodeName": "n1"}}));
        assert_eq!(
            rest(&["/spec/a~1b", "/status"]),
            serde_json::json!({"spec": {"a/b": 1}, "status": {"phase": "Running"}})
        );
        assert_eq!(rest(&["/spec/nodeName/deeper", "/none"]), serde_json::json!({"spec": {}}));
        assert_eq!(rest(&["/status/phase", "/status"]), rest(&["/status"]));
    }

    #[test]
    fn arrays_keep_their_length_and_order() {
        assert_eq!(
            rest(&["/spec/containers/[*]/image"]),
            serde_json::json!({"spec": {"containers": [{"image": "a"}, {"image": "b"}, {}, null]}})
        );
        assert_eq!(
            rest(&["/spec/containers/1/image", "/spec/containers/[*]/ports/[*]"]),
            serde_json::json!({"spec": {"containers": [{"ports": [1, 2]}, {"image": "b"}, {}, null]}})
        );
    }

    #[test]
    fn a_projected_object_can_be_given_its_own_kind() {
        let json =
            r#"{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata","metadata":{"name":"d"}}"#;
        let object = Object::decode(json.as_bytes()).unwrap();
        let kind = Gvk::new("apps", "v1", "Deployment");
        let projected = Projection::metadata_only().apply_as(&object, &kind);
        assert_eq!((projected.gvk(), projected.is_partial()), (kind, true));
    }

    #[test]
    fn a_projection_prints_its_pointers() {
        assert_eq!(projection(&["/status", "/spec/c/[*]/a~1b"]).to_string(), "/spec/c/[*]/a~1b /status");
        assert_eq!(
            (Projection::full().to_string(), Projection::metadata_only().to_string()),
            ("full".into(), "metadata".into())
        );
    }

    fn pointer() -> impl Strategy<Value = String> {
        const STEPS: &[&str] = &["spec", "status", "containers", "image", "nodeName", "[*]", "1", "ports"];
        prop::collection::vec(prop::sample::select(STEPS), 1..4)
            .prop_map(|steps| format!("/{}", steps.join("/")))
    }

    fn text(projection: &Projection, object: &Object) -> String {
        projection.apply(object).json().to_owned()
    }

    proptest! {
        #[test]
        fn what_is_selected_reads_the_same_and_twice_is_once(pointers in prop::collection::vec(pointer(), 0..4)) {
            let projection = Projection::parse(&pointers).unwrap();
            let pod = pod();
            let projected = projection.apply(&pod);
            for pointer in &pointers {
                let pointer: Pointer = pointer.parse().unwrap();
                let (mut before, mut after) = (Vec::new(), Vec::new());
                pod.select(&pointer, |value| before.push(value));
                projected.select(&pointer, |value| after.push(value));
                prop_assert_eq!(before, after);
            }
            prop_assert_eq!(text(&projection, &projected), projected.json());
        }

        #[test]
        fn a_union_covers_both_and_covering_means_nothing_more_is_seen(
            a in prop::collection::vec(pointer(), 0..4), b in prop::collection::vec(pointer(), 0..4),
        ) {
            let (a, b) = (Projection::parse(&a).unwrap(), Projection::parse(&b).unwrap());
            let union = a.union(&b);
            prop_assert!(union.covers(&a) && union.covers(&b) && Projection::full().covers(&union));
            prop_assert_eq!(&union, &b.union(&a));
            prop_assert_eq!(text(&a, &union.apply(&pod())), text(&a, &pod()));
            if a.covers(&b) {
                prop_assert_eq!(text(&b, &a.apply(&pod())), text(&b, &pod()));
                prop_assert_eq!(&union, &a);
            }
        }
    }
}
