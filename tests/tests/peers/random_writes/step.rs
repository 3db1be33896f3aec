//! [`Step`]: one random write, which goes to both servers in the same form.
//!
//! What follows depends only on the seed, the number of the step and the object as the real server has it: so a step stays the
//! same when the development server is mended.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Map, Value, json};

use super::edit::{Change, Edit, pointers, text};
use super::kinds::{Kind, metadata};

/// What the random writes are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mix {
    /// All verbs.
    Everything,
    /// Several writers of the same fields: mostly server-side apply.
    Writers,
}

/// The resource version that an object is sent with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    Current,
    None,
    Stale,
    Malformed,
}

/// What is sent.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Body {
    None,
    Text(String),
    /// The object as each server has it, with changes.
    Changed {
        edits: Vec<Edit>,
        version: Version,
    },
    /// Options of a deletion; whether the UID of the object is a precondition, and which resource version.
    Options {
        options: Value,
        uid: bool,
        version: Version,
    },
}

/// A write.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step {
    pub(super) method: &'static str,
    /// Below the collection: empty, `/NAME`, or `/NAME/SUBRESOURCE`.
    pub(super) below: String,
    pub(super) query: Vec<(&'static str, String)>,
    pub(super) content_type: &'static str,
    pub(super) body: Body,
}

/// Where a write goes, and what is there.
#[derive(Debug)]
pub(super) struct Target<'a> {
    pub(super) kind: &'a Kind,
    pub(super) path: &'a str,
    pub(super) name: &'a str,
    pub(super) part: &'a str,
    /// What a GET of the part answers on the real server.
    pub(super) current: Option<&'a Value>,
}

const MANAGERS: [&str; 4] = ["alice", "bob", "carol", "kubectl"];
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// Makes the steps of a script.
#[derive(Debug)]
pub(super) struct Generator {
    random: StdRng,
    mix: Mix,
}

impl Generator {
    /// The generator of one step.
    pub(super) fn new(seed: u64, number: usize, mix: Mix) -> Self {
        let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(number as u64);
        Self { random: StdRng::seed_from_u64(mixed), mix }
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.random.random_range(0..bound.max(1))
    }

    /// Whether something happens that does so in so many of a hundred cases.
    pub(super) fn percent(&mut self, share: usize) -> bool {
        self.below(100) < share
    }

    pub(super) fn pick<T: Clone>(&mut self, of: &[T]) -> Option<T> {
        of.choose(&mut self.random).cloned()
    }

    /// Which subresource a step is about; mostly none.
    pub(super) fn part(&mut self, kind: &Kind) -> String {
        let share = if self.mix == Mix::Writers { 15 } else { 25 };
        if !self.percent(share) {
            return String::new();
        }
        self.pick(&kind.parts()).unwrap_or_default().to_owned()
    }

    /// The next write.
    pub(super) fn step(&mut self, target: &Target<'_>) -> Step {
        let Some(current) = target.current else { return self.create(target) };
        let is_ending = current["metadata"]["deletionTimestamp"].is_string();
        if is_ending && target.part.is_empty() && self.percent(50) {
            return self.end(target);
        }
        if target.kind.kind == "Pod" && target.part.is_empty() && self.percent(5) {
            return self.on_pod(target);
        }
        let choice = self.below(100);
        match self.mix {
            Mix::Everything => match choice {
                0..3 if target.part.is_empty() => self.create(target),
                3..9 if target.part.is_empty() => self.delete(target),
                0..32 => self.update(target, current),
                32..48 => self.patch(target, current, MERGE),
                48..62 => self.patch(target, current, STRATEGIC),
                62..74 => self.patch(target, current, JSON_PATCH),
                _ => self.apply(target, Some(current)),
            },
            Mix::Writers => match choice {
                0..2 if target.part.is_empty() => self.delete(target),
                0..12 => self.update(target, current),
                12..20 => self.patch(target, current, MERGE),
                20..24 => self.patch(target, current, JSON_PATCH),
                _ => self.apply(target, Some(current)),
            },
        }
    }

    /// A write of something that is not there, mostly; also of something that is.
    fn create(&mut self, target: &Target<'_>) -> Step {
        let number = self.below(100);
        let apply = if self.mix == Mix::Writers { 60 } else { 12 };
        let choice = self.below(100);
        if choice < apply {
            return self.apply(target, None);
        }
        let mut object = target.kind.object(target.path, number, target.name);
        for edit in self.edits(target, &object, 2) {
            edit.apply(&mut object);
        }
        let (method, mut below) = if choice < 93 {
            ("POST", String::new())
        } else {
            (if choice < 97 { "PUT" } else { "PATCH" }, format!("/{}", target.name))
        };
        if method == "PATCH" {
            below.push_str(if target.part.is_empty() { "" } else { "/status" });
        }
        let mut query = self.query(target, false);
        if method == "POST" && self.percent(3) {
            object["metadata"] = json!({"generateName": "made-"});
            query.retain(|(name, _)| *name != "dryRun");
            query.push(("dryRun", "All".to_owned()));
        }
        if self.percent(2) {
            object["metadata"]["resourceVersion"] = "1".into();
        }
        if self.percent(4)
            && let Value::Object(members) = &mut object
        {
            members.remove("apiVersion");
            members.remove("kind");
        }
        let content_type = if method == "PATCH" { MERGE } else { "application/json" };
        Step { method, below, query, content_type, body: Body::Text(text(&object)) }
    }

    fn at(target: &Target<'_>) -> String {
        let slash = if target.part.is_empty() { "" } else { "/" };
        format!("/{}{slash}{}", target.name, target.part)
    }

    /// A PUT of the object as it is, but for some fields.
    fn update(&mut self, target: &Target<'_>, current: &Value) -> Step {
        let version = match self.below(100) {
            0..75 => Version::Current,
            75..90 => Version::None,
            90..98 => Version::Stale,
            _ => Version::Malformed,
        };
        let count = self.below(4);
        let mut edits = self.edits(target, current, count);
        match self.below(100) {
            // Managers are asked for again in what was read, forgotten, or left out.
            0..30 => edits.push(Edit::new("/metadata/managedFields", &Value::Null)),
            30..33 => edits.push(Edit::new("/metadata/managedFields", &json!([]))),
            33..35 => edits.push(Edit::new("/metadata/managedFields", &json!([{}]))),
            35..37 => edits.push(Edit::new("/metadata/managedFields", &json!([{"manager": "x"}]))),
            _ => {}
        }
        Step {
            method: "PUT",
            below: Self::at(target),
            query: self.query(target, false),
            content_type: "application/json",
            body: Body::Changed { edits, version },
        }
    }

    fn patch(&mut self, target: &Target<'_>, current: &Value, content_type: &'static str) -> Step {
        let count = self.below(4);
        let edits = self.edits(target, current, count);
        let mut body = json!({});
        match content_type {
            JSON_PATCH => {
                let odd = self.percent(5);
                let mut operations: Vec<Value> =
                    edits.iter().map(|edit| edit.json_patch(current, odd)).collect();
                if self.percent(10) {
                    let name = if self.percent(80) { target.name } else { "other" };
                    operations.insert(0, json!({"op": "test", "path": "/metadata/name", "value": name}));
                }
                body = operations.into();
            }
            STRATEGIC => edits.iter().for_each(|edit| edit.strategic_patch(current, &mut body)),
            _ => edits.iter().for_each(|edit| edit.merge_patch(current, &mut body)),
        }
        if content_type != JSON_PATCH && self.percent(5) {
            let stale = if self.percent(50) { "1" } else { "" };
            Edit::new("/metadata/resourceVersion", &stale.into()).apply(&mut body);
        }
        if content_type == STRATEGIC && self.percent(5) {
            let directive = if self.percent(50) { "replace" } else { "delete" };
            Edit::new("/metadata/labels/$patch", &directive.into()).apply(&mut body);
        }
        Step {
            method: "PATCH",
            below: Self::at(target),
            query: self.query(target, false),
            content_type,
            body: Body::Text(text(&body)),
        }
    }

    /// A part of a valid object, by one of several managers.
    fn apply(&mut self, target: &Target<'_>, current: Option<&Value>) -> Step {
        let number = self.below(100);
        let mut object = if target.part == "scale" {
            json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": target.name}, "spec": {}})
        } else {
            target.kind.object(target.path, number, target.name)
        };
        // A status is applied alone.
        if !matches!(target.part, "" | "scale")
            && let Value::Object(members) = &mut object
        {
            members.retain(|name, _| matches!(name.as_str(), "apiVersion" | "kind" | "metadata"));
        }
        let count = self.below(4);
        for edit in self.edits(target, &object, count) {
            edit.apply(&mut object);
        }
        if current.is_some() {
            self.thin(&mut object);
        }
        match self.below(100) {
            0..2 => Edit::new("/metadata/managedFields", &json!([])).apply(&mut object),
            2..4 => Edit::new("/metadata/resourceVersion", &"1".into()).apply(&mut object),
            4..5 => Edit::new("/metadata/uid", &"other".into()).apply(&mut object),
            _ => {}
        }
        Step {
            method: "PATCH",
            below: Self::at(target),
            query: self.query(target, true),
            content_type: APPLY,
            body: Body::Text(text(&object)),
        }
    }

    /// Takes some fields out of what is applied: the rest is somebody else's.
    fn thin(&mut self, object: &mut Value) {
        for _ in 0..self.below(4) {
            let mut all = Vec::new();
            pointers(object, "", &mut all);
            all.retain(|pointer| {
                let named =
                    ["/apiVersion", "/kind", "/metadata", "/metadata/name"].contains(&pointer.as_str());
                // Elements of lists keep what they are known by.
                let is_key = ["name", "type", "containerPort", "port", "mountPath"]
                    .iter()
                    .any(|key| pointer.ends_with(&format!("/{key}")));
                !named && !is_key
            });
            let Some(pointer) = self.pick(&all) else { return };
            Edit { pointer, change: Change::Remove }.apply(object);
        }
    }

    fn delete(&mut self, target: &Target<'_>) -> Step {
        let (mut options, mut uid, mut version) = (Map::new(), false, Version::None);
        let mut query = Vec::new();
        match self.below(10) {
            0 => _ = options.insert("propagationPolicy".to_owned(), "Orphan".into()),
            1 => _ = options.insert("propagationPolicy".to_owned(), "Foreground".into()),
            2 => _ = options.insert("propagationPolicy".to_owned(), "Background".into()),
            3 => uid = true,
            4 => version = Version::Current,
            5 => version = Version::Stale,
            6 => query.push(("dryRun", "All".to_owned())),
            7 => query.push(("propagationPolicy", "Never".to_owned())),
            _ => {}
        }
        if self.percent(40) {
            options.insert("gracePeriodSeconds".to_owned(), [0, 1, 30][self.below(3)].into());
        }
        let body = if options.is_empty() && !uid && version == Version::None {
            Body::None
        } else {
            Body::Options { options: options.into(), uid, version }
        };
        Step {
            method: "DELETE",
            below: format!("/{}", target.name),
            query,
            content_type: "application/json",
            body,
        }
    }

    /// Lets go of an object that is being deleted.
    fn end(&mut self, target: &Target<'_>) -> Step {
        let below = format!("/{}", target.name);
        if self.percent(40) {
            let body = Body::Options {
                options: json!({"gracePeriodSeconds": 0}),
                uid: false,
                version: Version::None,
            };
            return Step { method: "DELETE", below, query: vec![], content_type: "application/json", body };
        }
        let body = Body::Text(json!({"metadata": {"finalizers": null}}).to_string());
        Step { method: "PATCH", below, query: vec![], content_type: MERGE, body }
    }

    /// A binding or an eviction.
    fn on_pod(&mut self, target: &Target<'_>) -> Step {
        let (part, body) = if self.percent(60) {
            let node = ["n1", "n2", ""][self.below(3)];
            let annotations = if self.percent(30) { json!({"bound": "yes"}) } else { Value::Null };
            (
                "binding",
                json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": target.name, "annotations": annotations}, "target": {"kind": "Node", "name": node}}),
            )
        } else {
            let dry = if self.percent(50) { json!({"dryRun": ["All"]}) } else { Value::Null };
            (
                "eviction",
                json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": target.name}, "deleteOptions": dry}),
            )
        };
        Step {
            method: "POST",
            below: format!("/{}/{part}", target.name),
            query: Vec::new(),
            content_type: "application/json",
            body: Body::Text(body.to_string()),
        }
    }

    fn query(&mut self, target: &Target<'_>, is_apply: bool) -> Vec<(&'static str, String)> {
        let mut query = Vec::new();
        if self.percent(5) {
            query.push(("dryRun", "All".to_owned()));
        }
        if self.percent(25) && target.part != "scale" {
            query.push(("fieldValidation", ["Strict", "Warn", "Ignore"][self.below(3)].to_owned()));
        }
        if self.percent(if is_apply { 99 } else { 60 }) {
            query.extend(self.pick(&MANAGERS).map(|manager| ("fieldManager", manager.to_owned())));
        }
        if self.percent(if is_apply { 45 } else { 1 }) {
            query.push(("force", "true".to_owned()));
        }
        query
    }

    /// Some edits of an object, most of them to valid values.
    fn edits(&mut self, target: &Target<'_>, object: &Value, count: usize) -> Vec<Edit> {
        (0..count).filter_map(|_| self.edit(target, object)).collect()
    }

    fn edit(&mut self, target: &Target<'_>, object: &Value) -> Option<Edit> {
        let damaged = if self.mix == Mix::Writers { 4 } else { 9 };
        match self.below(100) {
            choice if choice < damaged => self.damage(object),
            choice if choice < 25 + damaged => {
                let (pointer, values) = self.pick(&metadata().into_iter().collect::<Vec<_>>())?;
                let value = self.pick(values.as_array()?)?;
                Some(Edit::new(&pointer, &value))
            }
            choice => {
                // The main fields at a subresource, now and then: they are not to change.
                let part = if choice > 93 { "" } else { target.part };
                let edits = target.kind.edits(part);
                let (pointer, values) = self.pick(&edits)?;
                Some(Edit::new(pointer, &self.pick(values)?))
            }
        }
    }

    /// What a client should not send.
    fn damage(&mut self, object: &Value) -> Option<Edit> {
        let mut all = Vec::new();
        pointers(object, "", &mut all);
        let object_pointers: Vec<String> = all
            .iter()
            .filter(|pointer| object.pointer(pointer).is_some_and(Value::is_object))
            .filter(|pointer| !pointer.contains("managedFields"))
            .cloned()
            .collect();
        // Nor what differs from server to server.
        let by_chance = [
            "managedFields",
            "/apiVersion",
            // Without a name, a real server fails to give a Service an address before it says what is missing.
            "/metadata/name",
            "/metadata/uid",
            "/metadata/resourceVersion",
            "/metadata/creationTimestamp",
            "/nodePort",
            "/healthCheckNodePort",
            "/clusterIP",
            "controller-uid",
        ];
        all.retain(|pointer| pointer != "/metadata" && !by_chance.iter().any(|part| pointer.contains(part)));
        let set = |pointer: String, value: Value| Some(Edit { pointer, change: Change::Set(value) });
        match self.below(10) {
            0..3 => set(format!("{}/surprise", self.pick(&object_pointers)?), json!(1)),
            3..5 => {
                let pointer = self.pick(&all)?;
                let value = object.pointer(&pointer)?.clone();
                // Go merges what is there twice into one struct, so only plain values are.
                let is_plain = !value.is_object() && !value.is_array();
                if !is_plain || object.pointer(pointer.rsplit_once('/')?.0).is_some_and(Value::is_array) {
                    return None;
                }
                Some(Edit { pointer, change: Change::Twice(value) })
            }
            5..7 => {
                let pointer = self.pick(&all)?;
                let wrong = match object.pointer(&pointer)? {
                    Value::String(_) => [json!(5), json!(true), json!({}), json!([])][self.below(4)].clone(),
                    Value::Number(_) => {
                        [json!("x"), json!(1.5), json!({}), json!(true)][self.below(4)].clone()
                    }
                    Value::Object(_) => [json!("x"), json!([]), json!(1)][self.below(3)].clone(),
                    _ => [json!("x"), json!({}), json!(1)][self.below(3)].clone(),
                };
                set(pointer, wrong)
            }
            7..9 => Some(Edit { pointer: self.pick(&all)?, change: Change::Remove }),
            _ => {
                let (pointer, value) = [
                    ("/metadata/uid", "other"),
                    ("/metadata/creationTimestamp", "2020-01-01T00:00:00Z"),
                    ("/metadata/name", "other"),
                    ("/metadata/namespace", "other"),
                    ("/metadata/generateName", "other-"),
                    ("/metadata/selfLink", "/x"),
                    ("/metadata/deletionTimestamp", "2020-01-01T00:00:00Z"),
                    ("/kind", "Other"),
                    ("/apiVersion", "other/v1"),
                ][self.below(9)];
                set(pointer.to_owned(), value.into())
            }
        }
    }
}
